//! Programs, and what becomes of their variables.

use super::{Merge, MergeArray, plan};
use crate::{NoWorld, Options, Resolved, Sources, load};

fn resolved(text: &str) -> Resolved {
    let mut sources = Sources::default();
    sources.add("program", text.as_bytes().to_vec());
    let (result, diagnostics) = load(sources, &Options::default(), &mut NoWorld);
    result.unwrap_or_else(|_| panic!("{text}: {:?}", diagnostics.list()))
}

/// The plan as `name:merge` words, or `-` and the first reason.
fn outcome(text: &str) -> String {
    let program = resolved(text);
    let name = |n: u32| {
        program
            .names
            .text(program.globals[n as usize].name)
            .to_string()
    };
    let merge = |merge: Merge| match merge {
        Merge::Sum => "sum".to_string(),
        Merge::Append => "append".to_string(),
        Merge::Extreme { greater, guarded } => format!(
            "{}{}",
            if greater { "max" } else { "min" },
            if guarded { "?" } else { "" }
        ),
        Merge::Last => "last".to_string(),
        Merge::Follow(of) => format!("with-{}", name(of)),
    };
    match plan(&program) {
        Ok(plan) => {
            let scalars = plan
                .scalars
                .iter()
                .map(|(n, m)| format!("{}:{}", name(*n), merge(*m)));
            let arrays = plan.arrays.iter().map(|(n, m)| {
                let how = match m {
                    MergeArray::Elements(m) => merge(*m),
                    MergeArray::Made => "made".to_string(),
                    MergeArray::Whole => "whole".to_string(),
                };
                format!("{}[]:{how}", name(*n))
            });
            let mut words: Vec<String> = scalars.chain(arrays).collect();
            words.sort();
            words.join(" ")
        }
        Err(reasons) => format!("- {}", reasons[0].what),
    }
}

#[test]
fn what_is_summed_up_joined_and_looked_for_is_put_together() {
    for (program, expected) in [
        ("{ n[$1]++ } END { for (k in n) print k, n[k] }", "n[]:sum"),
        ("{ s += $4; c++ } END { print s / c }", "c:sum s:sum"),
        (
            "{ s = s + $4; t = $2 + t; u = u - $1 }",
            "s:sum t:sum u:sum",
        ),
        (
            "/x/ { lines = lines $0 \"\\n\" } { by[$1] = by[$1] \" \" $2 }",
            "by[]:append lines:append",
        ),
        ("$3 > max { max = $3; line = $0 }", "line:with-max max:max"),
        ("{ if (low == \"\" || $1 < low) low = $1 }", "low:min?"),
        (
            "{ if (!($1 in top) || $2 > top[$1]) top[$1] = $2 }",
            "top[]:max?",
        ),
        (
            "{ for (i = 1; i <= NF; i++) n[tolower($i)]++ }",
            "i:last n[]:sum",
        ),
        (
            "{ k = $1 SUBSEP $2; n[k] += $3; last[$1] = $0 }",
            "k:last last[]:last n[]:sum",
        ),
        (
            "{ split($0, part, \",\"); n[part[2]]++ }",
            "n[]:sum part[]:whole",
        ),
        (
            "BEGIN { while ((getline w < \"stop\") > 0) stop[w] } !($1 in stop) { n++ }",
            "n:sum",
        ),
        ("{ if (seen[$1]) n++ }", "n:sum seen[]:made"),
        (
            "function f(x, y) { y = x * 2; return y } { s += f($1) }",
            "s:sum",
        ),
        ("function add(k) { n[k]++ } { add($1); add($2) }", "n[]:sum"),
        (
            "match($0, /a+/) { n[substr($0, RSTART, RLENGTH)]++ }",
            "n[]:sum",
        ),
        (
            "{ t = 0; for (i = 1; i <= NF; i++) t += $i; if (t > m) m = t }",
            "i:last m:max t:last",
        ),
        (
            "{ sub(/x/, \"y\"); $2 = $3; n[$2 NF]++ } END { print rand() }",
            "n[]:sum",
        ),
        ("NR > 1 { n++ }", "n:sum"),
        ("/x/ { print; n++ } /y/", "n:sum"),
    ] {
        assert_eq!(outcome(program), expected, "{program}");
    }
}

#[test]
fn what_depends_on_earlier_records_is_refused() {
    for program in [
        "{ print > $1 }",
        "{ print | \"cat\" }",
        "BEGIN { x = 1 }",
        "!seen[$0]++",
        "{ n[$1]++; if (n[$1] > 3) c++ }",
        "{ d += $1 - last; last = $1 }",
        "{ last = $1; n++ } $1 == n { c++ }",
        "/a/, /b/ { n++ }",
        "{ n++ } n > 10 { exit }",
        "{ x = x * 2 }",
        "{ x += $1; x = 0 }",
        "{ if ($1) t = 0; t += 1 }",
        "{ getline; n++ }",
        "{ n += rand() }",
        "{ FS = \",\"; n++ }",
        "{ delete a[$1]; n++ }",
        "{ a[$1][$2]++ }",
        "{ system($0) }",
        "{ f = \"g\"; @f() } function g() { n++ }",
        "{ if (!($1 in first)) first[$1] = $2 }",
        "{ s = s (s == \"\" ? \"\" : \",\") $1 }",
        "$1 > max { max = $1; beaten++ }",
        "$1 > max { max = $1; line = $0 } $2 > max { max = $2 }",
        "{ if ($1 >= max) max = $1 }",
        "{ n[$1]++; c = length(n) }",
        "{ x = y; y = $1 }",
        "function f(a) { a[1]++ } { f(n) }",
        "{ SYMTAB[\"x\"]++ } END { print x }",
        "ENDFILE { n++ } { m++ }",
        "{ n++; nextfile }",
        "{ if (RSTART) n++; match($0, /x/) }",
        "{ if (seen[$1]) n++ } $2 in seen { m++ }",
        // Found by somebody who tried to break it.
        "{ x = x (x = $1) }",
        "{ x = x + (x = $1) }",
        "{ a[1] = a[1] split($0, a) }",
        "{ a[i] = a[i] (i = $1) }",
        "{ n[$1] = n[$1] ($1 = $2 % 5) }",
        "{ do { if ($1 % 2) continue; x = $2 } while ((c[NR] = x) == \"never\") }",
        "{ ENVIRON[$1]++ }",
        "{ if (PROCINFO[$2]) n++ }",
        "{ ARGV[2] = \"\"; n++ }",
        "function f(p) { p[\"q\"]++ } { f(ENVIRON) }",
        "function g(p, k) { p[k]++ } BEGIN { a[\"x\"][1] = 0 } { g(a[\"x\"], $1) }",
        "{ if (m[b[\"z\" $3]] < length(b[\"y\" $3])) m[b[\"z\" $3]] = length(b[\"y\" $3]) }",
    ] {
        let outcome = outcome(program);
        assert!(outcome.starts_with("- "), "{program}: {outcome}");
    }
}
