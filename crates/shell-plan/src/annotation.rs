//! What is known of a command: which words of a call are files, what becomes of its input, what it leaves behind.
//!
//! An annotation is one readable file (`annotations/README.md` describes it); [`Annotation::read`] makes this of its text,
//! and [`Annotation::call`] says what one call of the command means. The invariant: a call that an annotation does not
//! describe, with an option it does not know or a number of operands that fits no use, has no meaning here, and runs as if
//! there were no annotation.

mod call;
mod options;
mod query;
mod read;

pub use call::{Call, File, Given, Inner, Misfit};
pub use options::{Kind, Options, Row, Syntax};
pub use read::Mistake;

/// One command, or several that are called alike.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Annotation {
    /// What it is called by.
    pub names: Vec<String>,
    /// Arguments that make it print its version; two hosts have the same command if that output is the same. None: if the
    /// files are.
    pub version: Option<Vec<String>>,
    /// The categories of the locale that change what it does, such as `LC_COLLATE`.
    pub locale: Vec<String>,
    /// Files of the user's home folder, by their names from there, that change what it does.
    pub settings: Vec<String>,
    /// How its arguments are written.
    pub options: Options,
    /// What it is used for; the first that fits a call counts.
    pub uses: Vec<Use>,
    /// Calls and what they must be found to mean.
    pub examples: Vec<Example>,
}

/// One way to use a command.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Use {
    /// For people.
    pub name: String,
    /// It is this use only if one of these options is there, unless the list is empty. Canonical names.
    pub with: Vec<String>,
    /// And none of these.
    pub without: Vec<String>,
    /// It is this use only if the first operand is one of these words, unless the list is empty: `git status`. Such an operand
    /// is not among `operands`.
    pub first: Vec<String>,
    /// How its arguments are written, where that is different from other uses.
    pub options: Option<Options>,
    /// What its operands are, in order.
    pub operands: Vec<Operand>,
    /// When it reads standard input.
    pub stdin: Stdin,
    /// Whether it looks at the folder that it is started in, or changes what is there, besides the files it names.
    pub folder: Folder,
    /// What running it twice, or half, would mean.
    pub effect: Effect,
    /// How much comes out of how much goes in.
    pub volume: Volume,
    /// How what parts of the input give is put together, if the input may be cut at line ends.
    pub lines: Option<Combine>,
    /// The same for operands, each of which may be given to a process of its own.
    pub apart: Option<Combine>,
    /// What a part of the operands must be called with besides, so that it prints names as the whole does.
    pub apart_with: Vec<String>,
    /// Whether it may end before it has read its input, as `head` does.
    pub early: bool,
    /// Whether it may know what it is asked without reading a file that is its standard input, and where it leaves off there is its own affair.
    pub seeks: bool,
    /// How exit statuses of parts are put together.
    pub status: Status,
    /// When it prints the names of its files.
    pub names: Names,
    /// What it tells about files besides their bytes; a mount may show it differently from the host behind it.
    pub shows: Vec<Shown>,
    /// A text among its arguments that is a program, to be read for what it does.
    pub program: Option<Language>,
    /// What the environment of a command inside it begins with.
    pub environment: Surroundings,
    /// What it puts behind the words of a command inside it.
    pub appends: Option<Appended>,
}

/// What the environment of a command inside another one begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Surroundings {
    /// That of the one in front.
    #[default]
    Same,
    /// Nothing.
    Empty,
}

/// What of standard input is put behind the words of a command: names of files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Appended {
    /// Words, with blanks and line ends between them, and quotes.
    Words,
    /// All that ends with a zero byte.
    Zeros,
}

/// One operand, or several.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Operand {
    /// What it is.
    pub kind: Kind,
    /// Whether it may be left out.
    pub optional: bool,
    /// Whether it may be repeated.
    pub repeated: bool,
    /// Options with which it is not there.
    pub unless: Vec<String>,
}

/// When a command reads standard input.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Stdin {
    /// When no file is named, and for each file named `-`.
    #[default]
    WithoutInputs,
    /// In any case.
    Always,
    /// Only for a file named `-`.
    Dash,
    /// Never.
    Never,
}

/// What a command has to do with the folder it is started in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Folder {
    /// Nothing.
    #[default]
    None,
    /// It reads it, as `ls` does.
    Reads,
    /// It reads it unless it is told what to read, as `find` or `grep -r`.
    ReadsWithoutInputs,
    /// It changes what is in it.
    Writes,
}

/// What running a command twice, or half, would mean.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Effect {
    /// Nothing: what it prints depends on its input, and it leaves nothing behind.
    Pure,
    /// It leaves files behind, and the same ones when it runs again.
    Idempotent,
    /// It must run once.
    #[default]
    Once,
}

/// How much comes out of how much goes in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Volume {
    /// About as much.
    #[default]
    Same,
    /// A part of it: lines that match, for instance.
    Less,
    /// Some lines, whatever goes in: sums, first lines, a status.
    Few,
    /// More: decompression.
    More,
}

/// How outputs of parts, in their order, become the output of the whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Combine {
    /// One after the other.
    Concat,
    /// The same, if the input has no zero byte, and no part ends with a message that it is binary.
    Text,
    /// Numbers are added, column by column.
    Sum,
    /// Merged by the same command with `-m`.
    Merge,
    /// Equal lines at the seam are one.
    Uniq,
    /// The same, with counts before them that are added.
    UniqCount,
    /// The command itself, run over the outputs: first lines of first lines, for instance.
    Again,
    /// The first output that is not empty.
    First,
}

/// How exit statuses of parts become one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Status {
    /// The highest.
    #[default]
    Highest,
    /// As grep's: 2 if one failed, 0 if one found something, else 1.
    Found,
    /// 0 if all are, and otherwise not to be told from them.
    Well,
}

/// When a command prints the names of its files.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Names {
    /// In messages only.
    #[default]
    Never,
    /// When there are several.
    Several,
    /// Always.
    Always,
}

/// What a command tells about files besides their bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shown {
    /// Numbers of inodes and devices.
    Inodes,
    /// Counts of hard links.
    Links,
    /// Space that files take on the medium.
    Blocks,
    /// Who owns them.
    Owners,
    /// Permissions.
    Modes,
    /// Times.
    Times,
    /// The order in which a folder lists its names.
    Order,
}

/// Languages of programs that are given as arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Language {
    /// AWK.
    Awk,
    /// sed's.
    Sed,
    /// jq's.
    Jq,
}

/// A call, and what it must be found to mean: the tests of an annotation.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Example {
    /// The words of the call; single quotes keep blanks together.
    pub call: String,
    /// The name of the use that fits; none: no use may.
    pub fits: Option<String>,
    /// Files and trees that are read, in order.
    pub reads: Vec<String>,
    /// Files that are written.
    pub writes: Vec<String>,
    /// Whether standard input is read.
    pub stdin: bool,
}

impl Annotation {
    /// Whether the command goes by this name.
    pub fn is(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name)
    }
}

impl Example {
    /// The words of the call: blanks part them, but not between single quotes.
    pub fn words(&self) -> Vec<Vec<u8>> {
        let mut words = Vec::new();
        let mut word: Option<Vec<u8>> = None;
        let mut quoted = false;
        for byte in self.call.bytes() {
            match byte {
                b'\'' => {
                    quoted = !quoted;
                    word.get_or_insert_default();
                }
                b' ' if !quoted => words.extend(word.take()),
                _ => word.get_or_insert_default().push(byte),
            }
        }
        words.extend(word);
        words
    }
}
