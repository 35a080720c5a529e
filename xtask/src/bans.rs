//! Words that certain parts of the house never use.
//!
//! A ban names words, where they are looked for and where they are allowed, and why. The invariant: comments, texts and test
//! modules are never looked at, so a ban can be written about.

use crate::source::{Source, lines_with};
use crate::tree::Tree;
use crate::{Guard, Violation};

/// Words with a scope.
struct Ban {
    claim: &'static str,
    words: &'static [&'static str],
    /// Crate folders in which it holds; a folder with a trailing `/` stands for all crates in it; empty: everywhere.
    scope: &'static [&'static str],
    /// Crate folders or files in which it does not hold.
    except: &'static [&'static str],
    /// Whether tests, benchmarks and examples are looked at too.
    in_tests: bool,
}

/// For tests only, and a stand-in for a disk: it implements what only `region` may call.
const TESTKIT: &str = "crates/testkit";

const BANS: &[Ban] = &[
    Ban {
        claim: "unsafe only in region, heap and capi, and where a decision says so",
        words: &["unsafe"],
        scope: &[],
        except: &[
            "crates/region",
            "crates/heap",
            "crates/capi",
            // docs/decisions/005-native-code.md
            "crates/awk/src/vm/native/memory.rs",
            // docs/decisions/008-bytes-at-once.md
            "crates/awk/src/scan.rs",
            // docs/decisions/015-before-main.md
            "bin/nearsh/src/entry.rs",
        ],
        in_tests: true,
    },
    Ban {
        claim: "only region maps, syncs or writes a heap file",
        words: &[
            "mmap",
            "mmap64",
            "mremap",
            "munmap",
            "msync",
            "fsync",
            "fdatasync",
            "sync_file_range",
            "syncfs",
            "sync_data",
            "sync_all",
            "pwrite",
            "pwritev",
            "write_at",
            "write_all_at",
            "fallocate",
            "posix_fallocate",
            "ftruncate",
        ],
        scope: &[],
        // What other machines serve has no heap in it that this machine has open.
        except: &["crates/region", TESTKIT, "crates/shell-exec/src/mounts.rs"],
        in_tests: false,
    },
    Ban {
        claim: "nobody but capi asks where a heap lies in memory",
        words: &[".address()", "mark_address", "by_address"],
        scope: &[],
        except: &["crates/region", "crates/heap", "crates/capi"],
        in_tests: false,
    },
    Ban {
        claim: "no library prints",
        words: &["print!", "println!", "eprint!", "eprintln!", "dbg!"],
        scope: &["crates/"],
        except: &[
            // An interface that is not ours asks for it, by a verbosity.
            "crates/capi/src/pma.rs",
            // How cargo is told.
            "crates/shell-exec/build.rs",
        ],
        in_tests: false,
    },
    Ban {
        claim: "no library exits, aborts or installs a hook or signal handler",
        words: &[
            "process::exit",
            "process::abort",
            "libc::exit",
            "libc::_exit",
            "libc::abort",
            "libc::signal",
            "sigaction",
            "signal_hook",
            "set_hook",
            "set_logger",
            "set_global_default",
        ],
        scope: &["crates/"],
        // Before anything of a program runs that cannot run here (docs/decisions/011), as the loader does.
        except: &["crates/capi/src/marks.rs"],
        in_tests: false,
    },
    Ban {
        claim: "awk-syntax and shell-plan are pure: text and facts in, trees and plans out",
        words: &[
            "std::fs",
            "std::io",
            "std::net",
            "std::process",
            "std::env",
            "std::time",
            "std::thread",
            "std::os",
            "env!",
            "option_env!",
            "include_str!",
            "include_bytes!",
            "libc",
        ],
        scope: &["crates/awk-syntax", "crates/shell-plan"],
        except: &[],
        in_tests: false,
    },
    Ban {
        claim: "nothing is left to be done",
        words: &["todo!", "unimplemented!"],
        scope: &[],
        except: &[],
        in_tests: true,
    },
];

/// Literals of the file formats: spelled in the two layout files and nowhere else.
const LAYOUTS: [&str; 2] = ["crates/region/src/layout.rs", "crates/heap/src/layout.rs"];
const MAGICS: [&str; 6] = [
    "\"Perdure\\n\"",
    "\"PerdureJ\"",
    "\"PerdureS\"",
    "\"Frm1\"",
    "\"PdHeap1\\n\"",
    "\"Tabl\"",
];
/// Page size, start of data and of frames. Other numbers of the format (64, 512) mean too much else.
const POSITIONS: [u64; 2] = [4096, 8192];
/// All of them, applied.
pub fn guards(tree: &Tree) -> Vec<Guard> {
    let mut guards: Vec<Guard> = BANS
        .iter()
        .map(|ban| Guard {
            claim: ban.claim.into(),
            violations: apply(ban, tree),
        })
        .collect();
    guards.push(Guard {
        claim: "offsets and magics of the formats only in the two layout.rs".into(),
        violations: layouts(tree),
    });
    guards
}

fn is_in(source: &Source, places: &[&str]) -> bool {
    places.iter().any(|place| match place.strip_suffix('/') {
        Some(_) => source.path.starts_with(place),
        None => source.home() == *place || source.path == *place,
    })
}

fn apply(ban: &Ban, tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for source in &tree.sources {
        let in_scope = ban.scope.is_empty() || is_in(source, ban.scope);
        if !in_scope || is_in(source, ban.except) || (source.is_test() && !ban.in_tests) {
            continue;
        }
        let code = spelled_out(&source.code);
        for word in ban.words {
            for line in lines_with(&code, word) {
                violations.push(Violation {
                    file: source.path.clone(),
                    line,
                    what: format!("{word}: {}", ban.claim),
                });
            }
        }
    }
    violations.sort();
    violations
}

/// `use std::{fs, io::Read};` with its paths written out at the same lines, behind the code: a group must not hide what a
/// path would show.
fn spelled_out(code: &str) -> String {
    let mut lines: Vec<String> = code.lines().map(str::to_owned).collect();
    for (start, _) in code.match_indices("::{") {
        let prefix_start = code[..start]
            .rfind(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'))
            .map_or(0, |at| at + 1);
        let prefix = &code[prefix_start..start];
        let mut line = code[..start].matches('\n').count();
        let mut depth = 1;
        let mut name = String::new();
        for c in code[start + 3..].chars() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            if depth == 1 && (c.is_alphanumeric() || c == '_' || c == ':') {
                name.push(c);
            } else if !name.is_empty() {
                lines[line].push_str(&format!(" {prefix}::{name}"));
                name.clear();
            }
            if c == '\n' {
                line += 1;
            }
            if depth == 0 || c == ';' {
                break;
            }
        }
    }
    lines.join("\n")
}

fn layouts(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for source in &tree.sources {
        // This file has to name what it looks for.
        if source.is_test() || LAYOUTS.contains(&source.path.as_str()) || source.home() == "xtask" {
            continue;
        }
        for magic in MAGICS {
            let lines = source
                .literals
                .lines()
                .enumerate()
                .filter(|(_, line)| line.contains(magic));
            violations.extend(lines.map(|(index, _)| Violation {
                file: source.path.clone(),
                line: index + 1,
                what: format!("the magic {magic} belongs to layout.rs"),
            }));
        }
        if !matches!(source.home(), "crates/region" | "crates/heap") {
            continue;
        }
        for (index, line) in source.code.lines().enumerate() {
            violations.extend(
                numbers(line)
                    .filter(|n| POSITIONS.contains(n))
                    .map(|n| Violation {
                        file: source.path.clone(),
                        line: index + 1,
                        what: format!("{n} is a position of the format: name it in layout.rs"),
                    }),
            );
        }
    }
    violations
}

/// The integers spelled in a line, decimal or hexadecimal.
fn numbers(line: &str) -> impl Iterator<Item = u64> + '_ {
    line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .filter_map(|word| {
            let plain = word.replace('_', "");
            let (digits, radix) = plain
                .strip_prefix("0x")
                .map_or((plain.as_str(), 10), |hex| (hex, 16));
            let suffixes = ["u64", "usize", "u32", "u16", "i64", "i32"];
            let digits = suffixes
                .iter()
                .find_map(|suffix| digits.strip_suffix(suffix))
                .unwrap_or(digits);
            u64::from_str_radix(digits, radix).ok()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Claims of the guards that fail when `text` stands in `path`.
    fn fails(path: &str, text: &str) -> Vec<String> {
        let tree = Tree {
            sources: vec![Source::new(path.into(), text)],
            manifests: Vec::new(),
        };
        guards(&tree)
            .into_iter()
            .filter(|g| !g.violations.is_empty())
            .map(|g| g.claim)
            .collect()
    }

    #[test]
    fn asking_where_a_heap_lies_fails() {
        let text = "fn f(heap: &Heap) -> usize { heap.address() }";
        let claim = "nobody but capi asks where a heap lies in memory";
        assert_eq!(fails("crates/awk/src/vm.rs", text), [claim]);
        assert!(fails("crates/capi/src/handle.rs", text).is_empty());
    }

    #[test]
    fn unsafe_outside_region_and_heap_fails() {
        let text = "fn f() { unsafe { g() } }";
        assert_eq!(
            fails("crates/awk/src/vm.rs", text),
            ["unsafe only in region, heap and capi, and where a decision says so"]
        );
        assert_eq!(
            fails("bin/pmawk/tests/kill.rs", text),
            ["unsafe only in region, heap and capi, and where a decision says so"]
        );
        assert!(fails("crates/heap/src/lib.rs", text).is_empty());
    }

    #[test]
    fn files_of_heaps_touched_outside_region_fail() {
        let claim = ["only region maps, syncs or writes a heap file"];
        assert_eq!(
            fails("crates/heap/src/lib.rs", "fn f(x: File) { x.sync_data(); }"),
            claim
        );
        assert_eq!(
            fails(
                "bin/perdure/src/main.rs",
                "use std::os::unix::fs::FileExt; fn f() { x.write_all_at(b, 0) }"
            ),
            claim
        );
        assert_eq!(
            fails("crates/awk/src/vm.rs", "fn f() { libc::mmap(p) }"),
            claim
        );
        assert!(
            fails(
                "crates/region/src/map.rs",
                "fn f() { libc::mmap(p); x.sync_data(); }"
            )
            .is_empty()
        );
        assert!(fails("crates/heap/tests/a.rs", "fn f() { x.write_at(b, 0) }").is_empty());
    }

    #[test]
    fn libraries_that_print_or_exit_fail() {
        assert_eq!(
            fails("crates/awk/src/vm.rs", "fn f() { println!(\"x\") }"),
            ["no library prints"]
        );
        assert_eq!(
            fails("crates/testkit/src/rng.rs", "fn f() { eprint!(\"x\") }"),
            ["no library prints"]
        );
        assert_eq!(
            fails("crates/awk/src/vm.rs", "fn f() { std::process::exit(1) }").len(),
            1
        );
        assert_eq!(
            fails("crates/awk/src/vm.rs", "use std::{fs, process::exit};").len(),
            1
        );
        assert!(
            fails(
                "bin/pmawk/src/main.rs",
                "fn f() { println!(\"x\"); std::process::exit(1) }"
            )
            .is_empty()
        );
        assert!(
            fails(
                "crates/awk/src/vm.rs",
                "#[cfg(test)] mod tests { fn f() { println!() } }"
            )
            .is_empty()
        );
    }

    #[test]
    fn syntax_that_looks_around_fails() {
        let claim = ["awk-syntax and shell-plan are pure: text and facts in, trees and plans out"];
        for text in [
            "use std::fs;",
            "use std::{\n    fmt,\n    env,\n};",
            "use std::{collections::{HashMap, HashSet}, io::Read};",
            "fn f() { std::time::Instant::now(); }",
            "const T: &str = include_str!(\"table\");",
        ] {
            assert_eq!(fails("crates/awk-syntax/src/lex.rs", text), claim, "{text}");
            assert_eq!(
                fails("crates/shell-plan/src/script.rs", text),
                claim,
                "{text}"
            );
        }
        assert!(
            fails(
                "crates/awk-syntax/src/lex.rs",
                "use std::{fmt, collections::HashMap}; // not std::fs"
            )
            .is_empty()
        );
        assert!(fails("crates/awk/src/streams.rs", "use std::fs;").is_empty());
    }

    #[test]
    fn formats_spelled_outside_the_layouts_fail() {
        let claim = ["offsets and magics of the formats only in the two layout.rs"];
        assert_eq!(
            fails("crates/region/src/open.rs", "f.read_at(buffer, 4096)"),
            claim
        );
        assert_eq!(
            fails("crates/heap/src/alloc.rs", "let page = 0x1000_u64;"),
            claim
        );
        assert_eq!(
            fails("crates/heap/src/alloc.rs", "let start = 8_192usize;"),
            claim
        );
        assert_eq!(
            fails(
                "bin/perdure/src/main.rs",
                "if bytes.starts_with(b\"Perdure\\n\") {}"
            ),
            claim
        );
        assert!(
            fails(
                "crates/region/src/layout.rs",
                "pub const A: u64 = 4096; // b\"Frm1\""
            )
            .is_empty()
        );
        assert!(fails("crates/awk/src/streams.rs", "buffer.reserve(4096)").is_empty());
        assert!(
            fails(
                "crates/heap/src/alloc.rs",
                "// 4096\nlet x = 40960 + a4096;"
            )
            .is_empty()
        );
    }

    #[test]
    fn things_left_to_be_done_fail() {
        assert_eq!(
            fails("bin/pmawk/src/main.rs", "fn f() { todo!() }"),
            ["nothing is left to be done"]
        );
        assert_eq!(
            fails(
                "crates/heap/tests/a.rs",
                "fn f() { unimplemented!(\"later\") }"
            ),
            ["nothing is left to be done"]
        );
    }
}
