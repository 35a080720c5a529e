//! What programs in AWK, sed and jq are found to do.

use shell_plan::annotation::Combine;
use shell_plan::program::{Ends, Reading, SumColumn, Together, read};

mod common;

use common::{annotation, annotations, words};

fn reading(call: &str) -> Reading {
    let all = annotations();
    let words = words(call);
    let name = String::from_utf8(words[0].clone()).unwrap();
    let annotation = annotation(&all, &name).unwrap();
    let call = annotation.call(&words, false).unwrap();
    let texts: Vec<_> = (call.programs.iter())
        .map(|program| Some(words[program.word][program.from..].to_vec()))
        .collect();
    read(call.of.program.unwrap(), &words, &call, &texts)
}

/// `stays`, or how parts are put together, or `whole`.
fn outcome(call: &str) -> String {
    let reading = reading(call);
    if reading.stays.is_some() {
        return "stays".to_owned();
    }
    match reading.lines {
        Ok(Together::As(Combine::Concat)) => "concat".to_owned(),
        Ok(Together::As(Combine::Sum)) => "sum".to_owned(),
        Ok(Together::As(other)) => format!("{other:?}"),
        Ok(Together::Sums(lines)) => {
            let text = |column: &SumColumn| match column {
                SumColumn::Sum => "+".to_owned(),
                SumColumn::Text(text) => String::from_utf8_lossy(text).into_owned(),
            };
            let line = |line: &Vec<SumColumn>| line.iter().map(text).collect::<Vec<_>>().join(" ");
            let lines: Vec<String> = lines.iter().map(line).collect();
            format!("sums {}", lines.join(" / "))
        }
        Ok(Together::Counts { key_first: true }) => "counts behind".to_owned(),
        Ok(Together::Counts { key_first: false }) => "counts before".to_owned(),
        Err(_) => "whole".to_owned(),
    }
}

#[test]
fn awk_programs_are_split_where_records_are_independent_and_only_counts_are_kept() {
    for (call, expected) in [
        ("awk '{ print $1 }'", "concat"),
        ("awk '/x/'", "concat"),
        ("awk '$3 > 5 { printf \"%s\", $1 }'", "concat"),
        ("awk -F: -v n=3 '$n { print n, $1 }' x=1 a", "concat"),
        ("awk '{ n++ } END { print n }'", "sum"),
        ("awk '/x/ { n += 2 } END { print n + 0 }'", "sum"),
        ("awk 'END { print NR }'", "sum"),
        (
            "awk '{ n[$1]++ } END { for (k in n) print k, n[k] }'",
            "counts behind",
        ),
        (
            "awk '{ n[$1]++ } END { for (k in n) { print n[k], k } }'",
            "counts before",
        ),
        ("awk '{ s += $1 } END { print s }'", "sums +"),
        (
            "awk '{ s += $1; n++ } END { print \"total\", s; print n, s }'",
            "sums total + / + +",
        ),
        // Sums of what may be fractions depend on their order, and are looked at as they are.
        (
            "awk 'BEGIN { OFMT = \"%.2f\" } { s += $1 } END { print s }'",
            "whole",
        ),
        ("awk -v OFMT=%d '{ s += $1 } END { print s }'", "whole"),
        ("awk -v s=1 '{ s += $1 } END { print s }'", "whole"),
        ("awk 'BEGIN { s = 1 } { s += $1 } END { print s }'", "whole"),
        (
            "awk 'BEGIN { s += 1 } { s += $1 } END { print s }'",
            "whole",
        ),
        ("awk '{ s -= $1 } END { print s }'", "whole"),
        (
            "awk '{ s += $1 } $1 > 5 { s = 0 } END { print s }'",
            "whole",
        ),
        ("awk '{ s += $1; if (s > 5) n++ } END { print n }'", "whole"),
        ("awk '{ s += $1 } END { print s / 2 }'", "whole"),
        ("awk '{ s += $1 } END { printf \"%d\\n\", s }'", "whole"),
        ("awk '{ s += $1 } END { print \"a\\nb\", s }'", "whole"),
        ("awk '{ s += $1 } END { s += 1; print s }'", "whole"),
        ("awk '{ n++ } END { print n / 2 }'", "whole"),
        ("awk '{ n++; print } END { print n }'", "whole"),
        ("awk 'BEGIN { n = 3 } { n++ } END { print n }'", "whole"),
        ("awk -v n=3 '{ n++ } END { print n }'", "whole"),
        ("awk '{ n++ } END { print n }' n=3 a", "whole"),
        ("awk -v ORS=x '{ n++ } END { print n }'", "whole"),
        (
            "awk 'BEGIN { OFS = \":\" } { n[$1]++ } END { for (k in n) print k, n[k] }'",
            "whole",
        ),
        (
            "awk '{ n[$1 \"\\n\"]++ } END { for (k in n) print k, n[k] }'",
            "whole",
        ),
        (
            "awk '{ n[$1] += $2 } END { for (k in n) print k, n[k] }'",
            "whole",
        ),
        (
            "awk '{ n[$1]++ } END { n[\"x\"] = 1; for (k in n) print k, n[k] }'",
            "whole",
        ),
        ("awk 'BEGIN { print \"head\" } { print $1 }'", "whole"),
        ("awk 'BEGIN { getline } { print $1 }'", "whole"),
        (
            "awk 'function f() { print 1 } BEGIN { f() } { print $1 }'",
            "whole",
        ),
        ("awk 'BEGIN { RS = \"\" } { print $1 }'", "whole"),
        ("awk -v RS= '{ print $1 }'", "whole"),
        ("awk '{ print $1 }' RS=x a", "whole"),
        ("awk '{ print NR, $1 }'", "whole"),
        ("awk '!seen[$0]++'", "whole"),
        ("awk '{ print FILENAME }' a", "whole"),
        ("awk '{ print rand() }'", "whole"),
        ("awk '/x/ { exit } { print }'", "whole"),
        ("awk 'BEGIN { x = 1 }'", "whole"),
        ("gawk -k '{ print $1 }'", "whole"),
        ("gawk '{ print gensub(/a/, \"b\", 1) }'", "concat"),
        // A name that no function of POSIX has.
        ("awk '{ print gensub(/a/, \"b\", 1) }'", "stays"),
        ("awk '{ print > $1 }'", "stays"),
        ("awk '{ print | \"sort\" }'", "stays"),
        ("awk '{ system($0) }'", "stays"),
        ("awk '{ while ((getline l < \"f\") > 0) print l }'", "stays"),
        ("awk '{ \"date\" | getline d; print d }'", "stays"),
        ("gawk '{ print systime() }'", "stays"),
        ("gawk '{ f = $1; @f() }'", "stays"),
        ("gawk '@load \"readdir\"; { print }'", "stays"),
        ("awk 'BEGIN { ARGV[1] = \"f\" } { print }'", "stays"),
        ("awk '{ print $1 '", "stays"),
    ] {
        assert_eq!(outcome(call), expected, "{call}");
    }
    assert!(reading("awk '{ print > \"/dev/stderr\" }'").stays.is_none());
    assert!(reading("awk '/x/ { exit } { print }'").early);
    assert!(!reading("awk '{ print } END { exit 3 }'").early);
    assert!(reading("awk '{ n++ } END { print n }'").waits);
    assert!(!reading("awk '{ print }'").waits);
    assert!(reading("pmawk '{ s += $1 } END { print s }'").shares);
    assert!(!reading("pmawk '{ s += $1; print s }'").shares);
    assert!(!reading("gawk '{ s += $1 } END { print s }'").shares);
    assert_eq!(reading("awk '{ printf \"%s \", $1 }'").ends, Ends::Unknown);
    assert_eq!(reading("awk '{ printf \"%s\\n\", $1 }'").ends, Ends::Always);
    assert_eq!(
        reading("awk '{ printf(\"%s\\n\", $1) }'").ends,
        Ends::Always
    );
    assert_eq!(reading("awk 'BEGIN { ORS = \" \" } 1'").ends, Ends::Unknown);
}

#[test]
fn sed_scripts_are_split_where_lines_are_independent() {
    for (call, expected) in [
        ("sed s/a/b/", "concat"),
        ("sed -n '/x/p'", "concat"),
        ("sed -e '/x/d' -e 's,a,b,gI;y/abc/xyz/'", "concat"),
        ("sed 's/[^/]*$//'", "concat"),
        ("sed 's/[[:space:]/]*$//;p'", "concat"),
        ("sed -E '/a/!{s/x/y/2;p;}'", "concat"),
        ("sed ':a;s/^x*y/z/;ta'", "concat"),
        ("sed '\\,x,d # comment'", "concat"),
        ("sed 1d", "whole"),
        ("sed '$d'", "whole"),
        ("sed /a/,/b/d", "whole"),
        ("sed '/a/,+3d'", "whole"),
        ("sed '1~2d'", "whole"),
        ("sed 5q", "whole"),
        ("sed 'N;s/a/b/'", "whole"),
        ("sed 'x;p'", "whole"),
        ("sed '/x/s//y/'", "whole"),
        ("sed =", "whole"),
        ("sed '/x/a\\\ntext'", "whole"),
        ("sed -z s/a/b/", "whole"),
        ("sed ':a;N;$!ba;s/\\n/ /g'", "whole"),
        ("sed 's/a/b/w out'", "stays"),
        ("sed 's/a/b/e'", "stays"),
        ("sed '/x/w out'", "stays"),
        ("sed 'r f'", "stays"),
        ("sed -e '/x/e' ", "stays"),
        ("sed 'a\\\ntext\\\nw no\nw out'", "stays"),
        ("sed F", "stays"),
        ("sed 's/a/b'", "stays"),
        ("sed 'v 4.2'", "stays"),
    ] {
        assert_eq!(outcome(call), expected, "{call}");
    }
    assert!(reading("sed 5q").early && !reading("sed 5d").early);
}

#[test]
fn jq_filters_are_cut_only_where_lines_are_values() {
    for (call, expected) in [
        ("jq .a", "whole"),
        ("jq -R .", "concat"),
        ("jq -R 'input'", "whole"),
        ("jq -Rs .", "whole"),
        ("jq -Rn inputs", "whole"),
        ("jq -Re .", "whole"),
        ("jq 'import \"x\" as x; .'", "stays"),
        ("jq now", "stays"),
        ("jq '\"\\(now)\"'", "stays"),
        ("jq 'input_filename'", "whole"),
    ] {
        assert_eq!(outcome(call), expected, "{call}");
    }
    assert!(reading("jq input_filename").names);
    assert_eq!(reading("jq -j .a").ends, Ends::Unknown);
}
