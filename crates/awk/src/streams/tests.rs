//! Streams as the machine uses them, with real files and commands.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;

use super::*;

#[derive(Clone, Default)]
struct Shared(Rc<RefCell<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn streams() -> (Streams, Shared) {
    let out = Shared::default();
    (Streams::new(Box::new(out.clone()), false), out)
}

/// A folder of its own under the build's scratch space, removed when dropped.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(test: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("awk-streams-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
    fn file(&self, name: &str) -> Vec<u8> {
        self.0.join(name).into_os_string().into_encoded_bytes()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn line(reader: &mut RecordReader) -> Option<String> {
    let range = reader.next_line(b'\n').unwrap()?;
    Some(String::from_utf8_lossy(&reader.buffer()[range]).into_owned())
}

#[test]
fn close_gives_gawks_values() {
    let (mut s, _) = streams();
    for (command, value) in [
        ("cat >/dev/null; exit 3", 3.0),
        ("cat >/dev/null; kill -9 $$", 265.0),
    ] {
        s.output(OutKind::Pipe, command.as_bytes(), Manner::default())
            .unwrap()
            .write(b"x\n")
            .unwrap();
        assert_eq!(s.close(command.as_bytes()), value);
    }
    for (command, value) in [("exit 4", 4.0), ("kill -15 $$; echo a", 271.0)] {
        assert_eq!(line(s.input_command(command.as_bytes()).unwrap()), None);
        assert_eq!(s.close(command.as_bytes()), value);
    }
    assert_eq!(line(s.input_command(b"yes").unwrap()).as_deref(), Some("y"));
    assert!(s.close(b"yes") >= 128.0);
    assert_eq!(s.close(b"nothing"), -1.0);
    assert_eq!(s.system(b"exit 5").map(status_value), Some(5.0));
    assert_eq!(s.system(b"kill -9 $$").map(status_value), Some(265.0));
}

#[test]
fn a_file_stays_open_under_its_name_until_closed() {
    let folder = Folder::new("names");
    let name = folder.file("f");
    let (mut s, _) = streams();
    s.output(OutKind::File, &name, Manner::default())
        .unwrap()
        .write(b"one\n")
        .unwrap();
    s.output(OutKind::Append, &name, Manner::default())
        .unwrap()
        .write(b"two\n")
        .unwrap();
    s.output(OutKind::File, &name, Manner::default())
        .unwrap()
        .write(b"three\n")
        .unwrap();
    assert_eq!(s.flush(&name), 1);
    assert_eq!(line(s.input_file(&name).unwrap()).as_deref(), Some("one"));
    assert_eq!(s.close(&name), 0.0);
    assert_eq!(s.close(&name), 0.0);
    assert_eq!(s.close(&name), -1.0);
    assert_eq!(
        std::fs::read(OsStr::from_bytes(&name)).unwrap(),
        b"one\ntwo\nthree\n"
    );
    s.output(OutKind::Append, &name, Manner::default())
        .unwrap()
        .write(b"four\n")
        .unwrap();
    assert!(s.close_all().is_empty());
    assert_eq!(
        std::fs::read(OsStr::from_bytes(&name)).unwrap(),
        b"one\ntwo\nthree\nfour\n"
    );
    s.output(OutKind::File, &name, Manner::default()).unwrap();
    assert!(s.close_all().is_empty());
    assert_eq!(std::fs::read(OsStr::from_bytes(&name)).unwrap(), b"");
}

#[test]
fn a_pipe_in_and_a_pipe_out_may_share_a_command() {
    let folder = Folder::new("share");
    let command = [b"cat >>", &folder.file("f")[..]].concat();
    let (mut s, _) = streams();
    s.output(OutKind::Pipe, &command, Manner::default())
        .unwrap()
        .write(b"a\n")
        .unwrap();
    s.set_stdin(Box::new(io::empty()));
    assert_eq!(s.close(&command), 0.0);
    assert_eq!(s.close(&command), -1.0);
    assert_eq!(std::fs::read(folder.0.join("f")).unwrap(), b"a\n");
}

#[test]
fn output_is_flushed_before_others_run() {
    let folder = Folder::new("order");
    let name = folder.file("f");
    let (mut s, out) = streams();
    s.stdout().write(b"first\n").unwrap();
    s.output(OutKind::File, &name, Manner::default())
        .unwrap()
        .write(b"x\n")
        .unwrap();
    let command = [b"cat ", &name[..]].concat();
    assert_eq!(
        line(s.input_command(&command).unwrap()).as_deref(),
        Some("x")
    );
    assert_eq!(*out.0.borrow(), b"first\n");
    s.output(OutKind::File, &name, Manner::default())
        .unwrap()
        .write(b"y\n")
        .unwrap();
    let count = [b"test $(wc -l < ", &name[..], b") = 2"].concat();
    assert_eq!(s.system(&count).map(status_value), Some(0.0));
}

#[test]
fn standard_streams_have_their_names() {
    let (mut s, out) = streams();
    s.set_stdin(Box::new(&b"l1\nl2\nl3\n"[..]));
    for name in [&b"-"[..], b"/dev/stdout"] {
        s.output(OutKind::File, name, Manner::default())
            .unwrap()
            .write(b"x\n")
            .unwrap();
    }
    assert_eq!(line(s.input_file(b"-").unwrap()).as_deref(), Some("l1"));
    assert_eq!(
        line(s.input_file(b"/dev/stdin").unwrap()).as_deref(),
        Some("l2")
    );
    assert_eq!(line(s.stdin()).as_deref(), Some("l3"));
    assert_eq!(s.close(b"/dev/stdin"), 0.0);
    assert_eq!(s.close(b"/dev/stdin"), -1.0);
    assert_eq!(s.close(b"/dev/stdout"), 0.0);
    s.stdout().write(b"y\n").unwrap();
    assert!(s.close_all().is_empty());
    assert_eq!(*out.0.borrow(), b"x\nx\ny\n");
}

#[test]
fn errors_name_the_file() {
    let (mut s, _) = streams();
    let message = |error: StreamError| error.to_string();
    assert!(message(s.input_file(b"/").err().unwrap()).contains("\"/\": it is a directory"));
    assert!(
        message(s.input_file(b"/nonexistent").err().unwrap())
            .contains("\"/nonexistent\" for reading")
    );
    assert!(
        message(
            s.output(OutKind::File, b"/nonexistent/x", Manner::default())
                .err()
                .unwrap()
        )
        .contains("for writing")
    );
    assert_eq!(s.flush(b"nope"), 0);
}

#[test]
fn a_broken_pipe_on_stdout_is_told_apart() {
    struct Broken;
    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut s = Streams::new(Box::new(Broken), true);
    assert!(matches!(
        s.stdout().write(b"x"),
        Err(StreamError::StdoutClosed)
    ));
    let mut s = Streams::new(Box::new(io::sink()), false);
    let out = s
        .output(OutKind::Pipe, b"exec <&-; exit 0", Manner::default())
        .unwrap();
    let result = (0..1000).try_for_each(|_| out.write(&[b'x'; 1000]));
    assert!(matches!(result, Err(StreamError::Write { .. })));
    assert_eq!(s.close(b"exec <&-; exit 0"), 0.0);
}

#[test]
fn more_files_than_descriptors_can_be_written() {
    let folder = Folder::new("many");
    let (mut s, _) = streams();
    // Whatever the limit of this process is, `park` must keep what was written.
    for round in 0..3 {
        for file in 0..200 {
            let name = folder.file(&file.to_string());
            let text = format!("{round}\n");
            s.output(OutKind::File, &name, Manner::default())
                .unwrap()
                .write(text.as_bytes())
                .unwrap();
        }
        // Where the process's limit is high, as it is usually.
        s.park();
    }
    assert!(s.close_all().is_empty());
    for file in 0..200 {
        assert_eq!(
            std::fs::read(folder.0.join(file.to_string())).unwrap(),
            b"0\n1\n2\n"
        );
    }
}

#[test]
fn redirected_output_and_that_of_commands_goes_to_the_file() {
    let folder = Folder::new("redirect");
    let (mut s, out) = streams();
    s.stdout().write(b"before\n").unwrap();
    let file = std::fs::File::create(folder.0.join("f")).unwrap();
    let mut before = s.redirect_stdout(file, b"new").unwrap();
    s.stdout().write(b"one\n").unwrap();
    assert_eq!(s.system(b"echo two").map(status_value), Some(0.0));
    s.stdout().write(b"three\n").unwrap();
    s.restore_stdout(&mut before).unwrap();
    s.stdout().write(b"after\n").unwrap();
    assert!(s.close_all().is_empty());
    assert_eq!(*out.0.borrow(), b"before\nafter\n");
    assert_eq!(
        std::fs::read(folder.0.join("f")).unwrap(),
        b"one\ntwo\nthree\n"
    );
}

#[test]
fn a_limited_read_gives_up_and_loses_nothing() {
    let (mut s, _) = streams();
    s.tune(&[(b"GAWK_READ_TIMEOUT".to_vec(), b"50".to_vec())]);
    let command = b"printf a; sleep 0.4; echo b";
    let reader = s.input_command(command).unwrap();
    let error = reader.next_line(b'\n').unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    assert!(may_retry(&error));
    s.patience().ask();
    let error = s
        .input_command(command)
        .unwrap()
        .next_line(b'\n')
        .unwrap_err();
    assert!(wants_limit(&error));
    s.patience().tell(Some(0));
    assert_eq!(
        line(s.input_command(command).unwrap()).as_deref(),
        Some("ab")
    );
}

#[test]
fn descriptors_of_our_own_are_not_to_be_had() {
    use std::os::fd::AsRawFd;
    let folder = Folder::new("descriptor");
    let file = std::fs::File::create(folder.0.join("f")).unwrap();
    let name = format!("/dev/fd/{}", file.as_raw_fd()).into_bytes();
    let (mut s, _) = streams();
    assert!(s.input_file(&name).is_err());
    assert!(s.output(OutKind::File, &name, Manner::default()).is_err());
}

#[test]
fn failures_are_kept_until_they_are_taken() {
    let (mut s, _) = streams();
    let write = |s: &mut Streams| {
        let out = s.output(OutKind::File, b"/dev/full", Manner::default());
        out.unwrap().write(b"x").unwrap();
    };
    write(&mut s);
    s.flush_outputs();
    assert!(s.has_failures());
    let failures = s.take_failures();
    assert_eq!(failures[0].name, b"/dev/full");
    assert_eq!(failures[0].error.number(), Some(28));
    write(&mut s);
    assert_eq!(s.close(b"/dev/full"), 0.0);
    write(&mut s);
    assert_eq!(s.close_all().len(), 2);
}

#[test]
fn a_terminal_is_no_pipe() {
    let (mut s, _) = streams();
    let manner = Manner {
        terminal: true,
        ..Manner::default()
    };
    let command = b"test -t 0 && test -t 1 && read line && echo \"got $line\"; exit 3";
    let out = s.output(OutKind::Coprocess, command, manner).unwrap();
    out.write(b"text\n").unwrap();
    let reader = s.input_coprocess(command, manner).unwrap();
    assert_eq!(line(reader).as_deref(), Some("got text"));
    assert_eq!(line(s.input_coprocess(command, manner).unwrap()), None);
    assert_eq!(s.close(command), 3.0);
}
