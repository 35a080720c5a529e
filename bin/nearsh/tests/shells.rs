//! What is for people at a shell: `nearsh init`, and the completions, in the real shells. One that is not here is left out.

#![allow(clippy::print_stderr)] // who runs the tests should know

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

const NEARSH: &str = env!("CARGO_BIN_EXE_nearsh");
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// What a shell prints for a text, in a folder that is its home too; none if it is not here.
fn shell(words: &[&str], text: &str, home: &Path) -> Option<String> {
    let output = Command::new(words[0])
        .args(&words[1..])
        .arg(text)
        .current_dir(home)
        .env("HOME", home)
        .env("NEARSH", NEARSH)
        .env("ROOT", ROOT)
        .env("TERM", "dumb")
        .env("LC_ALL", "C.UTF-8")
        .env_remove("XDG_CACHE_HOME")
        .env_remove("XDG_CONFIG_HOME")
        .stdin(Stdio::null())
        .output();
    let output = match output {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("left out: there is no {}", words[0]);
            return None;
        }
        Err(error) => panic!("{}: {error}", words[0]),
    };
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    Some(String::from_utf8(text).unwrap())
}

/// Puts a program in place of a shim, which tells that it was run.
fn plant(home: &Path) {
    let planted = home.join("planted");
    fs::write(&planted, "#!/bin/sh\necho by the shim\n").unwrap();
    fs::set_permissions(&planted, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A shell that has run a command before finds the shim behind that, once, and its commands do what they did.
fn finds_shims(words: &[&str], text: &str) {
    let home = tempfile::tempdir().unwrap();
    plant(home.path());
    let Some(said) = shell(words, text, home.path()) else {
        return;
    };
    let shims = home.path().join(".cache/nearsh/shims");
    assert_eq!(
        said,
        format!("a\na\n1\n{}/sort\nby the shim\n", shims.display()),
        "{words:?}"
    );
}

const POSIX: &str = "echo a | sort; eval \"$(\"$NEARSH\" init SHELL)\"; echo a | sort; eval \"$(\"$NEARSH\" init SHELL)\"; \
    echo \"$PATH\" | tr : '\\n' | grep -c nearsh/shims; command -v sort; \
    rm \"$HOME/.cache/nearsh/shims/sort\"; ln -s \"$HOME/planted\" \"$HOME/.cache/nearsh/shims/sort\"; echo a | sort";

#[test]
fn bash_finds_shims() {
    finds_shims(&["bash", "-euc"], &POSIX.replace("SHELL", "bash"));
    finds_shims(
        &["bash", "-O", "extglob", "-fc"],
        &POSIX.replace("SHELL", "bash"),
    );
}

#[test]
fn sh_finds_shims() {
    finds_shims(&["sh", "-euc"], &POSIX.replace("SHELL", "sh"));
}

#[test]
fn zsh_finds_shims() {
    let text = POSIX.replace("SHELL", "zsh");
    finds_shims(&["zsh", "-feuc"], &text);
    let others = "setopt ksh_arrays sh_word_split extended_glob null_glob glob_subst; ";
    finds_shims(&["zsh", "-fc"], &format!("{others}{text}"));
    // As people have it: in an interactive shell, whose path has each folder once.
    finds_shims(&["zsh", "-fic"], &format!("typeset -U path; {text}"));
}

#[test]
fn fish_finds_shims() {
    let text = "echo a | sort; $NEARSH init fish | source; echo a | sort; $NEARSH init fish | source; \
        string match -r nearsh/shims $PATH | count; command -s sort; \
        rm $HOME/.cache/nearsh/shims/sort; ln -s $HOME/planted $HOME/.cache/nearsh/shims/sort; echo a | sort";
    finds_shims(&["fish", "--no-config", "-c"], text);
    finds_shims(&["fish", "--no-config", "-ic"], text);
}

#[test]
fn bash_completes_nearsh() {
    let home = tempfile::tempdir().unwrap();
    let text = "source \"$ROOT/completions/nearsh.bash\"; complete -p nearsh; compopt() { :; }; touch script.sh; mkdir folder; \
        try() { COMP_WORDS=(\"$@\") COMP_CWORD=$(($# - 1)); COMPREPLY=(); _nearsh; \
        echo \"$*:\" $(printf '%s\\n' \"${COMPREPLY[@]}\" | sort -u); }; \
        try nearsh ann; try nearsh scr; try nearsh --q; try nearsh --debug = ''; try nearsh init z; try nearsh explain --s; \
        try nearsh annotate b2su; try nearsh annotate --annotation = scr; try nearsh agent --restrict-to ''; \
        try nearsh script.sh --quiet f; try nearsh doctor s";
    let said = shell(&["bash", "-c"], text, home.path()).unwrap();
    assert_eq!(
        said,
        "complete -F _nearsh nearsh\n\
         nearsh ann: annotate\n\
         nearsh scr: script.sh\n\
         nearsh --q: --quiet\n\
         nearsh --debug = : list\n\
         nearsh init z: zsh\n\
         nearsh explain --s: --svg=\n\
         nearsh annotate b2su: b2sum\n\
         nearsh annotate --annotation = scr: script.sh\n\
         nearsh agent --restrict-to : folder\n\
         nearsh script.sh --quiet f: folder\n\
         nearsh doctor s:\n"
    );
}

#[test]
fn zsh_completes_nearsh() {
    let home = tempfile::tempdir().unwrap();
    // A terminal of its own, on which words are typed, and the key that completes them.
    let text = "zmodload zsh/zpty; touch script.sh; zpty z 'TERM=dumb zsh -fi'; zpty -w z \"PS1=; unsetopt zle_bracketed_paste; \
        fpath=($ROOT/completions \\$fpath); autoload -Uz compinit; compinit -u -D; print ready''now\"; \
        until [[ $seen == *readynow* ]]; do zpty -r z line || break; seen+=$line; done; \
        for word in 'nearsh ann' 'nearsh scr' 'nearsh --qui' 'nearsh --debug=' 'nearsh init z' 'nearsh explain --c' 'nearsh annotate b2su'; do \
        zpty -w -n z \"$word\"$'\\t\\x01print -r -- \\'[\\x05]\\'\\n'; done; zpty -w z \"print over''now\"; \
        seen=; until [[ $seen == *overnow* ]]; do zpty -r z line || break; seen+=$line; done; print -r -- $seen";
    let Some(said) = shell(&["zsh", "-fc"], text, home.path()) else {
        return;
    };
    let said = said.replace('\r', "\n");
    for whole in [
        "annotate",
        "script.sh",
        "--quiet",
        "--debug=list",
        "init zsh",
        "explain --connect",
        "annotate b2sum",
    ] {
        assert!(
            said.contains(&format!("\n[nearsh {whole}]")),
            "{whole} in\n{said}"
        );
    }
}

#[test]
fn fish_completes_nearsh() {
    let home = tempfile::tempdir().unwrap();
    let text = "source $ROOT/completions/nearsh.fish; touch script.sh; \
        for line in 'nearsh ann' 'nearsh scr' 'nearsh --q' 'nearsh --debug=' 'nearsh init z' 'nearsh explain --s' 'nearsh annotate b2su' 'nearsh doctor '; \
        echo \"$line: \"(complete -C $line | string replace -r '\\t.*' '' | string join ' '); end";
    let Some(said) = shell(&["fish", "--no-config", "-c"], text, home.path()) else {
        return;
    };
    assert_eq!(
        said,
        "nearsh ann: annotate\n\
         nearsh scr: script.sh\n\
         nearsh --q: --quiet\n\
         nearsh --debug=: --debug=list\n\
         nearsh init z: zsh\n\
         nearsh explain --s: --svg\n\
         nearsh annotate b2su: b2sum\n\
         \n"
    );
}
