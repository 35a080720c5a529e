//! Commands that run other commands: what such a call is found to mean.

use std::collections::BTreeMap;

use shell_plan::annotation::{Annotation, Effect, Given, Volume};
use shell_plan::nest::{Nest, nest};

mod common;

use common::{annotation, annotations, words};

type All = BTreeMap<String, Result<Annotation, String>>;

fn means<'a>(all: &'a All, call: &str) -> Result<Nest<'a>, String> {
    let environment = [("PATH", "/bin"), ("LANG", "en"), ("TZ", "UTC")];
    let bytes = |(name, value): (&str, &str)| (name.into(), value.into());
    let environment = environment.map(bytes).to_vec();
    nest(&|name| annotation(all, name), &words(call), &environment)
}

/// The files of a call.
fn files(nest: &Nest<'_>, call: &str) -> Vec<String> {
    let words = words(call);
    let files = nest.call.files.iter();
    files
        .map(|file| String::from_utf8(words[file.word][file.from..].to_vec()).unwrap())
        .collect()
}

#[test]
fn a_command_in_front_means_what_the_one_behind_it_means() {
    let all = annotations();
    for (call, at, reads, effect) in [
        ("nice grep -c x f", 1, &["f"][..], Effect::Pure),
        (
            "nice -n 5 sort -o out f g",
            3,
            &["out", "f", "g"],
            Effect::Idempotent,
        ),
        ("timeout 60 grep x f", 2, &["f"], Effect::Once),
        (
            "timeout -s KILL -k 1 5 sort -o a a",
            6,
            &["a", "a"],
            Effect::Once,
        ),
        (
            "stdbuf -oL nice env LC_ALL=C sort -r f",
            5,
            &["f"],
            Effect::Pure,
        ),
        ("env -i -u X A=b awk -f p f", 5, &["f"], Effect::Pure),
        ("nohup cat a", 1, &["a"], Effect::Pure),
    ] {
        let nest = means(&all, call).unwrap();
        assert_eq!(nest.call.at, at, "{call}");
        assert_eq!(files(&nest, call), reads, "{call}");
        assert_eq!(nest.call.of.effect, effect, "{call}");
        assert!(
            nest.call.inner.is_empty() && nest.call.given == Given::Nothing,
            "{call}"
        );
    }
    let nest = means(&all, "env A=1 nice awk -f p '{ print }' f").unwrap();
    assert_eq!(nest.call.programs[0].word, 5);
    assert_eq!(
        nest.commands.iter().map(|c| c.word).collect::<Vec<_>>(),
        [0, 2, 3]
    );
}

#[test]
fn what_is_not_known_within_is_not_known_at_all() {
    let all = annotations();
    for (call, why) in [
        ("nice my-command f", "no annotation of my-command"),
        ("env sort --no-such-option f", "sort: unknown option"),
        ("nice -n -5 sort f", "no use of the annotation fits"),
        ("time sort f", "how long"),
        ("timeout 5 time sort f", "how long"),
        ("env PATH=/x sort f", "PATH"),
        ("env TMPDIR=/x sort f", "TMPDIR"),
        ("nice env LD_PRELOAD=x sort f", "LD_PRELOAD"),
        ("env", "no use"),
        ("nice", "no use"),
        ("env - sort f", "no annotation of -"),
        ("find a -exec rm -f {} ;", "leaves something behind"),
        (
            "find a -exec my-command {} ;",
            "no annotation of my-command",
        ),
        ("find a -exec sh -c 'wc {}' ;", "part of a word"),
        ("find a -exec grep x b/{} ;", "part of a word"),
        ("find a -exec grep {} b ;", "where none is read"),
        ("find a -exec sort -o {} {} ;", "leaves something behind"),
        ("find a -exec sed -i s/x/y/ {} ;", "leaves something behind"),
        ("find a -exec cat ;", "reads standard input"),
        ("find a -exec cat - {} ;", "reads standard input"),
        ("find a -exec ls ;", "looks at its folder"),
        ("find a -exec uniq {} +", "leaves something behind"),
        ("find a -exec sed 'w out' {} +", ""),
        ("find a=b -exec awk 1 {} +", "assignment"),
        ("find a -exec find {} -exec wc {} ; ;", ""),
        ("find a -exec xargs wc {} ;", ""),
        ("xargs rm -f", "leaves something behind"),
        ("xargs my-command", "no annotation of my-command"),
        ("xargs ls", "looks at its folder"),
        ("xargs uniq", "leaves something behind"),
        ("xargs cmp", ""),
        ("xargs awk 1", "assignment"),
        ("xargs grep {}", "part of a word"),
        ("xargs -P2 wc", "-P"),
        ("xargs -I@ wc @", "other words"),
        ("xargs -I{} wc a/{}", "part of a word"),
        ("xargs -I{} grep {} a", "where none is read"),
        ("xargs timeout 5 wc -l", "leaves something behind"),
        (
            "timeout 5 nice nice nice nice nice nice nice nice nice cat f",
            "run commands",
        ),
    ] {
        let said = means(&all, call).map(|nest| nest.call).unwrap_err();
        assert!(said.contains(why), "{call}: {said}");
    }
}

#[test]
fn environments_are_those_of_each_command() {
    let all = annotations();
    for (call, own, zones) in [
        ("env sort f", "LANG=en PATH=/bin TZ=UTC", &[][..]),
        ("env LANG=de sort f", "LANG=de PATH=/bin TZ=UTC", &[]),
        ("env -u LANG B=c=d sort f", "B=c=d PATH=/bin TZ=UTC", &[]),
        ("env -i A= sort f", "A=", &[2]),
        ("env -i sort f", "", &[2]),
        ("env -i TZ=x sort f", "TZ=x", &[]),
        ("nice env -uTZ sort f", "LANG=en PATH=/bin", &[3]),
        ("env -u TZ A=1 nice env -i sort f", "", &[3, 7]),
    ] {
        let nest = means(&all, call).unwrap();
        let inner = &nest.commands.last().unwrap().environment;
        let pair = |(name, value): &(Vec<u8>, Vec<u8>)| {
            format!(
                "{}={}",
                String::from_utf8_lossy(name),
                String::from_utf8_lossy(value)
            )
        };
        let mut pairs: Vec<String> = inner.iter().map(pair).collect();
        pairs.sort();
        assert_eq!(pairs.join(" "), own, "{call}");
        let mut found = nest.zones;
        found.sort_unstable();
        assert_eq!(found, zones, "{call}");
    }
}

#[test]
fn commands_are_given_files_that_nobody_names() {
    let all = annotations();
    for (call, given, runs, reads) in [
        (
            "find a b -type f -exec grep -l x {} +",
            Given::Found,
            &[6][..],
            &["a", "b"][..],
        ),
        ("find . -exec nice wc -l {} ;", Given::Found, &[4], &["."]),
        (
            "find -exec grep -q x {} ; -exec wc {} +",
            Given::Found,
            &[2, 8],
            &[],
        ),
        (
            "find a -exec cmp -s {} b ;",
            Given::Found,
            &[3],
            &["a", "b"],
        ),
        (
            "find a -exec grep x {} /dev/null ;",
            Given::Found,
            &[3],
            &["a"],
        ),
        (
            "find a -exec awk '{ n++ } END { print n }' {} +",
            Given::Found,
            &[3],
            &["a"],
        ),
        ("xargs grep -c x", Given::Words, &[1], &[]),
        (
            "xargs -n1 env LC_ALL=C grep -f list",
            Given::Words,
            &[4],
            &["list"],
        ),
        ("xargs -0r file", Given::Zeros, &[2], &[]),
        ("xargs -I{} cmp {} a", Given::Words, &[2], &["a"]),
        ("xargs -0 -I {} nice file {}", Given::Zeros, &[5], &[]),
    ] {
        let nest = means(&all, call).unwrap_or_else(|why| panic!("{call}: {why}"));
        assert_eq!(nest.call.given, given, "{call}");
        assert_eq!(nest.call.runs, runs, "{call}");
        assert_eq!(files(&nest, call), reads, "{call}");
        assert_eq!(nest.call.of.effect, Effect::Pure, "{call}");
        assert!(
            nest.call.of.apart.is_none() && nest.call.of.lines.is_none(),
            "{call}"
        );
        assert_eq!(nest.call.stdin, given != Given::Found, "{call}");
    }
    let deep = |call| means(&all, call).unwrap().call.goes_below;
    assert!(deep("find a -maxdepth 1 -exec grep -r x {} ;") && deep("xargs -r du"));
    assert!(!deep("find a -maxdepth 1 -exec grep x {} ;") && !deep("xargs cat"));
    let volume = |call| means(&all, call).unwrap().call.of.volume;
    assert_eq!(volume("find a -exec cat {} +"), Volume::Same);
    assert_eq!(volume("xargs grep -c x"), Volume::Few);
    // Without names it runs, unless it is told not to.
    assert!(means(&all, "xargs file").is_err() && means(&all, "xargs -r file").is_ok());
    let behind = means(&all, "timeout 9 nice xargs -0 cat").unwrap();
    assert_eq!((behind.call.at, behind.call.runs), (3, vec![5]));
    assert_eq!(behind.call.of.effect, Effect::Once);
}
