//! The commands on real heaps, held against what they should print.

use heap::{Cell, Durability, Heap, Options, Table};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

const BIN: &str = env!("CARGO_BIN_EXE_perdure");

struct Place {
    dir: TempDir,
}

impl Place {
    fn new() -> Place {
        Place {
            dir: tempfile::tempdir().expect("a folder"),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Runs perdure in the folder, so that messages name files without their folder.
    fn run(&self, args: &[&str]) -> Output {
        Command::new(BIN)
            .args(args)
            .current_dir(self.dir.path())
            .output()
            .expect("perdure starts")
    }

    fn expect(&self, args: &[&str], status: i32, stdout: &str) {
        let output = self.run(args);
        let (out, err) = texts(&output);
        assert_eq!(out, stdout, "{args:?}; standard error: {err}");
        assert_eq!(output.status.code(), Some(status), "{args:?}: {err}");
    }

    /// Fails with `status`, and standard error has all of `parts`.
    fn refuses(&self, args: &[&str], status: i32, parts: &[&str]) {
        let output = self.run(args);
        let (_, err) = texts(&output);
        assert_eq!(output.status.code(), Some(status), "{args:?}: {err}");
        assert_has(&err, parts);
        assert!(!err.contains("panicked"), "{err}");
    }
}

fn assert_has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing in: {text}");
    }
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

fn set(heap: &mut Heap, t: Table, key: &[u8], value: Cell<'_>) {
    let slot = heap.entry(t, key).expect("room");
    heap.cell_set(slot, value).expect("room");
}

fn string(bytes: &[u8]) -> Cell<'_> {
    Cell::Str {
        bytes,
        maybe_num: false,
    }
}

fn input(bytes: &[u8]) -> Cell<'_> {
    Cell::Str {
        bytes,
        maybe_num: true,
    }
}

/// A heap that holds nothing yet, and the table of its variables.
fn new_heap(path: &Path) -> (Heap, Table) {
    let mut heap = Heap::open(path, Options::writer()).expect("a new heap");
    let globals = heap.root("awk.globals").expect("room");
    (heap, globals)
}

fn make(path: &Path) {
    let (mut heap, globals) = new_heap(path);
    set(&mut heap, globals, b"total", Cell::Num(54.0));
    set(&mut heap, globals, b"ratio", Cell::Num(0.1));
    set(
        &mut heap,
        globals,
        b"name",
        string(b"tab\there, \"quoted\", \xff and Z\xc3\xbcrich"),
    );
    set(&mut heap, globals, b"seen", input(b" 12 "));
    set(&mut heap, globals, b"line", input(b"river"));
    set(&mut heap, globals, b"nothing", Cell::Uninit);
    set(&mut heap, globals, b"unassigned", input(b"")); // as `$9` of a shorter record
    set(&mut heap, globals, b"empty_text", string(b""));
    let freq = heap.table_new().expect("room");
    set(&mut heap, globals, b"freq", Cell::Table(freq));
    set(&mut heap, freq, b"river", Cell::Num(3.0));
    set(&mut heap, freq, b"a\x1cb", Cell::Num(2.0));
    set(&mut heap, freq, b"7", string(b"seven"));
    set(&mut heap, freq, b"inner", Cell::Uninit);
    let empty = heap.table_new().expect("room");
    set(&mut heap, globals, b"empty", Cell::Table(empty));
    let functions = heap.root("awk.functions").expect("room");
    set(
        &mut heap,
        functions,
        b"twice",
        string(b"function twice(x) {\n\treturn x \"\" x # \x1b[0m\n}"),
    );
    let other = heap.root("app.state").expect("room");
    set(&mut heap, other, b"k", Cell::Num(1.0));
    heap.commit(Durability::Durable).expect("committed");
    heap.close(Durability::Durable).expect("closed");
}

#[test]
fn help_names_the_files_that_create_makes() {
    let place = Place::new();
    let (help, _) = texts(&place.run(&["create", "--help"]));
    assert_has(&help, &["HEAP.journal", "HEAP.sums"]);
    place.expect(&["create", "a.heap"], 0, "made a.heap (no limit)\n");
    for name in ["a.heap", "a.heap.journal", "a.heap.sums"] {
        assert!(place.path(name).exists(), "{name}");
    }
}

#[test]
fn create_makes_a_heap_and_never_overwrites() {
    let place = Place::new();
    place.expect(&["create", "a.heap"], 0, "made a.heap (no limit)\n");
    place.expect(
        &["create", "b.heap", "--limit", "2M"],
        0,
        "made b.heap (limit 2.0 MiB (2097152 bytes))\n",
    );
    place.refuses(&["create", "a.heap"], 1, &["a.heap", "exists already"]);
    place.refuses(
        &["create", "c.heap", "--limit", "10"],
        2,
        &["--limit", "'10'", "the smallest limit is 1M"],
    );
    place.refuses(&["create", "c.heap", "--limit", "1Q"], 2, &["no unit"]);
    assert!(!place.path("c.heap").exists());
    place.expect(
        &["vars", "a.heap"],
        0,
        "name  kind                  count           bytes\n",
    );
    place.expect(&["dump", "a.heap"], 0, "");
}

#[test]
fn create_makes_nothing_in_the_place_of_a_heap_that_was_moved() {
    let place = Place::new();
    make(&place.path("a.heap"));
    std::fs::rename(place.path("a.heap"), place.path("b.heap")).expect("moved");
    for command in ["create", "info"] {
        place.refuses(
            &[command, "a.heap"],
            3,
            &["a.heap.journal", "put the heap back", "to begin anew"],
        );
    }
    assert!(!place.path("a.heap").exists());
}

#[test]
fn a_creation_without_room_leaves_nothing() {
    let place = Place::new();
    let script = format!("trap '' XFSZ; ulimit -f 16; exec '{BIN}' create a.heap");
    let output = Command::new("sh")
        .args(["-c", &script])
        .current_dir(place.dir.path())
        .output()
        .expect("sh starts");
    let (_, err) = texts(&output);
    assert_eq!(output.status.code(), Some(3), "{err}");
    assert_has(&err, &["a.heap", "cannot create", "there is no heap yet"]);
    assert!(!place.path("a.heap.journal").exists());
}

#[test]
fn vars_get_and_dump_tell_what_is_there() {
    let place = Place::new();
    make(&place.path("a.heap"));
    let (vars, _) = texts(&place.run(&["vars", "a.heap"]));
    let kinds: Vec<Vec<&str>> = vars
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().take(3).collect())
        .collect();
    assert_eq!(
        kinds,
        [
            vec!["\"app.state\"", "root", "1"],
            vec!["twice", "function", "-"],
            vec!["empty", "array", "0"],
            vec!["empty_text", "string", "-"],
            vec!["freq", "array", "4"],
            vec!["line", "string", "-"],
            vec!["name", "string", "-"],
            vec!["nothing", "uninitialized", "-"],
            vec!["ratio", "number", "-"],
            vec!["seen", "strnum", "-"],
            vec!["total", "number", "-"],
            vec!["unassigned", "uninitialized", "-"],
        ]
    );
    let get =
        |expression: &str, stdout: &str| place.expect(&["get", "a.heap", expression], 0, stdout);
    get("total", "54\n");
    get("freq[\"river\"]", "3\n");
    get("freq[\"a\",\"b\"]", "2\n");
    get("freq[7]", "\"seven\"\n");
    get("seen", "\" 12 \"\n");
    get("nothing", "\n");
    get("unassigned", "\n");
    get("empty_text", "\"\"\n");
    get("name", "\"tab\\there, \\\"quoted\\\", \\377 and Zürich\"\n");
    get(
        "freq",
        "\"river\"\t3\n\"a\\034b\"\t2\n\"7\"\t\"seven\"\n\"inner\"\t\n",
    );
    get(
        "twice",
        "function twice(x) {\n\treturn x \"\" x # \u{1b}[0m\n}\n",
    );
    get("\"app.state\"[\"k\"]", "1\n");
    get("app.state[\"k\"]", "1\n");
    place.refuses(
        &["get", "a.heap", "twice[1]"],
        1,
        &["twice is no array: it is a function"],
    );
    place.expect(&["get", "--raw", "a.heap", "line"], 0, "river\n");
    place.refuses(
        &["get", "a.heap", "absent"],
        1,
        &["no variable or function named absent"],
    );
    place.refuses(
        &["get", "a.heap", "freq[\"sea\"]"],
        1,
        &["no element freq[\"sea\"]"],
    );
    place.refuses(
        &["get", "a.heap", "total[1]"],
        1,
        &["total is no array: it is a number"],
    );
    place.refuses(
        &["get", "a.heap", "freq["],
        2,
        &["a string in double quotes", "character 6"],
    );
    place.expect(
        &["dump", "a.heap"],
        0,
        "function twice(x) {\n\treturn x \"\" x # \\033[0m\n}\n\
         split(\"\", empty)  # an empty array\n\
         empty_text = \"\"\n\
         freq[\"river\"] = 3\n\
         freq[\"a\",\"b\"] = 2\n\
         freq[\"7\"] = \"seven\"\n\
         freq[\"inner\"]  # uninitialized\n\
         line = \"river\"\n\
         name = \"tab\\there, \\\"quoted\\\", \\377 and Zürich\"\n\
         nothing  # uninitialized\n\
         ratio = 0.1\n\
         seen = \" 12 \"  # strnum\n\
         total = 54\n\
         unassigned  # uninitialized\n\
         \"app.state\"[\"k\"] = 1\n",
    );
}

#[test]
fn vars_counts_the_arrays_in_arrays() {
    let place = Place::new();
    let path = place.path("a.heap");
    let (mut heap, globals) = new_heap(&path);
    let outer = heap.table_new().expect("room");
    set(&mut heap, globals, b"outer", Cell::Table(outer));
    let inner = heap.table_new().expect("room");
    set(&mut heap, outer, b"only", Cell::Table(inner));
    for n in 0..1000 {
        set(
            &mut heap,
            inner,
            format!("key {n}").as_bytes(),
            Cell::Num(1.0),
        );
    }
    set(&mut heap, globals, b"zero", Cell::Num(-0.0));
    heap.commit(Durability::Durable).expect("committed");
    heap.close(Durability::Durable).expect("closed");
    let (vars, _) = texts(&place.run(&["vars", "a.heap"]));
    let bytes = vars.lines().find(|line| line.starts_with("outer"));
    let bytes = bytes.and_then(|line| line.split_whitespace().last());
    let bytes: u64 = bytes.and_then(|n| n.parse().ok()).expect("a number");
    assert!((32_000..100_000).contains(&bytes), "{vars}");
    let shown = "\"only\"\t(an array of 1000 elements)\n";
    place.expect(&["get", "a.heap", "outer"], 0, shown);
    place.expect(&["get", "a.heap", "zero"], 0, "0\n");
}

#[test]
fn a_dump_is_made_of_statements() {
    let place = Place::new();
    let path = place.path("a.heap");
    let (mut heap, globals) = new_heap(&path);
    let outer = heap.table_new().expect("room");
    set(&mut heap, globals, b"outer", Cell::Table(outer));
    let empty = heap.table_new().expect("room");
    set(&mut heap, outer, b"empty", Cell::Table(empty));
    for (name, value) in [
        (&b"a"[..], Cell::Num(f64::INFINITY)),
        (b"b", Cell::Num(-f64::NAN)),
        (b"c", Cell::Num(-0.0)),
        (b"d", Cell::Other(b"F-19p-4")),
        (b"d2", Cell::Other(b"F19p4")),
        (b"d3", Cell::Other(b"F19p0")),
        (b"e", Cell::Other(b"F-inf")),
        (b"f", Cell::Other(b"F-0p0")),
        (b"g", Cell::Other(b"R/p")),
        (b"h", Cell::Other(b"?new")),
    ] {
        set(&mut heap, globals, name, value);
    }
    heap.commit(Durability::Durable).expect("committed");
    heap.close(Durability::Durable).expect("closed");
    place.expect(
        &["dump", "a.heap"],
        0,
        "a = \"+inf\" + 0\n\
         b = \"-nan\" + 0\n\
         c = -0\n\
         d = -0x19 * 2 ^ -4\n\
         d2 = 0x19 / 2 ^ -4\n\
         d3 = 0x19 * 1.0\n\
         e = \"-inf\" + 0\n\
         f = -0\n\
         g = @//p/\n\
         h  # a value that this program does not know: \"?new\"\n\
         split(\"\", outer[\"empty\"])  # an empty array\n",
    );
}

#[test]
fn delete_removes_all_names_or_none() {
    let place = Place::new();
    let path = place.path("a.heap");
    make(&path);
    let (before, _) = texts(&place.run(&["dump", "a.heap"]));
    place.refuses(
        &["delete", "a.heap", "freq", "absent"],
        1,
        &["named absent", "nothing was deleted"],
    );
    place.expect(&["dump", "a.heap"], 0, &before);
    place.refuses(&["delete", "a.heap"], 2, &["NAME"]);
    place.refuses(&["delete", "b.heap", "x"], 3, &["b.heap", "no such file"]);
    let writer = Heap::open(&path, Options::writer()).expect("it opens");
    place.refuses(
        &["delete", "--lock-timeout", "0", "a.heap", "freq"],
        3,
        &["another process is writing"],
    );
    drop(writer);
    let names = ["freq", "twice", "total", "name", "line"];
    let said = format!("deleted {}\n", names.join(" "));
    place.expect(&[&["delete", "a.heap"], &names[..]].concat(), 0, &said);
    place.expect(
        &["dump", "a.heap"],
        0,
        "split(\"\", empty)  # an empty array\n\
         empty_text = \"\"\n\
         nothing  # uninitialized\n\
         ratio = 0.1\n\
         seen = \" 12 \"  # strnum\n\
         unassigned  # uninitialized\n\
         \"app.state\"[\"k\"] = 1\n",
    );
    let (check, _) = texts(&place.run(&["check", "a.heap"]));
    assert_has(&check, &["no damage:"]);
}

#[test]
fn lost_redundancy_is_told_and_made_anew() {
    let place = Place::new();
    let path = place.path("a.heap");
    make(&path);
    let whole = std::fs::read(&path).expect("readable");
    for (at, copy) in [(0, 'A'), (127, 'A'), (4095, 'A'), (4096, 'B'), (8191, 'B')] {
        let mut bytes = whole.clone();
        bytes[at] ^= 0xa7;
        std::fs::write(&path, bytes).expect("writable");
        let output = place.run(&["check", "a.heap"]);
        let (out, _) = texts(&output);
        assert_eq!(output.status.code(), Some(1), "byte {at}: {out}");
        let other = if copy == 'A' { 'B' } else { 'A' };
        let (copy, other) = (
            format!("superblock {copy}: "),
            format!("copy {other} serves"),
        );
        assert_has(
            &out,
            &[&copy, &other, "check --accept", "no damage to the data"],
        );
    }
    // The journal of a heap that was never checkpointed has all sums itself.
    std::fs::remove_file(place.path("a.heap.sums")).expect("ours");
    let (out, _) = texts(&place.run(&["check", "a.heap"]));
    assert!(!out.contains("no sum"), "{out}");
    assert_eq!(
        place.run(&["check", "--accept", "a.heap"]).status.code(),
        Some(0)
    );
    let (out, _) = texts(&place.run(&["check", "a.heap"]));
    assert_has(&out, &["no damage:"]);
    std::fs::remove_file(place.path("a.heap.sums")).expect("ours");
    let output = place.run(&["check", "a.heap"]);
    let (out, _) = texts(&output);
    assert_eq!(output.status.code(), Some(1), "{out}");
    assert_has(&out, &["pages have no sum to compare", "check --accept"]);
    assert_eq!(
        place.run(&["check", "--accept", "a.heap"]).status.code(),
        Some(0)
    );
    place.expect(&["get", "a.heap", "total"], 0, "54\n");
    assert_eq!(place.run(&["check", "a.heap"]).status.code(), Some(0));
}

#[test]
fn a_closed_standard_output_is_an_error() {
    let place = Place::new();
    make(&place.path("a.heap"));
    let output = Command::new("sh")
        .args(["-c", &format!("exec '{BIN}' vars a.heap >&-")])
        .current_dir(place.dir.path())
        .output()
        .expect("sh starts");
    let (_, err) = texts(&output);
    assert_eq!(output.status.code(), Some(3), "{err}");
    assert_has(&err, &["Bad file descriptor"]);
}

#[test]
fn info_tells_the_facts() {
    let place = Place::new();
    make(&place.path("a.heap"));
    let (info, _) = texts(&place.run(&["info", "a.heap"]));
    let names: Vec<&str> = info.lines().map(|line| line[..16].trim()).collect();
    assert_eq!(
        names,
        [
            "heap",
            "format",
            "uuid",
            "created",
            "commits",
            "last commit",
            "size",
            "limit",
            "space on disk",
            "journal",
            "pending commits",
            "live data",
            "named roots"
        ]
    );
    assert_has(
        &info,
        &[
            "limit            none",
            "commits          2\n",
            "named roots      3",
            " UTC",
        ],
    );
    let (json, _) = texts(&place.run(&["info", "--json", "a.heap"]));
    assert_has(
        &json,
        &[
            "{\n  \"format\": 1,\n",
            "\"limit_bytes\": null,",
            "\"commits\": 2,",
            "\"roots\": 3\n}\n",
        ],
    );
}

#[test]
fn check_finds_damage_and_says_what_can_be_saved() {
    let place = Place::new();
    let path = place.path("a.heap");
    make(&path);
    let (good, _) = texts(&place.run(&["check", "a.heap"]));
    assert_has(&good, &["no damage"]);
    let mut bytes = std::fs::read(&path).expect("readable");
    let at = bytes
        .windows(5)
        .position(|w| w == b"seven")
        .expect("inline");
    bytes[at + 15] = 0x99; // the tag of the cell
    std::fs::write(&path, bytes).expect("writable");
    let output = place.run(&["check", "a.heap"]);
    let (out, _) = texts(&output);
    assert_eq!(output.status.code(), Some(1), "{out}");
    assert_has(
        &out,
        &[
            "2 problem",
            "a page does not hold its sum",
            "unknown tag 0x99",
            "freq: 3 of 4 elements, 1 damaged",
            "total: whole",
            "perdure dump",
        ],
    );
    let output = place.run(&["dump", "a.heap"]);
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(1));
    assert_has(
        &out,
        &[
            "# damaged: freq: at offset",
            "freq[\"inner\"]",
            "total = 54",
        ],
    );
    assert_has(&err, &["damaged in 1 place"]);
}

#[test]
fn a_value_that_changed_by_itself_is_found_and_can_be_accepted() {
    let place = Place::new();
    let path = place.path("a.heap");
    make(&path);
    let mut bytes = std::fs::read(&path).expect("readable");
    let at = bytes
        .windows(5)
        .position(|w| w == b"seven")
        .expect("inline");
    bytes[at] = b'S';
    std::fs::write(&path, bytes).expect("writable");
    place.refuses(
        &["vars", "a.heap"],
        3,
        &["does not hold its sum", "perdure check"],
    );
    let output = place.run(&["check", "a.heap"]);
    let (out, _) = texts(&output);
    assert_eq!(output.status.code(), Some(1), "{out}");
    assert_has(
        &out,
        &[
            "1 problem",
            "All objects agree",
            "--accept",
            "Nothing was changed",
        ],
    );
    let output = place.run(&["check", "--accept", "a.heap"]);
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    assert_has(&out, &["taken as they are"]);
    assert_eq!(place.run(&["vars", "a.heap"]).status.code(), Some(0));
    let (out, _) = texts(&place.run(&["check", "a.heap"]));
    assert_has(&out, &["no damage"]);
}

#[test]
fn what_is_no_heap_is_explained() {
    let place = Place::new();
    place.refuses(&["info", "absent"], 3, &["no such file", "perdure create"]);
    std::fs::write(place.path("empty"), b"").expect("written");
    place.refuses(&["check", "empty"], 3, &["empty (0 bytes)"]);
    std::fs::write(place.path("text"), [b'x'; 9000]).expect("written");
    place.refuses(&["check", "text"], 3, &["does not begin like one"]);
    std::fs::create_dir(place.path("folder")).expect("made");
    place.refuses(&["vars", "folder"], 3, &["it is a directory"]);
    place.refuses(&["dump"], 2, &["HEAP"]);
    place.refuses(&[], 2, &["Usage"]);
}

#[test]
fn a_lost_journal_loses_nothing_after_a_normal_end() {
    let place = Place::new();
    let path = place.path("a.heap");
    make(&path);
    let (before, _) = texts(&place.run(&["dump", "a.heap"]));
    std::fs::remove_file(heap::journal_path(&path)).expect("removed");
    let output = place.run(&["check", "a.heap"]);
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(3));
    assert_has(&err, &["journal", "is missing"]);
    assert_has(&out, &["perdure check --discard-journal a.heap"]);
    let output = place.run(&["check", "--discard-journal", "a.heap"]);
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    assert_has(
        &out,
        &[
            "Going on without the journal",
            "no damage",
            "can be used again",
        ],
    );
    place.expect(&["dump", "a.heap"], 0, &before);
}

#[test]
fn a_journal_that_was_cut_is_told_and_loses_nothing_after_a_normal_end() {
    for bytes in [48, 4096, 8192, 40959] {
        let place = Place::new();
        let path = place.path("a.heap");
        make(&path);
        let (before, _) = texts(&place.run(&["dump", "a.heap"]));
        let journal = std::fs::OpenOptions::new()
            .write(true)
            .open(heap::journal_path(&path));
        journal.expect("there").set_len(bytes).expect("cut");
        for command in ["info", "check", "dump"] {
            let cut = format!("was cut to {bytes} bytes");
            place.refuses(
                &[command, "a.heap"],
                3,
                &["a.heap.journal", &cut, "--discard-journal"],
            );
        }
        let output = place.run(&["check", "--discard-journal", "a.heap"]);
        assert_eq!(output.status.code(), Some(0), "{:?}", texts(&output));
        assert!(place.path("a.heap.journal.orphan").exists());
        place.expect(&["dump", "a.heap"], 0, &before);
    }
}

#[test]
fn a_journal_that_is_needed_is_not_discarded() {
    let place = Place::new();
    make(&place.path("a.heap"));
    let (out, _) = texts(&place.run(&["check", "--discard-journal", "a.heap"]));
    assert_has(&out, &["nothing was discarded"]);
    assert!(!place.path("a.heap.journal.orphan").exists());
    // Another heap's journal is set aside, twice without overwriting.
    place.run(&["create", "b.heap"]);
    for kept in ["a.heap.journal.orphan", "a.heap.journal.orphan.1"] {
        std::fs::copy(place.path("b.heap.journal"), place.path("a.heap.journal")).expect("copied");
        let output = place.run(&["check", "--discard-journal", "a.heap"]);
        assert_eq!(output.status.code(), Some(0), "{:?}", texts(&output));
        assert!(place.path(kept).exists(), "{kept}");
    }
    place.expect(&["get", "a.heap", "total"], 0, "54\n");
}

#[test]
fn a_reader_of_the_output_may_go_away() {
    let place = Place::new();
    let path = place.path("a.heap");
    let (mut heap, globals) = new_heap(&path);
    let t = heap.table_new().expect("room");
    set(&mut heap, globals, b"a", Cell::Table(t));
    for i in 0..100_000 {
        heap.entry_int(t, i).expect("room");
    }
    heap.commit(Durability::Durable).expect("committed");
    let script = format!("{BIN} dump a.heap | head -n 2; exit ${{PIPESTATUS[0]}}");
    let output = Command::new("bash")
        .args(["-c", &script])
        .current_dir(place.dir.path())
        .output()
        .expect("bash starts");
    let (out, err) = texts(&output);
    assert_eq!(
        out,
        "a[\"0\"]  # uninitialized\na[\"1\"]  # uninitialized\n"
    );
    assert_eq!((err.as_str(), output.status.code()), ("", Some(0)));
}

#[test]
fn little_address_space_is_enough() {
    let place = Place::new();
    make(&place.path("a.heap"));
    let under = |limit: u64| {
        let script = format!("ulimit -v {limit}; exec {BIN} get a.heap total");
        Command::new("bash")
            .args(["-c", &script])
            .current_dir(place.dir.path())
            .output()
            .expect("bash starts")
    };
    // In kilobytes: from a tenth of a gigabyte up.
    for limit in [
        120_000, 260_000, 600_000, 1_100_000, 2_150_000, 4_300_000, 20_000_000,
    ] {
        let (out, err) = texts(&under(limit));
        assert_eq!(
            (out.as_str(), err.as_str()),
            ("54\n", ""),
            "ulimit -v {limit}"
        );
    }
    let output = under(40_000);
    assert_eq!(output.status.code(), Some(3));
    assert_has(&texts(&output).1, &["address space", "ulimit -v"]);
}

/// `[1]` of the table `at`: a new array.
fn nest(heap: &mut Heap, at: Table) -> Table {
    let inner = heap.table_new().expect("room");
    set(heap, at, b"1", Cell::Table(inner));
    inner
}

#[test]
fn arrays_may_lie_as_deep_in_arrays_as_they_like() {
    const DEPTH: usize = 300;
    let place = Place::new();
    let path = place.path("a.heap");
    let (mut heap, globals) = new_heap(&path);
    let top = heap.table_new().expect("room");
    set(&mut heap, globals, b"deep", Cell::Table(top));
    let mut innermost = top;
    for _ in 1..DEPTH {
        innermost = nest(&mut heap, innermost);
    }
    set(&mut heap, innermost, b"k", Cell::Num(7.0));
    set(&mut heap, top, b"last", Cell::Num(8.0));
    heap.commit(Durability::Durable).expect("committed");
    heap.close(Durability::Durable).expect("closed");
    let name = format!("deep{}[\"k\"]", "[\"1\"]".repeat(DEPTH - 1));
    let all = format!("{name} = 7\ndeep[\"last\"] = 8\n");
    place.expect(&["dump", "a.heap"], 0, &all);
    place.expect(&["get", "a.heap", &name], 0, "7\n");
    assert_eq!(place.run(&["check", "a.heap"]).status.code(), Some(0));
    assert_eq!(place.run(&["vars", "a.heap"]).status.code(), Some(0));
}

#[test]
fn an_array_that_contains_itself_is_named() {
    let place = Place::new();
    let path = place.path("a.heap");
    let (mut heap, globals) = new_heap(&path);
    let top = heap.table_new().expect("room");
    set(&mut heap, globals, b"a", Cell::Table(top));
    let inner = nest(&mut heap, top);
    set(&mut heap, inner, b"up", Cell::Table(top));
    set(&mut heap, inner, b"k", Cell::Num(7.0));
    heap.commit(Durability::Durable).expect("committed");
    heap.close(Durability::Durable).expect("closed");
    place.expect(
        &["dump", "a.heap"],
        1,
        "# damaged: a[\"1\"][\"up\"]: an array that contains itself\na[\"1\"][\"k\"] = 7\n",
    );
}

#[test]
fn no_command_panics_on_garbled_heaps() {
    let place = Place::new();
    let path = place.path("a.heap");
    make(&path);
    let bytes = std::fs::read(&path).expect("readable");
    // Words that are in use, each with another kind of nonsense.
    let words = (8192..bytes.len() - 8)
        .step_by(8)
        .filter(|&at| bytes[at..at + 8] != [0; 8]);
    let nonsense = [u64::MAX, 0, 12_352, 1 << 40, 8, 0x99 << 56];
    for (case, at) in words.step_by(3).enumerate() {
        let mut garbled = bytes.clone();
        garbled[at..at + 8].copy_from_slice(&nonsense[case % nonsense.len()].to_le_bytes());
        std::fs::write(&path, garbled).expect("writable");
        for args in [
            &["check", "a.heap"][..],
            &["dump", "a.heap"],
            &["vars", "a.heap"],
            &["get", "a.heap", "freq"],
            &["info", "a.heap"],
        ] {
            let output = place.run(args);
            let (out, err) = texts(&output);
            assert!(
                matches!(output.status.code(), Some(0 | 1 | 3)),
                "{args:?}, word at {at}: {err}"
            );
            assert!(!err.contains("panicked"), "{args:?}, word at {at}: {err}");
            assert!(
                output.status.success() || !(out + &err).is_empty(),
                "{args:?}: no message"
            );
        }
    }
}

#[test]
fn readers_do_not_wait_for_the_writer() {
    let place = Place::new();
    let path = place.path("a.heap");
    make(&path);
    let mut heap = Heap::open(&path, Options::writer()).expect("the one writer");
    let globals = heap.root("awk.globals").expect("there");
    set(&mut heap, globals, b"total", Cell::Num(55.0));
    place.expect(&["get", "a.heap", "total"], 0, "54\n");
    heap.commit(Durability::Lazy).expect("committed");
    place.expect(&["get", "a.heap", "total"], 0, "55\n");
    let (info, _) = texts(&place.run(&["info", "a.heap"]));
    assert_has(&info, &["1 wait in the journal"]);
}

#[test]
fn a_wrong_command_line_is_told_as_other_errors_are() {
    let place = Place::new();
    for args in [
        &["frob"][..],
        &["get", "a.heap"],
        &["info", "--frob", "a.heap"],
    ] {
        let output = place.run(args);
        let (out, err) = texts(&output);
        assert_eq!((output.status.code(), out.as_str()), (Some(2), ""));
        assert!(err.starts_with("perdure: "), "{err}");
    }
    let help = place.run(&["--help"]);
    assert_eq!(help.status.code(), Some(0));
    assert!(texts(&help).0.contains("Exit status"));
    // Without a command it is the help, but not a success.
    assert_eq!(place.run(&[]).status.code(), Some(2));
}
