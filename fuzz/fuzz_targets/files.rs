//! Files and texts with a format of their own, and any bytes in them.
//!
//! The first byte of an input chooses the format: message catalogues, positions of `--resume`, arrays in files, time zones, and
//! formats of times. Nothing panics, nothing takes memory or time out of proportion, and what is taken comes back the same.
#![no_main]

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use awk::gettext::Catalogue;
use awk::locale::Dates;
use awk::text::Charset;
use awk::time::{Zone, strftime, strptime, timestamp_from, utc};
use awk::vm::POSITIONS;
use awk::{Language, Setup};
use awk_syntax::Sources;
use heap::{Cell, Durability, Heap};
use libfuzzer_sys::fuzz_target;
use perdure_fuzz::Sink;
use tempfile::TempDir;
use xxhash_rust::xxh3::xxh3_64;

/// The path of a file of this process.
fn scratch(name: &str) -> PathBuf {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| tempfile::tempdir().expect("a temporary folder"));
    folder.path().join(name)
}

fn catalogue(bytes: &[u8]) {
    // The magic is given, so that every input is a catalogue of some kind.
    let mut file = if bytes.first().is_some_and(|b| b % 2 == 0) {
        b"\xDE\x12\x04\x95".to_vec()
    } else {
        b"\x95\x04\x12\xDE".to_vec()
    };
    file.extend_from_slice(bytes.get(1..).unwrap_or_default());
    let Some(catalogue) = Catalogue::parse(file) else {
        return;
    };
    for original in [&b""[..], b"a", b"message", b"\xff", bytes] {
        if let Some(text) = catalogue.message(original) {
            assert!(!text.is_empty() && text.len() <= bytes.len());
        }
        for n in [0, 1, 2, 5, 11, 101, u64::MAX] {
            if let Some(text) = catalogue.plural(original, n) {
                assert!(!text.is_empty() && text.len() <= bytes.len());
            }
        }
    }
}

/// A catalogue whose header has `rule` as its rule for plurals: that a random file has one is unlikely.
fn plural_rule(rule: &[u8]) {
    let mut header = b"Plural-Forms: ".to_vec();
    header.extend_from_slice(rule);
    header.push(b'\n');
    let texts: [(&[u8], &[u8]); 2] = [(b"", &header), (b"x\0xs", b"one\0two\0three\0four")];
    let mut file = Vec::new();
    for word in [0x9504_12DE_u32, 0, 2, 28, 44, 0, 0] {
        file.extend_from_slice(&word.to_le_bytes());
    }
    let mut strings = Vec::new();
    let mut tables = [Vec::new(), Vec::new()];
    for (original, translation) in texts {
        for (table, text) in tables.iter_mut().zip([original, translation]) {
            table.extend_from_slice(&(text.len() as u32).to_le_bytes());
            table.extend_from_slice(&(60 + strings.len() as u32).to_le_bytes());
            strings.extend_from_slice(text);
            strings.push(0);
        }
    }
    file.extend(tables.concat());
    file.extend(strings);
    let catalogue = Catalogue::parse(file).expect("a whole catalogue");
    assert_eq!(catalogue.message(b"x"), Some(&b"one"[..]));
    for n in [0, 1, 2, 3, 4, 5, 10, 11, 12, 21, 100, 111, u64::MAX] {
        if let Some(form) = catalogue.plural(b"x", n) {
            assert!([&b"one"[..], b"two", b"three", b"four"].contains(&form));
        }
    }
}

/// Runs a program that may use files.
fn run(program: &str, heap: Heap, operands: &[&Path], resume: Option<&[u8]>) -> (bool, Vec<u8>) {
    let mut sources = Sources::default();
    sources.add("p.awk", program);
    let sink = Sink::default();
    let setup = Setup {
        operands: operands
            .iter()
            .map(|path| path.as_os_str().as_encoded_bytes().to_vec())
            .collect(),
        stdin: Some(Box::new(std::io::empty())),
        durability: Durability::Lazy,
        resume: resume.map(<[u8]>::to_vec),
        ..Setup::new(Box::new(sink.clone()))
    };
    let result = awk::load(sources, &heap, Language::new(Charset::Utf8))
        .and_then(|loaded| awk::run(&loaded, heap, "", setup));
    (result.is_ok(), sink.bytes())
}

/// A position that somebody wrote into the heap: the run reads the file from its beginning or from some place on, and ends.
fn position(text: &[u8]) {
    const LINES: usize = 100;
    let file = scratch("log");
    if !file.exists() {
        let lines: String = (0..LINES).map(|n| format!("line {n}\n")).collect();
        std::fs::write(&file, lines).expect("a scratch file");
    }
    let meta = std::fs::metadata(&file).expect("the scratch file");
    let key = format!("job\0{}:{}", meta.dev(), meta.ino());
    // Samples of no bytes fit every file, so that the numbers decide.
    let mut numbers = text.splitn(3, |b| *b == b' ');
    let mut next = || String::from_utf8_lossy(numbers.next().unwrap_or_default()).into_owned();
    let fitting = format!(
        "{} {} 0 {:016x} 0 {:016x} {} {}",
        next(),
        next(),
        xxh3_64(b""),
        xxh3_64(b""),
        next(),
        file.display()
    );
    for value in [text, fitting.as_bytes()] {
        let mut heap = Heap::volatile().expect("memory for a volatile heap");
        let table = heap.root(POSITIONS).expect("a root");
        let cell = Cell::Str {
            bytes: value,
            maybe_num: false,
        };
        let slot = heap.entry(table, key.as_bytes()).expect("a place");
        heap.cell_set(slot, cell).expect("a position");
        let program = "{ n++ } END { print n + 0, FNR }";
        let (is_ok, printed) = run(program, heap, &[&file], Some(b"job"));
        assert!(is_ok);
        let printed = String::from_utf8_lossy(&printed).into_owned();
        let count = printed
            .split(' ')
            .next()
            .and_then(|n| n.parse::<usize>().ok());
        assert!(count.is_some_and(|n| n <= LINES), "{printed:?}");
    }
}

/// An array in a file, with a right checksum: it is refused, or it comes back when it is written and read again.
fn array_file(bytes: &[u8]) {
    let mut file = b"pmawk array v1\nA".to_vec();
    file.extend_from_slice(bytes);
    let sum = xxh3_64(&file);
    file.extend_from_slice(&sum.to_le_bytes());
    let (first, second) = (scratch("first"), scratch("second"));
    std::fs::write(&first, file).expect("a scratch file");
    let program = r#"@load "rwarray"
        function same(a, b,   k) {
            if (length(a) != length(b)) return 0
            for (k in a) {
                if (!(k in b) || typeof(a[k]) != typeof(b[k])) return 0
                if (isarray(a[k])) { if (!same(a[k], b[k])) return 0 }
                else if (a[k] "" != b[k] "") return 0
            }
            return 1
        }
        BEGIN {
            if (!reada(ARGV[1], a)) exit
            if (!writea(ARGV[2], a)) print "BAD write"
            if (!reada(ARGV[2], b)) print "BAD read"
            if (!same(a, b)) print "BAD copy"
        }"#;
    let heap = Heap::volatile().expect("memory for a volatile heap");
    let (is_ok, printed) = run(program, heap, &[&first, &second], None);
    assert!(is_ok);
    assert!(printed.is_empty(), "{}", String::from_utf8_lossy(&printed));
}

/// The value of TZ: any, and moments in it there and back.
fn zone(bytes: &[u8]) {
    let Some((moment, tz)) = bytes.split_first_chunk::<8>() else {
        return;
    };
    // A path would be read, whatever it is.
    if tz.contains(&b'/') {
        return;
    }
    let zone = Zone::from_tz(Some(tz), Some(Path::new("/nonexistent")));
    let any = i64::from_le_bytes(*moment);
    for moment in [any, any >> 16, any >> 28, any >> 33] {
        let Some(civil) = zone.local(moment) else {
            continue;
        };
        assert!(civil.offset.abs() < 200 * 3600, "{civil:?}");
        let back = zone.moment(&civil);
        assert_eq!(back, Some(moment), "{civil:?}");
        let mut out = Vec::new();
        strftime(
            b"%c %z %Z %s %G-%V-%u %U %W",
            &civil,
            &zone,
            &Dates::default(),
            &mut out,
        );
        assert!(!out.is_empty());
    }
    zone.mktime(tz, false);
}

/// A format of `strftime`, without widths that ask for much, and of `strptime`.
fn time_format(bytes: &[u8]) {
    let Some((moment, format)) = bytes.split_first_chunk::<8>() else {
        return;
    };
    let zone = Zone::from_tz(Some(b"CET-1CEST,M3.5.0,M10.5.0/3"), None);
    let any = f64::from_bits(u64::from_le_bytes(*moment));
    // Names of more bytes than letters, eras, digits of its own.
    let name = ["C", "ja_JP.UTF-8", "fa_IR.UTF-8", "de_DE.ISO-8859-1"][usize::from(moment[0]) % 4];
    let dates = Dates::of_locale(name);
    let whole = timestamp_from(any).unwrap_or(i64::from_le_bytes(*moment) >> 8);
    let civil = utc(whole).or_else(|| zone.local(whole >> 24));
    let is_wide = format
        .windows(4)
        .any(|digits| digits.iter().all(u8::is_ascii_digit));
    if let (Some(civil), false) = (civil, is_wide) {
        let mut out = Vec::new();
        strftime(format, &civil, &zone, &dates, &mut out);
        assert!(out.len() <= 1100 * format.len().max(1), "{}", out.len());
        strptime(&out, format, &zone, &dates);
    }
    strptime(b"2026-11-20 12:34:56 Fri Nov +0100", format, &zone, &dates);
    strptime(
        format,
        b"%Y-%m-%d %H:%M:%S %a %b %z %p %j %U %s %y %C %e %n%t%%",
        &zone,
        &dates,
    );
}

fuzz_target!(|data: &[u8]| {
    let Some((which, bytes)) = data.split_first() else {
        return;
    };
    match which % 6 {
        0 => catalogue(bytes),
        1 => plural_rule(bytes),
        2 => position(bytes),
        3 => array_file(bytes),
        4 => zone(bytes),
        _ => time_format(bytes),
    }
});
