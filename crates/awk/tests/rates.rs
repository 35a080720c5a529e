//! Rates of the matcher, number conversion, printf and cutting of records, printed; run with `cargo test --release -p awk --test rates -- --ignored --nocapture`.

#![allow(
    clippy::print_stdout,
    reason = "a test says its seed and what it skipped"
)]

use std::hint::black_box;
use std::io::Read;
use std::time::Instant;

use awk::fields::Splitter;
use awk::format::{Arg, Format, number_to_text};
use awk::num::{looks_numeric, parse_prefix};
use awk::records::{RecordReader, Separator};
use awk::regex::Regex;
use awk::text::Charset;

/// Repeats a text up to a total length.
struct Endless {
    text: Vec<u8>,
    at: usize,
    left: usize,
}

impl Read for Endless {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let count = buf.len().min(self.text.len() - self.at).min(self.left);
        buf[..count].copy_from_slice(&self.text[self.at..self.at + count]);
        self.at = (self.at + count) % self.text.len();
        self.left -= count;
        Ok(count)
    }
}

fn line(i: usize) -> String {
    format!(
        "{i} the quick brown fox {}.{} jumps,over the-lazy dog {}\n",
        i * 7,
        i % 100,
        i % 13
    )
}

fn report(what: &str, units: usize, unit: &str, work: impl FnOnce()) {
    let start = Instant::now();
    work();
    let seconds = start.elapsed().as_secs_f64();
    println!("{what:40} {:8.1} ns/{unit}", seconds * 1e9 / units as f64);
}

#[test]
#[ignore = "a measurement"]
fn rates() {
    let text: String = (0..2000).map(line).collect();
    let lines: Vec<&[u8]> = text
        .as_bytes()
        .split(|b| *b == b'\n')
        .filter(|l| !l.is_empty())
        .collect();
    let total = 1 << 30;
    for rs in ["\n", "\n+", "", "o"] {
        let total = if rs == "\n" { total } else { total / 16 };
        let separator = Separator::from_rs(rs.as_bytes(), Charset::Utf8, false).unwrap();
        let mut reader = RecordReader::new(Box::new(Endless {
            text: text.clone().into_bytes(),
            at: 0,
            left: total,
        }));
        let (start, mut count) = (Instant::now(), 0usize);
        while reader.next(&separator).unwrap().is_some() {
            count += 1;
        }
        let seconds = start.elapsed().as_secs_f64();
        println!(
            "records RS={rs:?}: {:.2} GB/s, {:.1} ns/record",
            total as f64 / seconds / 1e9,
            seconds * 1e9 / count as f64
        );
    }
    let n = 500 * lines.len();
    for fs in [" ", ",", "\t", "[ ,]+", "the"] {
        let splitter = Splitter::from_fs(fs.as_bytes(), Charset::Utf8, false).unwrap();
        let mut out = Vec::new();
        report(&format!("split FS={fs:?}"), n, "line", || {
            for _ in 0..500 {
                for line in &lines {
                    out.clear();
                    splitter.split(Charset::Utf8, line, false, &mut out);
                    black_box(out.len());
                }
            }
        });
    }
    for pattern in [
        "fox",
        "^1",
        "fo+x",
        "(fox|wolf).*dog",
        "[0-9]+\\.[0-9]+",
        "zebra|yak",
        "dog 1[0-2]$",
        "q.*z",
    ] {
        let start = Instant::now();
        let regex = Regex::new(pattern.as_bytes(), Charset::Utf8, false).unwrap();
        println!(
            "compile /{pattern}/ {:.1} us",
            start.elapsed().as_secs_f64() * 1e6
        );
        report(&format!("is_match /{pattern}/"), n, "line", || {
            for _ in 0..500 {
                for line in &lines {
                    black_box(regex.is_match(line));
                }
            }
        });
        report(&format!("find_at /{pattern}/"), n, "line", || {
            for _ in 0..500 {
                for line in &lines {
                    black_box(regex.find_at(line, 0));
                }
            }
        });
    }
    for number in [
        "7",
        "12345",
        "3.14",
        "-0.001",
        "1e5",
        "123456789.123",
        "word",
    ] {
        report(
            &format!("looks_numeric {number:?}"),
            10_000_000,
            "call",
            || {
                for _ in 0..10_000_000 {
                    black_box(looks_numeric(black_box(number.as_bytes())));
                }
            },
        );
    }
    black_box(parse_prefix(b"1"));
    let convfmt = Format::parse(b"%.6g");
    let mut out = Vec::new();
    for value in [42.0, 3.14158, 123456.789, 1e-7 + 0.5] {
        report(
            &format!("number_to_text {value}"),
            5_000_000,
            "call",
            || {
                for _ in 0..5_000_000 {
                    out.clear();
                    number_to_text(black_box(value), &convfmt, &mut out);
                    black_box(out.len());
                }
            },
        );
    }
    for format in ["%d", "%.2f", "%-10s %5d\n", "%g"] {
        let parsed = Format::parse(format.as_bytes());
        report(&format!("printf {format:?}"), 5_000_000, "call", || {
            for _ in 0..5_000_000 {
                out.clear();
                let args = [Arg::Num(black_box(1234.5)), Arg::Num(7.0)];
                parsed
                    .write(Charset::Utf8, &convfmt, &args, &mut out)
                    .unwrap();
                black_box(out.len());
            }
        });
    }
}
