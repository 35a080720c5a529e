//! What `nearsh explain` and `nearsh doctor` say, by the real program: where nothing is mounted, and on the client of a rig (`tests/near/rig`).
//!
//! The invariant: what is measured is left out of what is compared (times, and what depends on the machine); all else is compared to the letter.

#![allow(clippy::print_stdout, clippy::print_stderr)] // what is left out is for people

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use testkit::rig::{self, Rig};

const NEARSH: &str = env!("CARGO_BIN_EXE_nearsh");

/// nearsh in a folder, with a home there.
fn nearsh(words: &[&str], folder: &Path) -> Output {
    let mut command = Command::new(NEARSH);
    command
        .args(words)
        .current_dir(folder)
        .env_remove("LC_ALL")
        .env("LANG", "C.UTF-8")
        .env("HOME", folder)
        .env("WHAT", "7 7")
        .stdin(Stdio::null());
    command.output().unwrap()
}

/// What it said, all of it in one text.
fn said(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    let status = output.status.code().unwrap();
    format!("{}status {status}\n", String::from_utf8(text).unwrap())
}

/// A text without its times: `0.36 s` and `12 ms` are `T`.
fn timeless(text: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let unit = word.trim_end_matches([',', ')', ';', ':', '\n']);
        let is_time = ["ms", "s", "min"].contains(&unit);
        let of = words.last_mut().filter(|last| {
            let number = last.trim_start_matches('(');
            is_time && number.parse::<f64>().is_ok()
        });
        match of {
            Some(last) => {
                let open = if last.starts_with('(') { "(" } else { "" };
                *last = format!("{open}T{}", &word[unit.len()..]);
            }
            None => words.push(word.to_owned()),
        }
    }
    words.join(" ")
}

#[test]
fn times_are_taken_out_and_nothing_else_is() {
    let text = "a (0.36 s, moves 20 kB) 12 ms; x s\n3 ms\n";
    assert_eq!(timeless(text), "a (T, moves 20 kB) T; x s\n3 ms\n");
}

/// Whether this machine, as it is, has folders of others.
fn has_mounts() -> bool {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap();
    [" - nfs", " - fuse.sshfs", " - cifs", " - smb3"]
        .iter()
        .any(|kind| text.contains(kind))
}

#[test]
fn explain_refuses_what_would_have_to_run_and_runs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let ran = folder.path().join("ran");
    let cases = [
        (
            "grep $(touch ran) x",
            "it has a substitution of a command or a process, which would have to be run: explain that on its own",
        ),
        (
            "sort <(touch ran)",
            "it has a substitution of a command or a process, which would have to be run: explain that on its own",
        ),
        (
            "touch ran; sort x",
            "one pipeline can be explained at a time",
        ),
        (
            "touch ran && sort x",
            "one pipeline can be explained at a time",
        ),
        ("touch ran &", "\"&\" is not explained: leave it out"),
        (
            "(touch ran)",
            "only plain commands are explained, no loops, conditions, groups and functions",
        ),
        ("touch ran 3<x", "a redirection that is not explained: 3< x"),
    ];
    for (text, why) in cases {
        let output = nearsh(&["explain", text], folder.path());
        assert_eq!(
            said(&output),
            format!("nearsh explain: {why}\nstatus 2\n"),
            "{text}"
        );
        assert!(!ran.exists(), "{text}");
    }
    let output = nearsh(&["explain", "touch ran | sort > made"], folder.path());
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(!ran.exists() && !folder.path().join("made").exists());
    let output = nearsh(&["explain", "sort", "x"], folder.path());
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn explain_says_so_where_nothing_is_mounted() {
    if has_mounts() {
        eprintln!("left out: folders of other machines are mounted here");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let svg = format!("--svg={}/drawn.svg", folder.path().display());
    let output = nearsh(&["explain", &svg, "grep x f | sort"], folder.path());
    let text = "All of it runs here: no folder of another machine is mounted.\nstatus 0\n";
    assert_eq!(said(&output), text);
    let drawn = fs::read_to_string(folder.path().join("drawn.svg")).unwrap();
    assert!(
        drawn.starts_with("<svg ") && drawn.contains("grep"),
        "{drawn}"
    );
}

/// Runs this very test on the client of a rig with the hosts alpha and beta; the folder of their mounts is given to `judge` there.
fn in_rig(name: &str, options: &[&str], judge: &dyn Fn(&Path)) {
    if std::env::var_os("PERDURE_TELL").is_some() {
        return judge(&PathBuf::from(std::env::var_os("NEAR_MNT").unwrap()));
    }
    if let Some(why) = rig::lack("PERDURE_RIG") {
        eprintln!("{why}");
        return;
    }
    let mut rig = Rig::new(&["alpha", "beta"]).with(options);
    rig.command.env("PERDURE_TELL", "1");
    let this = std::env::current_exe().unwrap();
    let this = this.to_str().unwrap();
    let output = rig.run(&[this, "--exact", name, "--nocapture", "--test-threads=1"]);
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(output.status.success(), "{text}");
    assert!(text.contains("1 passed"), "{text}");
}

/// A file of so many bytes, of which the first are letters.
fn sparse(path: &Path, bytes: u64) -> io::Result<()> {
    let file = File::create(path)?;
    io::Write::write_all(&mut &file, b"a line\n")?;
    file.set_len(bytes)
}

#[test]
fn explain_says_where_a_pipeline_would_run_and_why() {
    let name = "explain_says_where_a_pipeline_would_run_and_why";
    in_rig(name, &["--nearsh", NEARSH], &|mounts| {
        let alpha = mounts.join("alpha");
        sparse(&alpha.join("big"), 4 << 30).unwrap();
        sparse(&alpha.join("small"), 20_000).unwrap();
        sparse(&mounts.join("beta/big"), 1 << 30).unwrap();
        let mut all = String::new();
        for text in [
            "LC_ALL=C grep \"$WHAT\" big | wc -l",
            "grep x smal*",
            "sort < big > sorted",
            "cat big ../beta/big",
            "wc -l big 2>&1 | no-such-command",
            "grep x < missing",
        ] {
            let output = nearsh(&["explain", text], &alpha);
            all += &format!("$ {text}\n{}", timeless(&said(&output)));
        }
        assert!(!alpha.join("sorted").exists());
        // Nobody was connected to, and now somebody is.
        let output = nearsh(&["explain", "--connect", "grep x big"], &alpha);
        let text = said(&output);
        assert!(text.contains("\nalpha: connected; round trip "), "{text}");
        assert!(text.contains(" (measured), "), "{text}");
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tell/explain.txt");
        if std::env::var_os("PERDURE_BLESS").is_some() {
            fs::write(&golden, &all).unwrap();
        }
        assert_eq!(all, fs::read_to_string(golden).unwrap());
    });
}

/// The line of a text that has this.
fn line_with<'a>(text: &'a str, what: &str) -> &'a str {
    let found = text.lines().find(|line| line.contains(what));
    found.unwrap_or_else(|| panic!("no \"{what}\" in\n{text}"))
}

/// The two numbers of a line like `98 of 99 commands are the same there`.
fn counts(text: &str) -> (usize, usize) {
    let mut words = line_with(text, " are the same there").split_whitespace();
    let mut number = || words.find_map(|word| word.parse().ok()).unwrap();
    (number(), number())
}

#[test]
fn doctor_says_so_where_nothing_is_mounted() {
    if has_mounts() {
        eprintln!("left out: folders of other machines are mounted here");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let output = nearsh(&["doctor"], folder.path());
    let text = said(&output);
    let first =
        "No folder of another machine is mounted here (NFS, sshfs, CIFS): all commands run here.";
    assert_eq!(text.lines().next(), Some(first));
    assert!(text.ends_with("\nstatus 0\n"), "{text}");
}

#[test]
fn doctor_says_what_there_is_and_what_is_missing() {
    let name = "doctor_says_what_there_is_and_what_is_missing";
    in_rig(name, &["--nearsh", NEARSH], &|mounts| {
        let home = tempfile::tempdir().unwrap();
        let alpha = mounts.join("alpha");
        let text = said(&nearsh(&["doctor"], home.path()));
        assert!(text.ends_with("\nstatus 0\n"), "{text}");
        let at = |host: &str| {
            format!(
                "  {}: /srv/export of {host}, by fuse.sshfs",
                mounts.join(host).display()
            )
        };
        assert!(
            text.starts_with(&format!(
                "Folders of other machines:\n{}\n{}\nalpha:\n",
                at("alpha"),
                at("beta")
            )),
            "{text}"
        );
        line_with(&text, "  reached by ssh without a password, round trip ");
        let version = env!("CARGO_PKG_VERSION");
        line_with(&text, &format!("  nearsh {version} there, protocol "));
        line_with(
            &text,
            "  its folders can be shown there under the names that they have here",
        );
        let (same, all) = counts(&text);
        assert!(same == all && all > 30, "{text}");
        assert!(
            !text.contains("C library") && !text.contains("locales"),
            "{text}"
        );
        line_with(&text, "  only scripts that are run by nearsh run elsewhere");
        line_with(
            &text,
            "  the background process that holds connections does not run",
        );

        // Commands of which hosts know nothing, and others by names that they know: /tmp is the client's own.
        let bin = home.path().join("bin");
        fs::create_dir(&bin).unwrap();
        for (name, says) in [("tac", "tac 0"), ("zannotate", "zannotate 0")] {
            let file = bin.join(name);
            fs::write(&file, format!("#!/bin/sh\necho {says}\n")).unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            fs::set_permissions(&file, mode).unwrap();
        }
        // The shims, and the broker that a script begins.
        let script = format!(
            "PATH={}:$PATH; eval \"$({NEARSH} init sh)\"; {NEARSH} -c \"cat '{}/none'\" 2>/dev/null; LC_ALL=xx_YY.UTF-8 {NEARSH} doctor",
            bin.display(),
            alpha.display(),
        );
        let output = Command::new("sh")
            .args(["-c", &script])
            .env("HOME", home.path())
            .env_remove("XDG_CACHE_HOME")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = said(&output);
        assert_eq!(
            line_with(&text, "others there"),
            "  1 are others there and run here: tac"
        );
        assert_eq!(
            line_with(&text, "not there"),
            "  1 are not there and run here: zannotate"
        );
        let (fewer, more) = counts(&text);
        assert_eq!((fewer + 2, more), (all + 1, all + 1), "{text}");
        line_with(
            &text,
            "  the commands of this shell run elsewhere, too: its shims are first in PATH",
        );
        line_with(
            &text,
            "  the background process that holds connections runs (process ",
        );

        let refused = Command::new("rig")
            .args(["refuse", "beta"])
            .status()
            .unwrap();
        assert!(refused.success());
        let text = said(&nearsh(&["doctor"], home.path()));
        assert!(text.ends_with("\nstatus 1\n"), "{text}");
        assert_eq!(
            line_with(&text, "cannot be used"),
            "    cannot be used: see beta below"
        );
        let why = line_with(
            &text,
            "  ssh -o BatchMode=yes beta does not get there; it said: ",
        );
        assert!(why.ends_with("Connection refused"), "{text}");
        line_with(&text, "  to do: see that ssh beta works by hand");
        // alpha is as before.
        line_with(&text, " commands are the same there");
    });
}

#[test]
fn doctor_says_that_nearsh_is_not_on_a_host() {
    in_rig("doctor_says_that_nearsh_is_not_on_a_host", &[], &|_| {
        let home = tempfile::tempdir().unwrap();
        let text = said(&nearsh(&["doctor"], home.path()));
        assert!(text.ends_with("\nstatus 1\n"), "{text}");
        line_with(
            &text,
            "  reached by ssh, but \"nearsh agent --stdio\" cannot be run there; it said: ",
        );
        line_with(
            &text,
            "  to do: put nearsh into a folder that is in PATH there (scp nearsh alpha:",
        );
    });
}
