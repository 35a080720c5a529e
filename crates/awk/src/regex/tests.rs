//! The expectations are gawk's answers, one table per corner of the syntax.

use super::*;

/// `match()` as AWK gives it: 1-based start and length.
fn found(pattern: &str, hay: &str) -> Option<(usize, usize)> {
    let regex = Regex::new(pattern.as_bytes(), Charset::Utf8, false).unwrap();
    let hit = regex.find_at(hay.as_bytes(), 0);
    assert_eq!(
        hit.is_some(),
        regex.is_match(hay.as_bytes()),
        "{pattern} on {hay}"
    );
    for general in [false, true] {
        let regex = Regex::new(pattern.as_bytes(), Charset::Utf8, false).unwrap();
        assert_eq!(
            hit,
            much_used(regex, general).find_at(hay.as_bytes(), 0),
            "{pattern} on {hay}, by the automaton"
        );
    }
    hit.map(|(start, end)| (start + 1, end - start))
}

#[test]
fn signs_without_an_operand_stand_for_themselves() {
    for (pattern, hay, expected) in [
        ("*a", "*a", Some((1, 2))),
        ("+a", "+a", Some((1, 2))),
        ("a|*b", "b", None),
        ("a|*b", "*b", Some((1, 2))),
        ("(*b)", "*b", Some((1, 2))),
        ("^*b", "*b", Some((1, 2))),
        ("^*b", "b", None),
        ("a**", "aaa", Some((1, 3))),
        ("a+*", "aaa", Some((1, 3))),
        ("{1}", "{1}", Some((1, 3))),
        ("^{1}", "{1}", Some((1, 3))),
        ("(^*a)", "*a", Some((1, 2))),
        (r"\>*b", "a*b", Some((2, 2))),
        (")", ")", Some((1, 1))),
        ("a)", "a)", Some((1, 2))),
    ] {
        assert_eq!(found(pattern, hay), expected, "{pattern} on {hay}");
    }
}

#[test]
fn intervals_are_gawks() {
    for (pattern, hay, expected) in [
        ("a{2}{3}", "aaaaaaa", Some((1, 6))),
        ("a{", "a{", Some((1, 2))),
        ("a{x", "a{x", Some((1, 3))),
        ("a{,2}", "aaa", Some((1, 2))),
        ("a{,}", "aaa", Some((1, 3))),
        ("a{1,2", "a{1,2", Some((1, 5))),
        ("a{0}", "a", Some((1, 0))),
        ("a{0,0}b", "ab", Some((2, 1))),
        ("a{1}{", "a{", Some((1, 2))),
        (r"a\{1}", "a{1}", Some((1, 4))),
        ("a{2,3}{2}", "aaaaa", Some((1, 5))),
        ("a{32767}", "a", None),
    ] {
        assert_eq!(found(pattern, hay), expected, "{pattern} on {hay}");
    }
}

#[test]
fn brackets_are_posix_with_awks_escapes() {
    for (pattern, hay, expected) in [
        ("[]a]", "]", Some((1, 1))),
        ("[^]a]", "]b", Some((2, 1))),
        ("[a-]", "-", Some((1, 1))),
        (r"[a\]b]", "b]", Some((1, 1))),
        ("[[:alpha:][:digit:]]", "1", Some((1, 1))),
        ("[:alpha:]", "a", Some((1, 1))),
        ("[[=a=]]", "a", Some((1, 1))),
        ("[[.-.]]", "-", Some((1, 1))),
        ("[a[.-.]z]", "-", Some((1, 1))),
        ("[[.a.]-c]", "b", Some((1, 1))),
        ("[--a]", ".", Some((1, 1))),
        (r"[\/]", "/", Some((1, 1))),
        (r"[\w]", "w", Some((1, 1))),
        (r"[\w]", "a", None),
        (r"[a\-z]", "b", None),
        (r"[a\n]", "\n", Some((1, 1))),
        (r"[\b]", "\x08", Some((1, 1))),
        (r"[\135]", "]", Some((1, 1))),
        (r"[a-\x63]", "b", Some((1, 1))),
        ("[[:alpha:]-]", "-", Some((1, 1))),
        ("[[a]", "[", Some((1, 1))),
        (r"[\[:alpha:]]", "a]", Some((1, 2))),
        ("[a-é]", "b", Some((1, 1))),
        ("[^\n]", "é", Some((1, 2))),
    ] {
        assert_eq!(found(pattern, hay), expected, "{pattern} on {hay}");
    }
}

#[test]
fn escapes_and_anchors_are_gawks() {
    for (pattern, hay, expected) in [
        (r"\52", "aa*", Some((3, 1))),
        (r"a\x2a", "aa*", Some((1, 2))),
        (r"\x414", "A4", Some((1, 2))),
        (r"\x", "x", Some((1, 1))),
        (r"\8", "8", Some((1, 1))),
        (r"\018", "\x018", Some((1, 2))),
        (r"\303\251*", "éé", Some((1, 4))),
        (r"\q", "q", Some((1, 1))),
        (r"\y", "ab cd", Some((1, 0))),
        (r"\Bb", "ab", Some((2, 1))),
        (r"\<b", "a b", Some((3, 1))),
        (r"\yé", "aé", None),
        (r"\w+", "  ab_1 ", Some((3, 4))),
        (r"\s", "a b", Some((2, 1))),
        (r"a\'", "a", Some((1, 1))),
        ("x*^b", "b", Some((1, 1))),
        ("b$x*", "b", Some((1, 1))),
        ("a^b", "a^b", None),
        ("a|^b", "cb", None),
        ("()", "a", Some((1, 0))),
        ("a||b", "b", Some((1, 1))),
        ("(|a)b", "ab", Some((1, 2))),
        ("a.c", "a\nc", Some((1, 3))),
        ("^b", "a\nb", None),
        ("(a|ab)(c|bcd)(d*)", "abcd", Some((1, 4))),
        ("[[:upper:]]+", "aÉÀb", Some((2, 4))),
    ] {
        assert_eq!(found(pattern, hay), expected, "{pattern} on {hay}");
    }
}

#[test]
fn invalid_bytes_match_no_character() {
    let find = |pattern: &[u8], hay: &[u8]| {
        Regex::new(pattern, Charset::Utf8, false)
            .unwrap()
            .find_at(hay, 0)
    };
    assert_eq!(find(b"a.b", b"a\xffb"), None);
    assert_eq!(find(b"[^a]", b"a\xffb"), Some((2, 3)));
    assert_eq!(find(b"\\xff", b"a\xffb"), Some((1, 2)));
    assert_eq!(find(b"a\0b", b"xa\0b"), Some((1, 4)));
    let bytes = Regex::new(b"a.b", Charset::Bytes, false).unwrap();
    assert_eq!(bytes.find_at(b"a\xffb", 0), Some((0, 3)));
}

#[test]
fn bad_patterns_say_what_and_where() {
    for (pattern, offset, what) in [
        ("(", 0, "unmatched ("),
        ("a(b(c)", 1, "unmatched ("),
        ("x[", 1, "unmatched ["),
        ("[a", 0, "unmatched ["),
        ("[]", 0, "unmatched ["),
        ("[a\\", 0, "unmatched ["),
        ("[[:alpha:", 1, "unmatched [:"),
        ("a\\", 1, "trailing backslash"),
        ("a{2,1}", 1, "invalid content of {}"),
        ("a{32768}", 1, "repetition count"),
        ("a{}", 1, "invalid content of {}"),
        ("a{99999999999999999999}", 1, "repetition count"),
        ("[z-a]", 1, "invalid range end"),
        ("[a-c-e]", 1, "invalid range end"),
        ("[[:alpha:]-z]", 1, "invalid range end"),
        ("[a-[:digit:]]", 1, "invalid range end"),
        ("[[:foo:]]", 1, "invalid character class name [:foo:]"),
        ("[[.hyphen.]]", 1, "invalid collation character"),
    ] {
        let error = Regex::new(pattern.as_bytes(), Charset::Utf8, false).unwrap_err();
        assert!(
            error.offset == offset && error.what.starts_with(what),
            "{pattern}: {error}"
        );
    }
}

#[test]
fn huge_patterns_are_refused_not_built() {
    for pattern in [
        "(a{1000}){1000}".to_string(),
        "((a{1000}){1000}){1000}".into(),
        "(".repeat(100_000),
        {
            let mut p = "a".to_string();
            for _ in 0..1000 {
                p.push_str("{2}");
            }
            p
        },
    ] {
        assert!(Regex::new(pattern.as_bytes(), Charset::Utf8, false).is_err());
    }
    let nested = format!("{}a{}", "(".repeat(200), ")".repeat(200));
    assert_eq!(found(&nested, "ba"), Some((2, 1)));
    // Exponential for a backtracking engine.
    let hay = "a".repeat(5000);
    assert_eq!(found("(a*)*(a*)*(a*)*b", &hay), None);
    assert_eq!(found("(a|aa)*", &hay), Some((1, 5000)));
}

#[test]
fn case_is_ignored_on_request() {
    let find = |pattern: &str, hay: &str| {
        Regex::new(pattern.as_bytes(), Charset::Utf8, true)
            .unwrap()
            .find_at(hay.as_bytes(), 0)
    };
    assert_eq!(find("abc", "xABC"), Some((1, 4)));
    assert_eq!(find("é", "É"), Some((0, 2)));
    assert_eq!(find("[^A]", "ab"), Some((1, 2)));
    assert_eq!(find("[a-b]+", "ABC"), Some((0, 2)));
}

#[test]
fn searches_go_on_from_a_position() {
    let regex = |p: &str| Regex::new(p.as_bytes(), Charset::Utf8, false).unwrap();
    assert_eq!(regex("^a").find_at(b"aa", 1), None);
    assert_eq!(regex("^[ab]").find_at(b"aa", 1), None);
    assert_eq!(regex("a*").find_at(b"baa", 1), Some((1, 3)));
    assert_eq!(regex(r"\<[ab]").find_at(b"aa", 1), None);
    assert_eq!(regex("a$").find_at(b"aa", 2), None);
    assert_eq!(regex("").find_at(b"aa", 2), Some((2, 2)));
}

#[test]
fn partial_matches_say_whether_they_may_grow() {
    let partial = |p: &str, hay: &str| {
        let regex = Regex::new(p.as_bytes(), Charset::Utf8, false).unwrap();
        regex
            .find_partial(hay.as_bytes(), 0)
            .map(|m| (m.start, m.end, m.settled))
    };
    assert_eq!(partial("x+", "axx"), Some((1, 3, false)));
    assert_eq!(partial("x+", "axxb"), Some((1, 3, true)));
    assert_eq!(partial("x|xy*z", "axyy"), Some((1, 2, false)));
    assert_eq!(partial("x|xy*z", "axyya"), Some((1, 2, true)));
    assert_eq!(partial("x$", "ax"), Some((1, 2, false)));
    assert_eq!(partial("xx", "axx"), Some((1, 3, true)));
    assert_eq!(partial("x*", "abc"), None);
    assert_eq!(partial("a.*b|x", "a..x"), Some((3, 4, false)));
    assert_eq!(partial("a[^c]*b|x", "a.cx"), Some((3, 4, true)));
    assert_eq!(partial("abcd|bc?", "zabc"), Some((2, 4, false)));
}

/// The places of a match's groups, 1-based start and length, `-` for a group that took no part.
fn places(pattern: &str, hay: &str) -> String {
    let regex = Regex::new(pattern.as_bytes(), Charset::Utf8, false).unwrap();
    let mut places = Places::new();
    if !regex.captures_at(hay.as_bytes(), 0, &mut places) {
        return "no".to_string();
    }
    let shown: Vec<String> = places
        .iter()
        .map(|place| {
            place.map_or("-".to_string(), |(start, end)| {
                format!("{},{}", start + 1, end - start)
            })
        })
        .collect();
    shown.join(" ")
}

#[test]
fn groups_lie_where_gawk_finds_them() {
    for (pattern, hay, expected) in [
        ("(a|ab)(c|bcd)(d*)", "abcd", "1,4 1,1 2,3 5,0"),
        ("(a*)*b", "aaab", "1,4 1,3"),
        ("(a*)+", "", "1,0 1,0"),
        ("((a)|(b))*", "ab", "1,2 2,1 1,1 2,1"),
        ("(ab|(a)b)+", "abab", "1,4 3,2 -"),
        ("(a){0}(b)", "ab", "2,1 - 2,1"),
        ("(()|a)+", "abc", "1,1 1,1 1,0"),
        ("(()|a)*b", "aab", "1,3 2,1 1,0"),
        ("(a*)(ab)*(b*)", "ab", "1,2 1,1 - 2,1"),
        ("(x|xy|xyz)(z|yz|)(.*)", "xyz", "1,3 1,1 2,2 4,0"),
        ("(a{1,2}){2}", "aaaa", "1,4 3,2"),
        ("(a{1,2})*", "aaaaa", "1,5 5,1"),
        ("((a)|(b)|(c)){2,3}", "abcabc", "1,3 3,1 1,1 2,1 3,1"),
        (r"(\y){,3}", "abb", "1,0 -"),
        ("((b)?){,3}", "bac", "1,1 2,0 1,1"),
        ("((b)?)*", "bac", "1,1 1,1 1,1"),
        ("((|a)(a){0,2}é)*", "aaéca", "1,4 1,4 1,1 2,1"),
        ("(((b){,3}){2,}){,3}", "bx", "1,1 2,0 2,0 1,1"),
        ("(foo)|(bar)", "xbar", "2,3 - 2,3"),
        ("^(a+)$", "aaa", "1,3 1,3"),
        ("(a)(b)?", "xac", "2,1 2,1 -"),
    ] {
        assert_eq!(places(pattern, hay), expected, "{pattern} on {hay}");
    }
}

#[test]
fn groups_of_repeated_nothing_are_left_again() {
    // gawk does not come back from these: there is only that the places are some.
    for (pattern, hay) in [
        ("(()+|(.{2,2}\n{2,2}\n{2,2}A*|()*)*|)*||", "x\n\n\n\n\n"),
        ("(((||[Aa]..?){1,3}|.+)|(A{2,}||^)*()*a*|)*a*a*||", "Aaaaaa"),
    ] {
        let regex = Regex::new(pattern.as_bytes(), Charset::Utf8, false).unwrap();
        let mut places = Places::new();
        assert!(regex.captures_at(hay.as_bytes(), 0, &mut places));
        assert_eq!(places[0], Some((0, 6)), "{pattern}");
        let is_inside = |(start, end): &(usize, usize)| start <= end && *end <= 6;
        assert!(places.iter().flatten().all(is_inside), "{places:?}");
    }
}

#[test]
fn groups_of_long_matches_are_found_in_little_memory() {
    let hay = format!("{}:{}", "ab".repeat(400_000), "c".repeat(300_000));
    assert_eq!(
        places("((a)|(b))*:(c*)(c)", &hay),
        "1,1100001 800000,1 799999,1 800000,1 800002,299999 1100001,1"
    );
}

#[test]
fn one_pattern_serves_with_and_without_case() {
    let regex = Regex::new("é(b+)x".as_bytes(), Charset::Utf8, false).unwrap();
    let hay = "ÉbBX".as_bytes();
    assert!(!regex.is_match(hay));
    assert_eq!(regex.insensitive().find_at(hay, 0), Some((0, 5)));
    let mut places = Places::new();
    assert!(regex.insensitive().captures_at(hay, 0, &mut places));
    assert_eq!(places, [Some((0, 5)), Some((2, 4))]);
    let bytes = Regex::new(b"\\xe9a", Charset::Bytes, false).unwrap();
    assert!(bytes.insensitive().is_match(b"\xe9A"));
    assert!(!bytes.insensitive().is_match(b"\xc9A"));
}

#[test]
fn each_syntax_has_its_operators() {
    let find = |syntax, pattern: &str, hay: &str| {
        let options = Options {
            syntax,
            ..Options::new(Charset::Utf8)
        };
        Regex::compile(pattern.as_bytes(), options).map(|r| r.find_at(hay.as_bytes(), 0))
    };
    for syntax in [Syntax::Posix, Syntax::Traditional] {
        assert_eq!(find(syntax, r"\s", "a s"), Ok(Some((2, 3))));
        assert_eq!(find(syntax, r"\<a", "<a"), Ok(Some((0, 2))));
        assert_eq!(find(syntax, r"\'", "'"), Ok(Some((0, 1))));
        assert_eq!(find(syntax, "a{2}", "caaa"), Ok(Some((1, 3))));
        assert_eq!(find(syntax, "a{x", "a{x"), Ok(Some((0, 3))));
    }
    assert_eq!(find(Syntax::Traditional, r"\x41", "A"), Ok(Some((0, 1))));
    assert_eq!(find(Syntax::Posix, r"\x41", "A"), Ok(None));
    assert_eq!(find(Syntax::Gawk, r"\u00e9", "xé"), Ok(Some((1, 3))));
    for pattern in ["*a", "(*a)", "a|*b", "^*", "{1}", "$*"] {
        let error = find(Syntax::Posix, pattern, "").unwrap_err();
        assert_eq!(
            error.what, "invalid preceding regular expression",
            "{pattern}"
        );
    }
}

/// The pattern as one that has its automaton: that of the general engine, or the best.
fn much_used(regex: Regex, general: bool) -> Regex {
    if let Plan::Automaton(automaton) = &regex.plan {
        automaton.build(general);
    }
    regex
}

#[test]
fn all_ways_to_search_agree() {
    let pieces: [&[u8]; 30] = [
        b"a",
        b"b",
        b"\xc3\xa9",
        b".",
        b"[ab]",
        b"[^a]",
        b"[[:alpha:]]",
        b"\\w",
        b"\\W",
        b"\\s",
        b"\\S",
        b"\\y",
        b"\\B",
        b"\\<",
        b"\\>",
        b"^",
        b"$",
        b"|",
        b"(",
        b")",
        b"*",
        b"+",
        b"?",
        b"{1,3}",
        b"{2}",
        b"ab",
        b"(a|ab)",
        b"\xff",
        b"\\.",
        b"-",
    ];
    let letters: [&[u8]; 9] = [
        b"a",
        b"b",
        b"ab",
        b"\xc3\xa9",
        b" ",
        b"\xff",
        b"\xc3",
        b"-",
        b"\xe6\x97\xa5",
    ];
    let mut state = 20_261_120u64;
    let mut below = |n: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as usize % n
    };
    let (mut tried, mut direct, mut ahead) = (0, 0, 0);
    for _ in 0..12_000 {
        let pattern: Vec<u8> = (0..1 + below(7))
            .flat_map(|_| pieces[below(30)].to_vec())
            .collect();
        let charset = [Charset::Utf8, Charset::Bytes][below(2)];
        let make = || Regex::new(&pattern, charset, false);
        let Ok(regex) = make() else { continue };
        if !matches!(regex.plan, Plan::Automaton(_)) {
            continue;
        }
        let built = much_used(regex, true);
        let table = much_used(make().unwrap(), false);
        if let Plan::Automaton(automaton) = &table.plan {
            direct += usize::from(automaton.is_direct());
        }
        let parsed = parse::parse(&pattern, Options::new(charset), parse::Parens::Capture).unwrap();
        let (fast, slow) = (Groups::new(&parsed.hir), Groups::slow(&parsed.hir));
        ahead += usize::from(fast.has_short_way() && parsed.group_count > 0);
        for _ in 0..6 {
            let hay: Vec<u8> = (0..below(12))
                .flat_map(|_| letters[below(9)].to_vec())
                .collect();
            let from = below(hay.len() + 1);
            // Made anew, so that it has not given up.
            let fresh = make().unwrap();
            let shown = format!(
                "{} on {:?} from {from}, {charset:?}",
                pattern.escape_ascii(),
                hay.escape_ascii().to_string()
            );
            assert_eq!(
                fresh.find_at(&hay, from),
                built.find_at(&hay, from),
                "{shown}"
            );
            assert_eq!(fresh.is_match(&hay), built.is_match(&hay), "{shown}");
            let found = table.find_at(&hay, from);
            assert_eq!(found, built.find_at(&hay, from), "{shown}, directly");
            assert_eq!(
                table.is_match(&hay),
                built.is_match(&hay),
                "{shown}, directly"
            );
            if let Some((start, end)) = found {
                let mut one = vec![None; parsed.group_count + 1];
                one[0] = found;
                let mut other = one.clone();
                fast.fill(&hay, start, end, &mut one);
                slow.fill(&hay, start, end, &mut other);
                assert_eq!(one, other, "{shown}, groups");
            }
            tried += 1;
        }
    }
    assert!(
        tried > 20_000 && direct > 2000 && ahead > 500,
        "{tried} {direct} {ahead}"
    );
}

#[test]
fn one_search_builds_no_automaton() {
    for pattern in [
        "[[:alpha:]]+ \\w{1,20}x",
        "([[:alpha:]]|é|[^x]){1,60}y",
        "\\w{1,100}z",
    ] {
        let regex = Regex::new(pattern.as_bytes(), Charset::Utf8, false).unwrap();
        let hay = format!("{:>500}", 17);
        assert!(!regex.is_match(hay.as_bytes()));
        let bytes = regex.memory_bytes();
        assert!(bytes < 100_000, "{pattern}: {bytes}");
        // Much used it has one, and says so.
        let built = much_used(regex, true);
        assert!(!built.is_match(hay.as_bytes()));
        assert!(built.memory_bytes() > 200_000, "{pattern}");
    }
}

/// Alternatives of one character each become a class of characters in every charset.
#[test]
fn groups_of_characters_lie_where_their_bytes_do() {
    let regex = Regex::new("(é|z)".as_bytes(), Charset::Bytes, false).unwrap();
    let mut places = Places::new();
    assert!(regex.captures_at("xé".as_bytes(), 0, &mut places));
    assert_eq!(places, [Some((1, 3)), Some((1, 3))]);
}

/// A number below `n` each time, from `seed` on.
fn numbers(seed: u64) -> impl FnMut(usize) -> usize {
    let mut state = seed;
    move |n| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as usize % n
    }
}

/// A pattern with groups, as programs have them.
fn grouped(below: &mut impl FnMut(usize) -> usize, depth: usize) -> String {
    const ATOMS: [&str; 14] = [
        "a",
        "b",
        "c",
        "é",
        ".",
        "[ab]",
        "[^a]",
        "[^b]",
        "[[:alpha:]]",
        "-",
        ",",
        "ab",
        "\\y",
        "\\<",
    ];
    const COUNTS: [&str; 8] = ["", "", "", "*", "+", "?", "{2}", "{1,3}"];
    let branch = |below: &mut dyn FnMut(usize) -> usize, inner: &mut dyn FnMut() -> String| {
        let mut out = String::new();
        for _ in 0..1 + below(4) {
            if depth > 0 && below(2) == 0 {
                out += &format!("({})", inner());
            } else {
                out += ATOMS[below(ATOMS.len())];
            }
            out += COUNTS[below(COUNTS.len())];
        }
        out
    };
    let mut branches = Vec::new();
    for _ in 0..1 + below(4) / 3 {
        let inner = grouped_inner(below, depth);
        let mut inner = inner.into_iter();
        branches.push(branch(below, &mut || inner.next().unwrap_or_default()));
    }
    branches.join("|")
}

fn grouped_inner(below: &mut impl FnMut(usize) -> usize, depth: usize) -> Vec<String> {
    match depth {
        0 => Vec::new(),
        _ => (0..4).map(|_| grouped(below, depth - 1)).collect(),
    }
}

#[test]
fn groups_are_found_ahead_where_they_are_found_backwards() {
    const LETTERS: [&[u8]; 9] = [
        b"a",
        b"b",
        b"c",
        b"ab",
        b"-",
        b",",
        b"\xc3\xa9",
        b"\xff",
        b"\xc3",
    ];
    let mut below = numbers(20_261_121);
    let (mut tried, mut short) = (0, 0);
    for _ in 0..12_000 {
        let mut pattern = grouped(&mut below, 2);
        if below(3) == 0 {
            pattern = format!("^{pattern}$");
        }
        let charset = [Charset::Utf8, Charset::Bytes][below(2)];
        let options = Options::new(charset);
        let Ok(parsed) = parse::parse(pattern.as_bytes(), options, parse::Parens::Capture) else {
            continue;
        };
        let (fast, slow) = (Groups::new(&parsed.hir), Groups::slow(&parsed.hir));
        short += usize::from(fast.has_short_way());
        let regex = Regex::new(pattern.as_bytes(), charset, false).unwrap();
        for _ in 0..8 {
            let hay: Vec<u8> = (0..below(16))
                .flat_map(|_| LETTERS[below(LETTERS.len())].to_vec())
                .collect();
            let from = below(hay.len() + 1);
            let Some((start, end)) = regex.find_at(&hay, from) else {
                continue;
            };
            let mut one = vec![None; parsed.group_count + 1];
            one[0] = Some((start, end));
            let mut other = one.clone();
            fast.fill(&hay, start, end, &mut one);
            slow.fill(&hay, start, end, &mut other);
            assert_eq!(
                one,
                other,
                "{pattern} on {:?} from {start} to {end}, {charset:?}",
                hay.escape_ascii().to_string()
            );
            tried += 1;
        }
    }
    assert!(tried > 15_000 && short > 8_000, "{tried} {short}");
}

/// More wrong ways than are worth while.
#[test]
fn groups_are_found_backwards_where_ways_ahead_are_wrong() {
    let hay = format!("{}b{}c", "a".repeat(40), "a".repeat(3000));
    assert_eq!(
        places("^(a*)(a*)(a*)(a*)b(a*)(a*)c$", &hay),
        "1,3042 1,40 41,0 41,0 41,0 42,3000 3042,0"
    );
    assert_eq!(
        places("^(a|aa)*(a|b)*(a|c)*$", &hay),
        "1,3042 40,1 3041,1 3042,1"
    );
}
