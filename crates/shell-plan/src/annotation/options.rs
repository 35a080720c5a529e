//! How arguments of a command are written, and a call taken apart by that.
//!
//! The rules are those of POSIX's utility syntax guidelines (Base Definitions 12.2) and of GNU's additions to them: long
//! options, which may be cut short, options after operands, and optional arguments.

/// What an argument is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Neither file nor program.
    Text,
    /// A number without a sign.
    Count,
    /// A file that is read.
    Input,
    /// A folder that is read with all that is beneath it, or a file.
    Tree,
    /// A file that is written.
    Output,
    /// A file that is read and written.
    Update,
    /// A folder for files that nobody keeps.
    Scratch,
    /// A program in the language of the use, as text.
    Program,
    /// A file with such a program.
    ProgramFile,
    /// An SQL query with names of files where tables are named; they are read.
    Query,
    /// An operand as awk has it: `name=value`, or a file that is read.
    Assignment,
    /// The first word of another command, whose words are all that follow; of an option in an expression, those up to `;` or `{} +`.
    Command,
    /// `NAME=VALUE`, for the environment of a command that follows.
    Variable,
    /// The name of a variable that such a command is not to have.
    NoVariable,
}

/// One option.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// What it is written as, with its dashes; the first one is its name in an annotation. `-NUM` stands for `-` and digits.
    pub names: Vec<String>,
    /// What its argument is, if it takes one.
    pub takes: Option<Kind>,
    /// Whether the argument can be left out; then it is never a word of its own.
    pub optional: bool,
}

/// How options and operands are mixed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Syntax {
    /// Options stand anywhere, and long ones may be cut short, unless `POSIXLY_CORRECT` is set.
    #[default]
    Gnu,
    /// Options stand before operands.
    Posix,
    /// An expression follows the operands, as in `find`: its words begin with one dash, are not bundled, and may be grouped
    /// with `(`, `)`, `!` and `,`.
    Words,
}

/// All options of a command.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// How they are written.
    pub syntax: Syntax,
    /// They.
    pub rows: Vec<Row>,
}

/// An option of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Found<'a> {
    pub row: &'a Row,
    /// Its argument: which word, and where in it it begins.
    pub argument: Option<(usize, usize)>,
    /// Behind the last word of its argument, if that is a command.
    pub end: Option<usize>,
}

/// A call, taken apart.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Parts<'a> {
    pub options: Vec<Found<'a>>,
    /// Which words are operands.
    pub operands: Vec<usize>,
}

impl Options {
    /// Takes the words behind a command's name apart. `strict`: POSIXLY_CORRECT is set. `stops`: what follows the first
    /// operand is another command's.
    pub(super) fn split(
        &self,
        words: &[Vec<u8>],
        strict: bool,
        stops: bool,
    ) -> Result<Parts<'_>, String> {
        let mut parts = Parts::default();
        let mut rest = 0..words.len();
        let mut in_expression = false;
        while let Some(at) = rest.next() {
            let word = words[at].as_slice();
            if word == b"--" && self.syntax != Syntax::Words {
                parts.operands.extend(rest);
                break;
            }
            let is_option = word.len() > 1 && word[0] == b'-';
            if self.syntax == Syntax::Words && matches!(word, b"(" | b")" | b"!" | b",") {
                in_expression = true;
            } else if !is_option {
                if in_expression {
                    return Err(format!("{} is no part of an expression", text(word)));
                }
                parts.operands.push(at);
                if stops || self.syntax == Syntax::Posix || (self.syntax == Syntax::Gnu && strict) {
                    parts.operands.extend(rest);
                    break;
                }
            } else if self.syntax == Syntax::Words {
                let row = self.exact(word).ok_or_else(|| unknown(word))?;
                let argument = match row.takes {
                    Some(_) => Some((rest.next().ok_or_else(|| lacks(word))?, 0)),
                    None => None,
                };
                let mut end = None;
                if let (Some(Kind::Command), Some((first, _))) = (row.takes, argument) {
                    let last = command_end(words, first).ok_or_else(|| lacks(word))?;
                    end = Some(last);
                    rest = last + 1..words.len();
                }
                parts.options.push(Found { row, argument, end });
                in_expression = !parts.operands.is_empty() || row.names[0].len() > 2;
            } else if word.starts_with(b"--") {
                parts.options.push(self.long(words, at, &mut rest)?);
            } else if let Some(found) = self.whole(words, at, &mut rest)? {
                parts.options.push(found);
            } else {
                self.cluster(words, at, &mut rest, &mut parts)?;
            }
        }
        Ok(parts)
    }

    fn exact(&self, word: &[u8]) -> Option<&Row> {
        self.rows
            .iter()
            .find(|row| row.names.iter().any(|name| name.as_bytes() == word))
    }

    fn long(
        &self,
        words: &[Vec<u8>],
        at: usize,
        rest: &mut std::ops::Range<usize>,
    ) -> Result<Found<'_>, String> {
        let word = words[at].as_slice();
        let equals = word.iter().position(|&byte| byte == b'=');
        let name = &word[..equals.unwrap_or(word.len())];
        let row = match self.exact(name) {
            Some(row) => row,
            None => {
                let mut fitting = self.rows.iter().filter(|row| {
                    let begins = |known: &String| known.as_bytes().starts_with(name);
                    row.names.iter().any(begins)
                });
                match (fitting.next(), fitting.next()) {
                    (Some(row), None) => row,
                    _ => return Err(unknown(name)),
                }
            }
        };
        let argument = match (row.takes, equals) {
            (None, Some(_)) => return Err(format!("{} takes no argument", text(name))),
            (None, None) => None,
            (Some(_), Some(equals)) => Some((at, equals + 1)),
            (Some(_), None) if row.optional => None,
            (Some(_), None) => Some((rest.next().ok_or_else(|| lacks(name))?, 0)),
        };
        Ok(Found {
            row,
            argument,
            end: None,
        })
    }

    /// A word with one dash that is an option as a whole, with or without `=` and its argument: `-resize 50%`.
    fn whole(
        &self,
        words: &[Vec<u8>],
        at: usize,
        rest: &mut std::ops::Range<usize>,
    ) -> Result<Option<Found<'_>>, String> {
        let word = words[at].as_slice();
        let equals = word.iter().position(|&byte| byte == b'=');
        let name = &word[..equals.unwrap_or(word.len())];
        let is_whole = name.len() > 2 && name != b"-NUM" && self.exact(name).is_some();
        if is_whole {
            self.long(words, at, rest).map(Some)
        } else {
            Ok(None)
        }
    }

    fn cluster<'a>(
        &'a self,
        words: &[Vec<u8>],
        at: usize,
        rest: &mut std::ops::Range<usize>,
        parts: &mut Parts<'a>,
    ) -> Result<(), String> {
        let word = words[at].as_slice();
        let mut letter = 1;
        while letter < word.len() {
            if word[letter].is_ascii_digit()
                && let Some(row) = self.exact(b"-NUM")
            {
                let digits = word[letter..].iter().take_while(|b| b.is_ascii_digit());
                letter += digits.count();
                parts.options.push(Found {
                    row,
                    argument: None,
                    end: None,
                });
                continue;
            }
            let name = [b'-', word[letter]];
            let row = self.exact(&name).ok_or_else(|| unknown(&name))?;
            letter += 1;
            let argument = match row.takes {
                None => None,
                Some(_) if letter < word.len() => Some((at, letter)),
                Some(_) if row.optional => None,
                Some(_) => Some((rest.next().ok_or_else(|| lacks(&name))?, 0)),
            };
            let is_last = argument.is_some();
            parts.options.push(Found {
                row,
                argument,
                end: None,
            });
            if is_last {
                break;
            }
        }
        Ok(())
    }
}

/// Which word ends a command inside an expression: `;`, or `+` behind `{}` (POSIX, find).
fn command_end(words: &[Vec<u8>], first: usize) -> Option<usize> {
    (first + 1..words.len()).find(|&at| match words[at].as_slice() {
        b";" => true,
        b"+" => words[at - 1] == b"{}",
        _ => false,
    })
}

fn unknown(name: &[u8]) -> String {
    format!("unknown option {}", text(name))
}

fn lacks(name: &[u8]) -> String {
    format!("option {} lacks its argument", text(name))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
