//! Failure-atomic files: programs that know nothing of us, with libperdure-preload.so in front of them or linked to them, and programs that ask.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use testkit::rng::Rng;

use crate::build::{Built, Library, build, good, preload, run, run_and_kill, scratch};

fn ledger() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| build("ledger.c", Built::ALONE))
}

/// The ledger under the library.
fn under(file: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(ledger());
    command
        .arg(file)
        .args(words)
        .env("LD_PRELOAD", preload())
        .env("PERDURE_FILES", "*.ledger");
    command.env("PERDURE_VERBOSE", "1");
    command
}

fn number(text: &str) -> u64 {
    text.trim().parse().unwrap_or_else(|_| panic!("{text:?}"))
}

fn beside(file: &Path) -> usize {
    let folder = std::fs::read_dir(file.parent().unwrap()).unwrap();
    folder.count() - 1
}

#[test]
fn every_msync_is_in_the_file_and_nothing_is_left_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.ledger");
    let told = good(&mut under(&file, &["run", "50"]));
    assert_eq!(told.lines().count(), 50);
    assert_eq!(beside(&file), 0, "what lay beside it is removed");
    assert_eq!(good(&mut under(&file, &["check"])), "51\n");
    // The same bytes for who knows nothing of it at all.
    assert_eq!(good(Command::new(ledger()).arg(&file).arg("check")), "51\n");
    good(&mut under(&file, &["grow"]));
    assert_eq!(good(&mut under(&file, &["check"])), "51\n");
    assert_eq!(beside(&file), 0);
}

#[test]
fn an_ordinary_end_keeps_what_was_stored_and_a_hard_one_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.ledger");
    good(&mut under(&file, &["run", "1"]));
    good(&mut under(&file, &["end", "exit"]));
    assert_eq!(good(&mut under(&file, &["check"])), "1002\n");
    good(&mut under(&file, &["end", "munmap"]));
    assert_eq!(good(&mut under(&file, &["check"])), "2002\n");
    good(&mut under(&file, &["end", "_exit"]));
    assert_eq!(good(&mut under(&file, &["check"])), "2002\n");
    assert_eq!(beside(&file), 0);
}

#[test]
fn other_files_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.other");
    good(&mut under(&file, &["end", "_exit"]));
    assert_eq!(
        good(&mut under(&file, &["check"])),
        "1001\n",
        "an ordinary mapping"
    );
}

/// The ledger linked to the library.
fn linked(options: &'static str, file: &Path, words: &[&str]) -> Command {
    let how = Built {
        library: Library::Preload,
        ..Built::tracking(options)
    };
    let mut command = Command::new(build("ledger.c", how));
    command
        .arg(file)
        .args(words)
        .env("PERDURE_FILES", "*.ledger")
        .env("PERDURE_VERBOSE", "1");
    command
}

/// perdure-cc's objects say how their stores become known, and the library asks them: nothing else has to be chosen.
#[test]
fn a_program_by_perdure_cc_that_is_linked_to_the_library_has_its_lines_tracked() {
    for (options, way) in [("-O2", "lines"), ("-O0", "verify"), ("-O2 -flto", "lines")] {
        let folder = tempfile::tempdir().unwrap();
        let (file, report) = (folder.path().join("a.ledger"), folder.path().join("report"));
        let output = run(linked(options, &file, &["run", "20"]).env("PERDURE_REPORT", &report));
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{told}");
        let expected = format!("a.ledger: msync is failure-atomic, by {way}");
        assert!(told.contains(&expected), "{options}: {told}");
        good(&mut linked(options, &file, &["grow"]));
        good(linked(options, &file, &["end", "munmap"]).env("PERDURE_REPORT", &report));
        assert!(!report.exists(), "{:?}", std::fs::read_to_string(&report));
        assert_eq!(beside(&file), 0);
        assert_eq!(
            good(Command::new(ledger()).arg(&file).arg("check")),
            "1021\n"
        );
    }
}

#[test]
fn a_killed_program_leaves_the_last_msync() {
    killed("run", "check", under);
}

#[test]
fn a_killed_program_that_is_linked_to_the_library_leaves_the_last_msync() {
    killed("run", "check", |file, words| linked("-O2", file, words));
    killed("run", "check", |file, words| {
        let mut command = linked("-O2", file, words);
        command.env("PERDURE_TRACK", "verify");
        command
    });
}

/// Programs that ask for it, in each way of tracking.
#[test]
fn a_killed_program_leaves_its_last_sync() {
    let ways = [
        (Built::C11, "", "1"),
        (Built::sanitizing("address,undefined"), "", "1"),
        (Built::tracking("-O0"), "", "3"),
        (Built::tracking("-O2"), "", "2"),
        (Built::tracking("-O2"), "verify", "3"),
        (Built::tracking("-O2"), "pages", "1"),
    ];
    for (how, way, expected) in ways {
        let program = build("files.c", how);
        killed("", "0", |file, words| {
            let mut command = Command::new(&program);
            command
                .arg(file)
                .args(words.iter().filter(|word| !word.is_empty()));
            command
                .env("PERDURE_TRACK", way)
                .env("EXPECTED_TRACKING", expected);
            command
        });
    }
}

/// Killed at random moments: the file is as of the last sync that returned, or of the one that was under way.
fn killed(run_word: &str, look: &str, command: impl Fn(&Path, &[&str]) -> Command) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("k.ledger");
    let mut rng = Rng::new(Rng::seed_from_env());
    let mut most = 0;
    for _ in 0..testkit::effort("PERDURE_KILLS", 30) {
        let last = run_and_kill(&mut command(&file, &[run_word, "1000000"]), &mut rng);
        let found = number(&good(&mut command(&file, &[look])));
        if let Some(last) = last {
            let last = number(&last);
            assert!(found == last || found == last + 1, "{found} after {last}");
        }
        most = most.max(found);
    }
    assert!(most > 10, "{most}");
}

/// A program of `mappings.c` under the library.
fn mappings(file: &Path, word: &str) -> Command {
    let mut command = Command::new(build("mappings.c", Built::ALONE));
    command.arg(file).arg(word);
    command.env("LD_PRELOAD", preload());
    command.env("PERDURE_FILES", "*.mapped");
    command
}

#[test]
fn mappings_are_what_they_are_without_the_library() {
    for word in ["twice", "grows", "advise", "access", "forks"] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.mapped");
        good(&mut mappings(&file, word));
        assert_eq!(beside(&file), 0, "{word}");
    }
}

/// Other threads of a program that ends store and sync until it is gone: what they were told is kept, and the end is an ordinary one.
#[test]
fn a_program_may_end_while_its_threads_store() {
    let folder = tempfile::tempdir().unwrap();
    for run in 0..10 {
        let file = folder.path().join(format!("{run}.mapped"));
        let told = good(&mut mappings(&file, "threads"));
        let told = told.lines().last().map_or(0, number);
        let bytes = std::fs::read(&file).unwrap();
        let numbers: Vec<u64> = bytes
            .chunks(4096)
            .map(|page| u64::from(u32::from_le_bytes(page[..4].try_into().unwrap())))
            .collect();
        assert!(numbers[0] >= told, "{numbers:?} after {told}");
        assert!(!folder.path().join(format!("{run}.mapped.perdure")).exists());
    }
}

/// Constructors run before ours, destructors after main.
#[test]
fn other_libraries_may_use_mappings_before_main_and_after_it() {
    let library = scratch().join("keeps_a_log.so");
    let mut command = Command::new("cc");
    command.args(["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o"]);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/keeps_a_log.c");
    good(command.arg(&library).arg(source));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.mapped");
    let both = format!("{}:{}", preload().display(), library.display());
    good(mappings(&file, "library").env("LD_PRELOAD", both));
    let bytes = std::fs::read(&file).unwrap();
    assert!(bytes.starts_with(b"the end\0"));
    assert!(bytes[100..].starts_with(b"munmap\0"));
    assert_eq!(beside(&file), 0);
}

#[test]
fn what_belongs_to_another_file_is_refused_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.ledger");
    let mut child = under(&file, &["run", "1000000"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.ends_with("100\n") {
        line.clear();
        assert!(told.read_line(&mut line).unwrap() > 0);
    }
    // Another process cannot have it meanwhile.
    let busy = run(&mut under(&file, &["check"]));
    assert_eq!(busy.status.code(), Some(3), "{busy:?}");
    let told = String::from_utf8_lossy(&busy.stderr).into_owned();
    let expected = format!("file \"{}\": another process has it open", file.display());
    assert!(told.contains(&expected) && !told.contains("heap"), "{told}");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(beside(&file), 2);
    let journal = folder.path().join("a.ledger.perdure.journal");
    let whole = std::fs::read(&journal).unwrap();
    std::fs::write(&journal, &whole[..20_000]).unwrap();
    let cut = run(&mut under(&file, &["check"]));
    let told = String::from_utf8_lossy(&cut.stderr).into_owned();
    assert_eq!(cut.status.code(), Some(3), "{told}");
    let expected = format!(
        "file \"{}\": \"{}\" was cut",
        file.display(),
        journal.display()
    );
    assert!(
        told.contains(&expected) && !told.contains("perdure check"),
        "{told}"
    );
    std::fs::write(&journal, &whole).unwrap();
    let copy = folder.path().join("copy");
    std::fs::copy(&file, &copy).unwrap();
    std::fs::remove_file(&file).unwrap();
    std::fs::rename(&copy, &file).unwrap();
    let refused = run(&mut under(&file, &["check"]));
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(3), "{told}");
    let name = file.display();
    let expected =
        format!("file \"{name}\": \"{name}.perdure\" and \"{name}.perdure.journal\" have syncs");
    assert!(
        told.contains(&expected) && told.contains("remove the two"),
        "{told}"
    );
    assert!(!told.contains("perdure check"), "no heap: {told}");
    // As it says: without the two the file is what it is, which may be half of a sync that was being brought to it.
    std::fs::remove_file(format!("{name}.perdure")).unwrap();
    std::fs::remove_file(format!("{name}.perdure.journal")).unwrap();
    let opened = run(&mut under(&file, &["check"]));
    let told = String::from_utf8_lossy(&opened.stderr).into_owned();
    assert!(told.contains("msync is failure-atomic"), "{told}");
}

/// Also of the end, when most of a process is gone already.
#[test]
fn what_cannot_be_synced_is_told_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.ledger");
    let ledger = under(&file, &["run", "3"]);
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ; ulimit -f 112; exec \"$@\"", "sh"]);
    command.arg(ledger.get_program()).args(ledger.get_args());
    for (name, value) in ledger.get_envs() {
        command.env(name, value.unwrap());
    }
    let output = run(&mut command);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{told}");
    for what in ["msync", "the last sync"] {
        let expected = format!(
            "perdure: {what}: file \"{}\": cannot append",
            file.display()
        );
        assert!(told.contains(&expected), "{told}");
    }
    assert_eq!(told.matches("File too large").count(), 2, "{told}");
    assert_eq!(told.matches("ulimit -f").count(), 2, "{told}");
}

/// What threads store while another one synchronises is in that sync or in the next, and never in none.
#[test]
fn threads_may_store_while_another_one_synchronises() {
    let program = build("stores_on.c", Built::C11);
    // In memory, where there is such a folder: there a sync is short, and races are many.
    let memory = Path::new("/dev/shm");
    let folder = match memory.is_dir() {
        true => tempfile::tempdir_in(memory),
        false => tempfile::tempdir(),
    }
    .unwrap();
    let mut command = Command::new(program);
    command.arg(folder.path().join("a.file")).arg("3000");
    good(command.env("PERDURE_TRACK", "pages"));
}

/// Where pages are tracked threads may store while another one syncs: what they store is in that sync or in the next. Also where the kernel
/// has no userfaultfd to watch pages with, and where a child keeps what is synced from being brought to the file.
#[test]
fn what_is_stored_during_a_sync_is_in_it_or_in_the_next() {
    for (how, stores) in [
        (Built::C11, "300000"),
        // Its marks are set meanwhile, too.
        (Built::tracking("-O2"), "300000"),
    ] {
        let program = build("stores_meanwhile.c", how);
        for words in [&[stores][..], &[stores, "fork"]] {
            for has_userfaultfd in [true, false] {
                let folder = tempfile::tempdir().unwrap();
                let mut command = Command::new(&program);
                command
                    .arg(folder.path().join("a.data"))
                    .args(words)
                    .env("PERDURE_TRACK", "pages");
                if !has_userfaultfd {
                    without_userfaultfd(&mut command);
                }
                good(&mut command);
            }
        }
    }
}

/// The program runs as on a kernel that does not have it.
fn without_userfaultfd(command: &mut Command) {
    let step = |code: u32, value: u32, then: u8, otherwise: u8| libc::sock_filter {
        code: code as u16,
        jt: then,
        jf: otherwise,
        k: value,
    };
    use libc::{BPF_ABS, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W};
    // The number is the first thing that a filter can look at.
    let filter = [
        step(BPF_LD | BPF_W | BPF_ABS, 0, 0, 0),
        step(
            BPF_JMP | BPF_JEQ | BPF_K,
            libc::SYS_userfaultfd as u32,
            0,
            1,
        ),
        step(
            BPF_RET | BPF_K,
            libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32,
            0,
            0,
        ),
        step(BPF_RET | BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0),
    ];
    let set = move || {
        let program = libc::sock_fprog {
            len: filter.len() as u16,
            filter: filter.as_ptr().cast_mut(),
        };
        // SAFETY: two system calls, the second of which reads the filter, which lives as long as this closure.
        let code = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER,
                &raw const program,
            )
        };
        match code {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    // SAFETY: between fork and exec it makes two system calls and nothing else.
    unsafe { command.pre_exec(set) };
}

/// What was cut off does not come back when the file is as long again, by what the journal has.
#[test]
fn a_file_that_is_cut_and_made_longer_has_zeros_there() {
    let seed = Rng::seed_from_env();
    println!("PERDURE_TEST_SEED={seed}");
    let mut rng = Rng::new(seed);
    let linked = Built {
        library: Library::Preload,
        ..Built::tracking("-O1")
    };
    for (program, front) in [
        (build("regrown.c", Built::ALONE), true),
        (build("regrown.c", linked), false),
    ] {
        // In memory, where a file is cut within the tick of the clock in which it was synced.
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let file = folder.path().join("a.regrown");
        let command = |word: &str| {
            let mut command = Command::new(&program);
            command
                .arg(&file)
                .arg(word)
                .env("PERDURE_FILES", "*.regrown");
            if front {
                command.env("LD_PRELOAD", preload());
            }
            command
        };
        for _ in 0..testkit::effort("PERDURE_KILLS", 60) {
            let seed = rng.below(1 << 40).to_string();
            let killed = run(&mut command(&seed));
            let told = String::from_utf8(killed.stdout).unwrap();
            let errors = String::from_utf8_lossy(&killed.stderr);
            assert!(
                told.ends_with('\n') && errors.is_empty(),
                "{seed}: {errors}"
            );
            assert_eq!(good(&mut command("check")), told, "seed {seed}");
            // To whoever only looks it happened then, and not now.
            let time = || file.metadata().unwrap().modified().unwrap();
            let before = time();
            assert_eq!(good(&mut command("check")), told);
            assert_eq!(time(), before);
        }
    }
}
