//! Names as small numbers, and the names that the language itself gives.
//!
//! Invariant: two `Symbol`s of one `Names` are equal exactly if their texts are.

use std::collections::HashMap;
use std::sync::Arc;

/// A name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Symbol(pub u32);

/// The table of names of a program.
#[derive(Clone, Debug, Default)]
pub struct Names {
    texts: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, Symbol>,
}

impl Names {
    /// The number of `text`, new or old.
    pub fn intern(&mut self, text: &str) -> Symbol {
        if let Some(&symbol) = self.numbers.get(text) {
            return symbol;
        }
        let text: Arc<str> = text.into();
        let symbol = Symbol(self.texts.len() as u32);
        self.texts.push(text.clone());
        self.numbers.insert(text, symbol);
        symbol
    }

    /// The number of `text` if it occurs.
    pub fn find(&self, text: &str) -> Option<Symbol> {
        self.numbers.get(text).copied()
    }

    /// The text of a name.
    pub fn text(&self, symbol: Symbol) -> &str {
        &self.texts[symbol.0 as usize]
    }
}

/// Variables that the language gives a meaning.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
#[allow(clippy::upper_case_acronyms)] // the language spells them so
#[allow(missing_docs)]
pub enum Special {
    NR,
    NF,
    FNR,
    FS,
    OFS,
    ORS,
    RS,
    FILENAME,
    SUBSEP,
    CONVFMT,
    OFMT,
    RSTART,
    RLENGTH,
    ARGC,
    ARGV,
    ENVIRON,
    // gawk's
    ARGIND,
    BINMODE,
    ERRNO,
    FIELDWIDTHS,
    FPAT,
    FUNCTAB,
    IGNORECASE,
    LINT,
    PREC,
    PROCINFO,
    ROUNDMODE,
    RT,
    SYMTAB,
    TEXTDOMAIN,
}

impl Special {
    /// All of them, in the order of their numbers; the first `POSIX` are in every AWK.
    pub const ALL: [Special; 30] = {
        use Special::*;
        [
            NR,
            NF,
            FNR,
            FS,
            OFS,
            ORS,
            RS,
            FILENAME,
            SUBSEP,
            CONVFMT,
            OFMT,
            RSTART,
            RLENGTH,
            ARGC,
            ARGV,
            ENVIRON,
            ARGIND,
            BINMODE,
            ERRNO,
            FIELDWIDTHS,
            FPAT,
            FUNCTAB,
            IGNORECASE,
            LINT,
            PREC,
            PROCINFO,
            ROUNDMODE,
            RT,
            SYMTAB,
            TEXTDOMAIN,
        ]
    };

    /// The name as programs write it.
    pub fn name(self) -> &'static str {
        use Special::*;
        match self {
            NR => "NR",
            NF => "NF",
            FNR => "FNR",
            FS => "FS",
            OFS => "OFS",
            ORS => "ORS",
            RS => "RS",
            FILENAME => "FILENAME",
            SUBSEP => "SUBSEP",
            CONVFMT => "CONVFMT",
            OFMT => "OFMT",
            RSTART => "RSTART",
            RLENGTH => "RLENGTH",
            ARGC => "ARGC",
            ARGV => "ARGV",
            ENVIRON => "ENVIRON",
            ARGIND => "ARGIND",
            BINMODE => "BINMODE",
            ERRNO => "ERRNO",
            FIELDWIDTHS => "FIELDWIDTHS",
            FPAT => "FPAT",
            FUNCTAB => "FUNCTAB",
            IGNORECASE => "IGNORECASE",
            LINT => "LINT",
            PREC => "PREC",
            PROCINFO => "PROCINFO",
            ROUNDMODE => "ROUNDMODE",
            RT => "RT",
            SYMTAB => "SYMTAB",
            TEXTDOMAIN => "TEXTDOMAIN",
        }
    }

    /// The variable of that name, if it is special.
    pub fn from_name(name: &str) -> Option<Special> {
        Special::ALL.into_iter().find(|s| s.name() == name)
    }

    /// How many of `ALL` POSIX has; the rest is gawk's, and plain names in `--posix` and `--traditional` programs.
    pub const POSIX: usize = 16;

    /// Whether it is an array.
    pub fn is_array(self) -> bool {
        use Special::*;
        matches!(self, ARGV | ENVIRON | FUNCTAB | PROCINFO | SYMTAB)
    }
}

/// The libraries that `@load` and `-l` bring into a program.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum Library {
    Filefuncs,
    Fnmatch,
    Fork,
    Inplace,
    /// Its function is built in; the name is known so that it can be loaded.
    Intdiv,
    Ordchr,
    Readdir,
    Readfile,
    Revoutput,
    Revtwoway,
    Rwarray,
    Time,
}

impl Library {
    /// Names as programs write them.
    const TABLE: [(Library, &'static str); 12] = [
        (Library::Filefuncs, "filefuncs"),
        (Library::Fnmatch, "fnmatch"),
        (Library::Fork, "fork"),
        (Library::Inplace, "inplace"),
        (Library::Intdiv, "intdiv"),
        (Library::Ordchr, "ordchr"),
        (Library::Readdir, "readdir"),
        (Library::Readfile, "readfile"),
        (Library::Revoutput, "revoutput"),
        (Library::Revtwoway, "revtwoway"),
        (Library::Rwarray, "rwarray"),
        (Library::Time, "time"),
    ];

    /// The library of that name.
    pub fn from_name(name: &str) -> Option<Library> {
        let row = Library::TABLE.iter().find(|row| row.1 == name)?;
        Some(row.0)
    }

    /// Why a library of another name cannot be loaded, as the end of a message.
    pub fn unknown() -> String {
        let names = Library::TABLE.map(|row| row.1).join(", ");
        format!("there is no such library; those there are: {names}")
    }

    /// The name as programs write it.
    pub fn name(self) -> &'static str {
        Library::TABLE[self as usize].1
    }
}

/// Who brings a built-in function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// POSIX (and `fflush`): there in every dialect.
    Posix,
    /// gawk: plain names in `--posix` and `--traditional` programs.
    Gawk,
    /// A library, if the program loads it.
    Library(Library),
    /// This AWK: functions of the namespace `pm`.
    Perdure,
}

/// Functions that the language gives.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum Builtin {
    Atan2,
    Close,
    Cos,
    Exp,
    Fflush,
    Gsub,
    Index,
    Int,
    Length,
    Log,
    Match,
    Rand,
    Sin,
    Split,
    Sprintf,
    Sqrt,
    Srand,
    Sub,
    Substr,
    System,
    Tolower,
    Toupper,
    And,
    Asort,
    Asorti,
    Bindtextdomain,
    Compl,
    Dcgettext,
    Dcngettext,
    Gensub,
    Intdiv,
    Isarray,
    Lshift,
    Mkbool,
    Mktime,
    Or,
    Patsplit,
    Rshift,
    Strftime,
    Strtonum,
    Systime,
    Typeof,
    Xor,
    Chdir,
    Fts,
    Stat,
    Statvfs,
    Fnmatch,
    Fork,
    Wait,
    Waitpid,
    InplaceBegin,
    InplaceEnd,
    Chr,
    Ord,
    Readfile,
    Reada,
    Readall,
    Writea,
    Writeall,
    Gettimeofday,
    Sleep,
    Strptime,
    Commit,
    Rollback,
}

/// No limit to the number of arguments.
const MANY: usize = usize::MAX;

impl Builtin {
    /// Name, least and most number of arguments, and where it comes from.
    #[rustfmt::skip] // a table
    const TABLE: [(Builtin, &'static str, usize, usize, Origin); 65] = {
        use Builtin::*;
        use Origin::{Gawk, Library as From, Perdure, Posix};
        [
            (Atan2, "atan2", 2, 2, Posix),
            (Close, "close", 1, 2, Posix),
            (Cos, "cos", 1, 1, Posix),
            (Exp, "exp", 1, 1, Posix),
            (Fflush, "fflush", 0, 1, Posix),
            (Gsub, "gsub", 2, 3, Posix),
            (Index, "index", 2, 2, Posix),
            (Int, "int", 1, 1, Posix),
            (Length, "length", 0, 1, Posix),
            (Log, "log", 1, 1, Posix),
            (Match, "match", 2, 3, Posix),
            (Rand, "rand", 0, 0, Posix),
            (Sin, "sin", 1, 1, Posix),
            (Split, "split", 2, 4, Posix),
            (Sprintf, "sprintf", 1, MANY, Posix),
            (Sqrt, "sqrt", 1, 1, Posix),
            (Srand, "srand", 0, 1, Posix),
            (Sub, "sub", 2, 3, Posix),
            (Substr, "substr", 2, 3, Posix),
            (System, "system", 1, 1, Posix),
            (Tolower, "tolower", 1, 1, Posix),
            (Toupper, "toupper", 1, 1, Posix),
            (And, "and", 1, MANY, Gawk),
            (Asort, "asort", 1, 3, Gawk),
            (Asorti, "asorti", 1, 3, Gawk),
            (Bindtextdomain, "bindtextdomain", 1, 2, Gawk),
            (Compl, "compl", 1, 1, Gawk),
            (Dcgettext, "dcgettext", 1, 3, Gawk),
            (Dcngettext, "dcngettext", 3, 5, Gawk),
            (Gensub, "gensub", 3, 4, Gawk),
            (Intdiv, "intdiv", 3, 3, Gawk),
            (Isarray, "isarray", 1, 1, Gawk),
            (Lshift, "lshift", 2, 2, Gawk),
            (Mkbool, "mkbool", 1, 1, Gawk),
            (Mktime, "mktime", 1, 2, Gawk),
            (Or, "or", 1, MANY, Gawk),
            (Patsplit, "patsplit", 2, 4, Gawk),
            (Rshift, "rshift", 2, 2, Gawk),
            (Strftime, "strftime", 0, 3, Gawk),
            (Strtonum, "strtonum", 1, 1, Gawk),
            (Systime, "systime", 0, 0, Gawk),
            (Typeof, "typeof", 1, 2, Gawk),
            (Xor, "xor", 1, MANY, Gawk),
            (Chdir, "chdir", 1, 1, From(Library::Filefuncs)),
            (Fts, "fts", 3, 3, From(Library::Filefuncs)),
            (Stat, "stat", 2, 3, From(Library::Filefuncs)),
            (Statvfs, "statvfs", 2, 2, From(Library::Filefuncs)),
            (Fnmatch, "fnmatch", 3, 3, From(Library::Fnmatch)),
            (Fork, "fork", 0, 0, From(Library::Fork)),
            (Wait, "wait", 0, 0, From(Library::Fork)),
            (Waitpid, "waitpid", 1, 1, From(Library::Fork)),
            (InplaceBegin, "inplace::begin", 2, 2, From(Library::Inplace)),
            (InplaceEnd, "inplace::end", 2, 2, From(Library::Inplace)),
            (Chr, "chr", 1, 1, From(Library::Ordchr)),
            (Ord, "ord", 1, 1, From(Library::Ordchr)),
            (Readfile, "readfile", 1, 1, From(Library::Readfile)),
            (Reada, "reada", 2, 2, From(Library::Rwarray)),
            (Readall, "readall", 1, 1, From(Library::Rwarray)),
            (Writea, "writea", 2, 2, From(Library::Rwarray)),
            (Writeall, "writeall", 1, 1, From(Library::Rwarray)),
            (Gettimeofday, "gettimeofday", 0, 0, From(Library::Time)),
            (Sleep, "sleep", 1, 1, From(Library::Time)),
            (Strptime, "strptime", 1, 2, From(Library::Time)),
            (Commit, "pm::commit", 0, 0, Perdure),
            (Rollback, "pm::rollback", 0, 0, Perdure),
        ]
    };

    /// The function of that name, from whatever origin.
    pub fn from_name(name: &[u8]) -> Option<Builtin> {
        Builtin::TABLE
            .iter()
            .find(|row| row.1.as_bytes() == name)
            .map(|row| row.0)
    }

    /// All of them.
    pub fn all() -> impl Iterator<Item = Builtin> {
        Builtin::TABLE.iter().map(|row| row.0)
    }

    /// The name as programs write it.
    pub fn name(self) -> &'static str {
        Builtin::TABLE[self as usize].1
    }

    /// Least and most number of arguments.
    pub fn arity(self) -> (usize, usize) {
        let row = Builtin::TABLE[self as usize];
        (row.2, row.3)
    }

    /// Who brings it.
    pub fn origin(self) -> Origin {
        Builtin::TABLE[self as usize].4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_in_the_order_of_their_enums() {
        for (at, row) in Builtin::TABLE.iter().enumerate() {
            assert_eq!(row.0 as usize, at);
        }
        for (at, row) in Library::TABLE.iter().enumerate() {
            assert_eq!(row.0 as usize, at);
        }
        for (at, special) in Special::ALL.iter().enumerate() {
            assert_eq!(*special as usize, at);
        }
    }
}
