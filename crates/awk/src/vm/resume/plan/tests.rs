//! What logs go through between two runs, with numbers of files made up where a file system would have to use them again.

use super::*;
use crate::vm::resume::position::Sample;
use std::fs;
use std::path::PathBuf;

/// A folder with a log, and what a job knows of it.
struct Scene {
    /// When it begins.
    base: f64,
    folder: tempfile::TempDir,
    resume: Resume,
}

impl Scene {
    fn new() -> Scene {
        Scene {
            base: now().floor() - 1000.0,
            folder: tempfile::tempdir().unwrap(),
            resume: Resume {
                job: b"main".to_vec(),
                known: HashMap::new(),
                next: 0,
                current: None,
                changed: Vec::new(),
            },
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    /// Writes a file, last at `second` of the scene.
    fn write(&self, name: &str, text: &str, second: u64) {
        let file = File::create(self.path(name)).unwrap();
        fs::write(self.path(name), text).unwrap();
        let time =
            std::time::UNIX_EPOCH + std::time::Duration::from_secs(self.base as u64 + second);
        file.set_modified(time).unwrap();
    }

    fn identity(&self, name: &str) -> Identity {
        Identity::of(&fs::metadata(self.path(name)).unwrap())
    }

    /// A position behind `text`, which was read at second 65 from the log when that was the file `identity`.
    fn know(&mut self, text: &str, identity: Identity, finished: bool) -> u64 {
        let (bytes, sample) = (text.as_bytes(), SAMPLE_BYTES as usize);
        let serial = self.resume.next;
        self.resume.next += 1;
        let position = Position {
            offset: bytes.len() as u64,
            fnr: 0.0,
            head: Sample::of(&bytes[..bytes.len().min(sample)]),
            tail: Sample::of(&bytes[bytes.len().saturating_sub(sample)..]),
            identity,
            used: self.base + 65.0,
            since: self.base,
            finished,
            name: self.path("log").as_os_str().as_bytes().to_vec(),
        };
        self.resume.known.insert(serial, position);
        serial
    }

    /// The stretches to read for an operand, as names and offsets, and the positions that are given up.
    fn plan_for(&self, operand: &str) -> (Vec<(String, u64)>, Vec<u64>) {
        let path = self.path(operand);
        let file = File::open(&path).unwrap();
        let plan = self.resume.plan(path.as_os_str().as_bytes(), file).unwrap();
        let names: HashMap<Identity, String> = fs::read_dir(self.folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .map(|name| (self.identity(&name), name))
            .collect();
        let stretches = plan
            .segments
            .iter()
            .map(|s| (names[&s.identity].clone(), s.offset));
        (stretches.collect(), plan.gone)
    }

    fn plan(&self) -> Vec<(String, u64)> {
        let (stretches, gone) = self.plan_for("log");
        assert!(gone.is_empty(), "given up: {gone:?}");
        stretches
    }
}

/// The number of a file that is no more, or of one that has another's number.
fn number(inode: u64) -> Identity {
    Identity {
        device: 0,
        inode,
        birth: 1,
    }
}

/// Lines with numbers, more than a sample of them.
fn lines(from: u64) -> String {
    (from..from + 2000).map(|n| format!("{n}\n")).collect()
}

fn stretches(of: &[(&str, usize)]) -> Vec<(String, u64)> {
    of.iter()
        .map(|(name, offset)| ((*name).to_string(), *offset as u64))
        .collect()
}

/// The first failure that a run under fire found after the others were mended.
#[test]
fn a_copy_is_known_though_the_truncated_log_kept_the_number() {
    let mut scene = Scene::new();
    let (old, read) = (lines(10_000), lines(10_000)[..6000].to_string());
    scene.write("log-20260001", &old, 50);
    scene.write("log.1", &lines(20_000), 60);
    scene.write("log", "", 70);
    scene.know(&read, scene.identity("log.1"), false);
    scene.know("", scene.identity("log-20260001"), false);
    let all = [("log-20260001", 6000), ("log.1", 0), ("log", 0)];
    assert_eq!(scene.plan(), stretches(&all));
}

#[test]
fn a_new_file_under_the_number_of_a_dead_one_is_read_from_its_beginning() {
    let mut scene = Scene::new();
    scene.write("log", &lines(20_000), 70);
    let serial = scene.know(&lines(10_000), scene.identity("log"), false);
    let (all, gone) = scene.plan_for("log");
    assert_eq!((all, gone), (stretches(&[("log", 0)]), vec![serial]));
}

#[test]
fn a_number_with_headings_does_not_hide_that_more_was_read() {
    let mut scene = Scene::new();
    let read = lines(10_000);
    scene.write("log", &format!("{read}more\n"), 70);
    scene.know(&read[..6], scene.identity("log"), true);
    scene.know(&read, number(7), false);
    assert_eq!(scene.plan(), stretches(&[("log", read.len())]));
}

#[test]
fn short_logs_that_are_the_same_are_counted_each() {
    let mut scene = Scene::new();
    for (name, second) in [("log.3", 60), ("log.2", 70), ("log.1", 80), ("log", 90)] {
        scene.write(name, "started\n", second);
    }
    scene.know("started\n", scene.identity("log.3"), false);
    scene.know("started\n", number(7), true);
    let all = [("log.3", 8), ("log.2", 0), ("log.1", 0), ("log", 0)];
    assert_eq!(scene.plan(), stretches(&all));
}

#[test]
fn a_log_that_was_copied_and_not_truncated_yet_is_read_once() {
    for text in ["a\nb\n".to_string(), lines(10_000)] {
        let mut scene = Scene::new();
        scene.know("", number(7), true);
        scene.write("log", &text, 70);
        // The system's clock ticks in milliseconds.
        std::thread::sleep(Duration::from_millis(20));
        scene.write("log-20260001", &text, 71);
        assert_eq!(scene.plan(), stretches(&[("log", 0)]));
        scene.know(&text[..2], scene.identity("log"), false);
        assert_eq!(scene.plan(), stretches(&[("log", 2)]));
        // Then it is truncated.
        scene.know(&text, scene.identity("log"), false);
        scene.resume.known.remove(&1);
        scene.write("log", "c\n", 72);
        let all = [("log-20260001", text.len()), ("log", 0)];
        assert_eq!(scene.plan(), stretches(&all));
    }
}

#[test]
fn a_log_that_was_renamed_and_restored_under_its_name_goes_on_there() {
    for read in [6, 6000] {
        let mut scene = Scene::new();
        let text = lines(10_000);
        scene.write("log.1", &text, 60);
        scene.write("log", &format!("{text}more\n"), 70);
        scene.know(&text[..read], scene.identity("log.1"), false);
        assert_eq!(scene.plan(), stretches(&[("log", read)]), "{read}");
    }
}

#[test]
fn what_is_back_out_of_its_compressed_form_was_read() {
    for text in ["a\nb\n".to_string(), lines(10_000)] {
        let mut scene = Scene::new();
        scene.write("log.2", &text, 60);
        scene.write("log", "c\n", 70);
        scene.know(&text, number(7), true);
        scene.know("c\n", scene.identity("log"), false);
        assert_eq!(scene.plan(), stretches(&[("log", 2)]));
    }
}

#[test]
fn a_rotated_file_that_is_an_operand_itself_has_the_positions_of_its_log() {
    let mut scene = Scene::new();
    scene.write("log-20260001", "a\nb\n", 60);
    scene.write("log", "c\n", 70);
    scene.know("a\n", scene.identity("log"), false);
    let (all, gone) = scene.plan_for("log-20260001");
    assert_eq!((all, gone), (stretches(&[("log-20260001", 2)]), vec![]));
    let all = [("log-20260001", 2), ("log", 0)];
    assert_eq!(scene.plan(), stretches(&all));
}

#[test]
fn positions_of_nothing_are_used_again_or_dropped() {
    let mut scene = Scene::new();
    scene.write("log", "a\n", 70);
    let serials = [number(7), number(8)].map(|n| scene.know("", n, false));
    let path = scene.path("log");
    let plan = |scene: &Scene| {
        let file = File::open(&path).unwrap();
        scene
            .resume
            .plan(path.as_os_str().as_bytes(), file)
            .unwrap()
    };
    let first = plan(&scene);
    let used = first.segments[0].serial.unwrap();
    assert!(serials.contains(&used) && first.spare.len() == 1);
    assert!(!first.spare.contains(&used));
}

#[test]
fn a_copy_that_is_being_made_is_left_alone() {
    for text in ["a\nb\n".to_string(), lines(10_000)] {
        let mut scene = Scene::new();
        scene.write("log", &text, 70);
        scene.know(&text[..2], scene.identity("log"), false);
        std::thread::sleep(Duration::from_millis(20));
        for copied in [0, 2] {
            fs::write(scene.path("log-20260001"), &text[..copied]).unwrap();
            assert_eq!(scene.plan(), stretches(&[("log", 2)]));
        }
    }
}
