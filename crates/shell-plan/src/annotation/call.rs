//! What one call of a command means.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use super::options::{Found, Kind, Parts};
use super::query;
use super::{Annotation, Folder, Operand, Stdin, Use};

/// A file that a call names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct File {
    /// Which word of the call, 0 being the command's name.
    pub word: usize,
    /// Where in the word its name begins, in bytes: behind `--output=`, for instance.
    pub from: usize,
    /// And where it ends, which is the word's end but in a query.
    pub to: usize,
    /// What is done with it.
    pub kind: Kind,
}

impl File {
    /// The name, in the call's words.
    pub fn name<'w>(&self, words: &'w [Vec<u8>]) -> &'w [u8] {
        &words[self.word][self.from..self.to]
    }
}

/// What a call means.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call<'a> {
    /// The use that fits; where commands inside it have their part in that, what comes of both.
    pub of: Cow<'a, Use>,
    /// Files it names, in the order of the words; `-` for standard input is none.
    pub files: Vec<File>,
    /// Programs and files with programs, in order.
    pub programs: Vec<File>,
    /// Words that are operands.
    pub operands: Vec<usize>,
    /// Names of the options that are there, as the annotation has them.
    pub options: Vec<&'a str>,
    /// Arguments of options that name no file: the option's name as the annotation has it, which word, and where in it the
    /// argument begins.
    pub texts: Vec<(&'a str, usize, usize)>,
    /// Commands inside this one, of which nothing is said here: [`crate::nest`] puts them together.
    pub inner: Vec<Inner>,
    /// The word that names the command this is about: behind those that only run it.
    pub at: usize,
    /// Commands that it runs on files which it does not name, by the words that name them.
    pub runs: Vec<usize>,
    /// Which files those are.
    pub given: Given,
    /// Those may be folders, and what is in them is read.
    pub goes_below: bool,
    /// Words that are variables of the environment of a command inside, with their values.
    pub variables: Vec<usize>,
    /// Names of variables that it is not to have: which word, and where in it the name begins.
    pub no_variables: Vec<(usize, usize)>,
    /// Whether it reads standard input.
    pub stdin: bool,
    /// Whether it reads the folder it is started in.
    pub reads_folder: bool,
}

/// A command inside a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inner {
    /// Its words.
    pub words: Range<usize>,
    /// `{}` among them stands for files.
    pub stands: bool,
    /// For as many as there is room for.
    pub many: bool,
}

/// Files that a call does not name, and that commands inside it are given.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Given {
    /// None.
    #[default]
    Nothing,
    /// Those that it finds in the trees that it names.
    Found,
    /// Those that standard input names: words, with blanks between them.
    Words,
    /// The same, each with a zero byte behind it.
    Zeros,
}

/// Why a call has no meaning here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Misfit {
    /// The words could not be taken apart.
    Words(String),
    /// No use fits.
    Uses,
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Words(why) => f.write_str(why),
            Self::Uses => f.write_str("no use of the annotation fits"),
        }
    }
}

impl Annotation {
    /// What a call means. `words` begin with the command's name. `strict`: POSIXLY_CORRECT is in its environment.
    ///
    /// # Errors
    /// Why it cannot be told.
    pub fn call(&self, words: &[Vec<u8>], strict: bool) -> Result<Call<'_>, Misfit> {
        let arguments = words.get(1..).unwrap_or_default();
        let stops = |of: &Use| of.operands.iter().any(|o| o.kind == Kind::Command);
        let mut why = Misfit::Uses;
        for of in &self.uses {
            let options = of.options.as_ref().unwrap_or(&self.options);
            match options.split(arguments, strict, stops(of)) {
                Err(words) => why = Misfit::Words(words),
                Ok(parts) => {
                    if let Some(call) = fit(of, &parts, arguments) {
                        return Ok(call);
                    }
                }
            }
        }
        Err(why)
    }
}

/// The call as this use, if it fits. Words are counted from the first argument here, and from the name in what comes back.
fn fit<'a>(of: &'a Use, parts: &Parts<'a>, arguments: &[Vec<u8>]) -> Option<Call<'a>> {
    let names: Vec<&str> = parts
        .options
        .iter()
        .map(|o| o.row.names[0].as_str())
        .collect();
    let has = |list: &[String]| list.iter().any(|name| names.contains(&name.as_str()));
    if (!of.with.is_empty() && !has(&of.with)) || has(&of.without) {
        return None;
    }
    let mut operands = parts.operands.as_slice();
    if !of.first.is_empty() {
        let (&first, others) = operands.split_first()?;
        if !of
            .first
            .iter()
            .any(|word| word.as_bytes() == arguments[first])
        {
            return None;
        }
        operands = others;
    }
    let mut call = Call {
        of: Cow::Borrowed(of),
        files: Vec::new(),
        programs: Vec::new(),
        operands: operands.iter().map(|at| at + 1).collect(),
        options: names.clone(),
        texts: Vec::new(),
        inner: Vec::new(),
        at: 0,
        runs: Vec::new(),
        given: Given::Nothing,
        goes_below: false,
        variables: Vec::new(),
        no_variables: Vec::new(),
        stdin: of.stdin == Stdin::Always,
        reads_folder: of.folder == Folder::Reads,
    };
    let mut inputs = 0;
    for Found { row, argument, end } in &parts.options {
        if let (Some(kind), Some((word, from))) = (row.takes, *argument) {
            if let Some(end) = *end {
                let many = arguments[end] == b"+";
                call.inner.push(Inner {
                    words: word + 1..end + 1,
                    stands: true,
                    many,
                });
                continue;
            }
            if arguments[word][from..] == *b"\n" {
                // What a line is, is another question then: `cut -d` with a newline counts lines as fields.
                return None;
            }
            match kind {
                Kind::Query => return None,
                Kind::Text => call.texts.push((row.names[0].as_str(), word + 1, from)),
                Kind::Count if !is_count(&arguments[word][from..]) => return None,
                Kind::NoVariable => call.no_variables.push((word + 1, from)),
                _ => {}
            }
            // Inputs that options name are not those for which standard input stands in.
            add(&mut call, kind, word, from, arguments, &mut 0);
        }
    }
    let mut expected: Vec<&Operand> = of.operands.iter().filter(|o| !has(&o.unless)).collect();
    // Variables are known by what they look like, and end where one does not.
    if expected.first().is_some_and(|o| o.kind == Kind::Variable) {
        expected.remove(0);
        let variables = operands.iter();
        let variables = variables.take_while(|&&word| arguments[word].contains(&b'='));
        let variables: Vec<usize> = variables.copied().collect();
        if variables.iter().any(|&word| arguments[word][0] == b'=') {
            return None;
        }
        operands = &operands[variables.len()..];
        call.variables = variables.into_iter().map(|word| word + 1).collect();
    }
    let kinds = assign(&expected, operands.len())?;
    for (&word, kind) in operands.iter().zip(kinds) {
        if kind == Kind::Command {
            if arguments[word].contains(&b'=') {
                // To some that is a variable, and the command comes later.
                return None;
            }
            call.inner.push(Inner {
                words: word + 1..arguments.len() + 1,
                stands: false,
                many: false,
            });
            break;
        }
        if is_no_name(kind, &arguments[word]) || kind == Kind::Count && !is_count(&arguments[word])
        {
            return None;
        }
        if kind == Kind::Query {
            for name in query::tables(&arguments[word])? {
                inputs += 1;
                if arguments[word][name.clone()] == *b"-" {
                    call.stdin = true;
                } else {
                    call.files.push(File {
                        word: word + 1,
                        from: name.start,
                        to: name.end,
                        kind: Kind::Input,
                    });
                }
            }
            continue;
        }
        add(&mut call, kind, word, 0, arguments, &mut inputs);
    }
    call.files.sort_by_key(|file| (file.word, file.from));
    let named_stdin = call.stdin && of.stdin != Stdin::Always;
    if inputs == 0 {
        call.stdin |= of.stdin == Stdin::WithoutInputs;
        call.reads_folder |= of.folder == Folder::ReadsWithoutInputs;
    }
    if of.stdin == Stdin::Never {
        // Then it is not known what it makes of `-`.
        if named_stdin {
            return None;
        }
        call.stdin = false;
    }
    Some(call)
}

/// Whether an operand that should be a file may be something else: old forms of `sort`, `tail`, `uniq`, `od` and `pr` begin with `+`,
/// and `@` stands for a file with more arguments. `-` for an output is a file of that name to one command, and standard output
/// to another.
fn is_no_name(kind: Kind, word: &[u8]) -> bool {
    let written = matches!(kind, Kind::Output | Kind::Update);
    let named = written || matches!(kind, Kind::Input | Kind::Tree | Kind::Assignment);
    (named && matches!(word.first(), None | Some(b'+' | b'@'))) || (written && word == b"-")
}

fn is_count(word: &[u8]) -> bool {
    !word.is_empty() && word.iter().all(u8::is_ascii_digit)
}

fn add(
    call: &mut Call<'_>,
    kind: Kind,
    word: usize,
    from: usize,
    arguments: &[Vec<u8>],
    inputs: &mut usize,
) {
    let text = &arguments[word][from..];
    let file = File {
        word: word + 1,
        from,
        to: arguments[word].len(),
        kind,
    };
    match kind {
        Kind::Text
        | Kind::Count
        | Kind::Command
        | Kind::Variable
        | Kind::NoVariable
        | Kind::Query => {}
        Kind::Program | Kind::ProgramFile => {
            call.stdin |= kind == Kind::ProgramFile && text == b"-";
            call.programs.push(file);
        }
        Kind::Assignment if is_assignment(text) => {}
        Kind::Input | Kind::Tree | Kind::Assignment => {
            *inputs += 1;
            if text == b"-" {
                call.stdin = true;
            } else {
                call.files.push(File {
                    kind: if kind == Kind::Tree {
                        kind
                    } else {
                        Kind::Input
                    },
                    ..file
                });
            }
        }
        Kind::Output | Kind::Update | Kind::Scratch => {
            if kind == Kind::Update {
                *inputs += 1;
            }
            // By convention standard output.
            if text != b"-" {
                call.files.push(file);
            }
        }
    }
}

/// `name=value`, as awk takes it (POSIX awk, OPERANDS).
fn is_assignment(word: &[u8]) -> bool {
    let Some(equals) = word.iter().position(|&byte| byte == b'=') else {
        return false;
    };
    let name = &word[..equals];
    let letter = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    !name.is_empty() && name.iter().all(letter) && !name[0].is_ascii_digit()
}

/// What each of `count` operands is: those before a repeated one from the left, those behind it from the right.
fn assign(expected: &[&Operand], count: usize) -> Option<Vec<Kind>> {
    let needed = expected.iter().filter(|o| !o.optional).count();
    let mut spare = count.checked_sub(needed)?;
    let mut kinds = Vec::with_capacity(count);
    for operand in expected {
        let mut times = usize::from(!operand.optional);
        if operand.repeated {
            times += spare;
            spare = 0;
        } else if operand.optional && spare > 0 {
            times = 1;
            spare -= 1;
        }
        kinds.extend(std::iter::repeat_n(operand.kind, times));
        if operand.kind == Kind::Command && times > 0 {
            return Some(kinds);
        }
    }
    (spare == 0).then_some(kinds)
}
