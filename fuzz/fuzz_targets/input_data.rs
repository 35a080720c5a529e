//! Input that is anything: fixed programs read it and check in AWK what must hold for every text.
//!
//! The first byte of an input chooses the program, the second the charset, the rest is what it reads. A program prints a
//! line that begins with `BAD` if something does not hold; the programs of [`COPIES`] must print their input.
#![no_main]

use awk::Error;
use awk::fields::{csv, tsv};
use awk::json::Json;
use awk::settings::Notation;
use awk::text::Charset;
use libfuzzer_sys::fuzz_target;
use perdure_fuzz::Run;

/// Programs that print what they read, byte for byte.
const COPIES: &[&str] = &[
    r#"BEGIN { ORS = "" } { print $0 RT }"#,
    r#"BEGIN { RS = "x" } { printf "%s%s", $0, RT }"#,
    r#"BEGIN { RS = "a+|\n\n|[b-d]x?" } { printf "%s%s", $0, RT }"#,
    r#"BEGIN { RS = "(ab|a)(c|bcd)\n*" } { printf "%s%s", $0, RT }"#,
    r#"BEGIN { RS = "^a|é|\\yb\\y"; IGNORECASE = 1 } { printf "%s%s", $0, RT }"#,
    r#"BEGIN { RS = "^\x01" } { printf "%s%s", $0, RT }"#,
    r#"{ for (i = 1; i <= length($0); i++) printf "%s", substr($0, i, 1); printf "%s", RT }"#,
    r#"{ n = split($0, a, /[ab]+|c/, seps); s = seps[0]; for (i = 1; i <= n; i++) s = s a[i] seps[i]; printf "%s%s", s, RT }"#,
    r#"{ n = split($0, a, " ", seps); s = seps[0]; for (i = 1; i <= n; i++) s = s a[i] seps[i]; printf "%s%s", s, RT }"#,
    r#"{ n = patsplit($0, a, /[^,]*|"[^"]*"/, seps); s = seps[0]; for (i = 1; i <= n; i++) s = s a[i] seps[i]; printf "%s%s", s, RT }"#,
    r#"{ n = patsplit($0, a, /(\w+)|\s/, seps); s = seps[0]; for (i = 1; i <= n; i++) s = s a[i] seps[i]; printf "%s%s", s, RT }"#,
    r#"{ gsub(/[a-m]+|./, "&"); gsub(/x*/, "&"); sub(/(a|ab)(c|bcd)/, "&"); printf "%s%s", $0, RT }"#,
    r#"{ s = gensub(/(.)(.)/, "\\2\\1", "g"); s = gensub(/(.)(.)/, "\\2\\1", "g", s); printf "%s%s", s, RT }"#,
];

/// Programs that check what they read.
const CHECKS: &[&str] = &[
    // Fields by blanks, and the record made of them.
    r#"{ n = NF; for (i = 1; i <= n; i++) { a[i] = $i; if ($i == "" || $i ~ /[ \t\n]/) print "BAD blank", i }
         if (n) { $1 = $1; if (NF != n) print "BAD NF"; for (i = 1; i <= n; i++) if (a[i] "" != $i "") print "BAD field", i
           m = split($0, b, " "); if (m != n) print "BAD split"; for (i = 1; i <= n; i++) if (b[i] "" != $i "") print "BAD split field" } }"#,
    // One character, a regular expression, nothing.
    r#"BEGIN { FS = ","; OFS = "," } { s = $0; n = NF; if (n) $n = $n; if (s "" != $0 "") print "BAD rebuilt"; if (gsub(/,/, ",", s) != (n ? n - 1 : 0)) print "BAD count" }"#,
    r#"BEGIN { FS = "" } { if (NF != length($0)) print "BAD length"; s = ""; for (i = 1; i <= NF; i++) s = s $i; if (s "" != $0 "") print "BAD text" }"#,
    r#"BEGIN { FS = "[0-9]+|a*b" } { for (i = 1; i <= NF; i++) if ($i ~ /[0-9]|b/) print "BAD separator in a field" }"#,
    // Paragraphs.
    r#"BEGIN { RS = ""; FS = "\n" } { if ($0 == "" || $0 ~ /^\n|\n\n/) print "BAD paragraph"; if (RT !~ /^\n*$/) print "BAD RT"
         for (i = 1; i <= NF; i++) if ($i ~ /\n/) print "BAD line" }"#,
    // What a match is.
    r#"BEGIN { n = split("a+b|b+|[^x]y|^.|(a|ab)(c|bcd)(d*)|\\<w+\\>|(x*)(y|z)*|[[:alpha:]]{2,3}$", pat, "|")
         pat[++n] = "(a|ab)(c|bcd)(d*)"; pat[++n] = "(x*)(y|z)*"; pat[++n] = "(^|,)([^,]*)" }
       { for (p = 1; p <= n; p++) { if (pat[p] ~ /^[^(]*\)|\([^)]*$/) continue
           r = match($0, pat[p], m); if (r != RSTART || (r > 0) != (RLENGTH >= 0)) print "BAD match"
           if (r && substr($0, RSTART, RLENGTH) "" != m[0] "") print "BAD text of the match"
           if ((r > 0) != ($0 ~ pat[p])) print "BAD ~"
           for (i = 1; i < 4; i++) if ((i, "start") in m) { if (substr($0, m[i, "start"], m[i, "length"]) "" != m[i] "") print "BAD group"
             if (m[i, "start"] < RSTART || m[i, "start"] + m[i, "length"] > RSTART + RLENGTH) print "BAD place of a group" } } }"#,
    // Case.
    r#"BEGIN { IGNORECASE = 1 } { s = toupper($0); t = tolower($0); if (tolower(t) "" != t "") print "BAD tolower"
         if ((s ~ /abc|[d-f]+x/) != (t ~ /abc|[d-f]+x/)) print "BAD folding"; k = index($0, "aB"); if (k && tolower(substr($0, k, 2)) != "ab") print "BAD index" }"#,
    // Data as formats, without widths that ask for much.
    r#"{ f = $0; gsub(/[0-9][0-9][0-9]+/, "7", f); gsub(/\*/, "", f); if (f ~ /\$/) next; s = sprintf(f, $1, 2.5, -3, "x", 1e300, "", 65, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20); if (length(s) > 100 * length(f) + 4000) print "BAD length" }"#,
    // Numbers.
    r#"{ x = $1 + 0; if (x == x && (x "") + 0 != x && x == int(x) && x < 1e15 && x > -1e15) print "BAD integer"; y = strtonum($2); z = sprintf("%.17g", y) + 0; if (y == y && z != y && z - z == 0) print "BAD digits"
         if ($1 == $2 && $1 < $2) print "BAD order"; if (!($1 == $1 || $1 ~ /[nN][aA][nN]/)) print "BAD equality" }"#,
    // Arrays in order.
    r#"{ for (i = 1; i <= NF; i++) { v[NR, i] = $i; c++ } } END { n = asort(v, w); if (n != c + 0) print "BAD count"
         n = asorti(v, w); if (n != c + 0) print "BAD count of keys"; for (i = 2; i <= n; i++) if (w[i] "" < w[i - 1] "") print "BAD order of keys"
         PROCINFO["sorted_in"] = "@val_str_desc"; first = 1; for (k in v) { if (!first && v[k] "" > last "") print "BAD descent"; last = v[k]; first = 0 } }"#,
    // NF and far fields.
    r#"BEGIN { OFS = "-" } { n = NF; $(n + 3) = "x"; if (NF != n + 3 || $(n + 2) != "") print "BAD growth"; NF = 2; s = $1 "-" $2; if ($0 "" != s) print "BAD cut" }"#,
    // Parts of texts.
    r#"{ n = length($0); for (i = -1; i <= n + 1 && i < 40; i++) if (substr($0, 1, i) substr($0, i + 1) "" != $0 "" && i >= 0) print "BAD parts"; if (length(substr($0, 2, 3)) > 3) print "BAD part" }"#,
    // Times.
    r#"{ t = mktime($0); if (t != int(t)) print "BAD moment"; f = $0; gsub(/[0-9][0-9][0-9]+/, "7", f); s = strftime(f, 1e9, 1); s = strftime(f, -1e12) }
       { d = strftime("%Y %m %d %H %M %S", NR * 86399 * 31, 1); if (mktime(d, 1) != NR * 86399 * 31) print "BAD mktime" }"#,
    // Widths.
    r#"BEGIN { FIELDWIDTHS = "2 1:3 *" } { if (NF > 3) print "BAD NF"; if (length($1) > 2 || length($2) > 3) print "BAD width"; if ($1 $2 $3 "" != substr($0, 1, 2) substr($0, 4) "") print "BAD text" }"#,
    // Patterns of fields. A byte that is no character is matched by no bracket, and so parts fields.
    r#"BEGIN { FPAT = "([^,]*)|(\"[^\"]+\")" } { for (i = 1; i <= NF; i++) if ($i ~ /,/ && $i !~ /^"/) print "BAD comma"; t = $0; if ($0 !~ /"/ && gsub(/./, "", t) == length($0)) { s = $0; if (NF != (s == "" ? 0 : gsub(/,/, "", s) + 1)) print "BAD NF" } }"#,
    // A pattern from the data: a message or a match, never more.
    r#"{ if ($0 ~ $1) n++; m = split($0, a, $2); k = gsub($1, "[&]"); if (k < 0) print "BAD count" }"#,
    r#"BEGINFILE { c = 0 } { c++; if ($0 == "next") nextfile; while (c < 5 && (getline line) > 0) c++; getline; if (NR < FNR) print "BAD NR" }"#,
    r#"BEGIN { RS = "\n|," } /a/, /b/ { $2 = NR; n += NF; switch ($1) { case /^[0-9]/: x++; break; case "a": y++; default: z++ } delete q[NR % 7]; q[$1] = $2 } END { if (length(q) > NR) print "BAD size" }"#,
];

/// Of CSV and TSV.
const FIELDS: &str = r#"{ n = NF; for (i = 1; i <= n; i++) a[i] = $i; $1 = $1; for (i = 1; i <= n; i++) if (a[i] "" != $i "") print "BAD field" } END { $(3) = "x"; if (NF < 3) print "BAD NF" }"#;

/// Of records that are JSON.
const JSON: &str = r#"function walk(a, depth,   k) { for (k in a) if (isarray(a[k])) walk(a[k], depth + 1); else n += length(a[k]); if (depth > 200) print "BAD depth" } { walk(j, 1) }"#;

/// Whether the patterns of the program come from the data, so that they may be refused.
fn may_be_refused(program: &str) -> bool {
    program.contains("$0 ~ $1") || program.contains("sprintf(f,")
}

fn check(run: &Run, program: &str, input: &[u8]) {
    let (result, printed) = run.play(program, input);
    if let Err(error) = &result {
        assert!(
            matches!(error, Error::Run(_)) && (may_be_refused(program) || run.json.is_some()),
            "{program}: {error}"
        );
    }
    assert!(
        !printed.windows(3).any(|word| word == b"BAD"),
        "{program}: {}",
        String::from_utf8_lossy(&printed)
    );
}

/// A splitter of fields: appends their places, and says whether they lie in the record or in the text.
type Split = fn(&[u8], &mut Vec<(u32, u32)>, &mut Vec<u8>) -> csv::Source;

/// What one side writes as fields, the other reads as the same.
fn fields_come_back(input: &[u8], separator: u8, split: Split, push: fn(&[u8], &mut Vec<u8>)) {
    let values: Vec<&[u8]> = input.split(|byte| *byte == 0).collect();
    let mut record = Vec::new();
    for (index, value) in values.iter().enumerate() {
        if index > 0 {
            record.push(separator);
        }
        push(value, &mut record);
    }
    let (mut places, mut text) = (Vec::new(), Vec::new());
    let source = split(&record, &mut places, &mut text);
    let bytes = match source {
        csv::Source::Record => &record,
        csv::Source::Text => &text,
    };
    let found: Vec<&[u8]> = places
        .iter()
        .map(|(start, end)| &bytes[*start as usize..*end as usize])
        .collect();
    // An empty record has no field.
    if !record.is_empty() {
        assert_eq!(found, values);
    }
}

fuzz_target!(|data: &[u8]| {
    let [which, charset, input @ ..] = data else {
        return;
    };
    let mut run = Run::new(if charset % 2 == 0 {
        Charset::Utf8
    } else {
        Charset::Bytes
    });
    let which = usize::from(*which) % (COPIES.len() + CHECKS.len() + 4);
    if let Some(program) = COPIES.get(which) {
        let (result, printed) = run.play(program, input);
        assert!(result.is_ok(), "{program}: {}", result.unwrap_err());
        assert!(
            printed == input,
            "{program}: not the input but {:?}",
            String::from_utf8_lossy(&printed)
        );
        return;
    }
    if let Some(program) = CHECKS.get(which - COPIES.len()) {
        check(&run, program, input);
        return;
    }
    match which - COPIES.len() - CHECKS.len() {
        0 => run.input = Notation::Csv,
        1 => run.input = Notation::Tsv,
        2 => {
            fields_come_back(input, b',', csv::split, csv::push);
            fields_come_back(input, b'\t', tsv::split, tsv::push);
            return;
        }
        _ => {
            let _ = Json::parse(input);
            run.json = Some("j");
            check(&run, JSON, input);
            return;
        }
    }
    check(&run, FIELDS, input);
});
