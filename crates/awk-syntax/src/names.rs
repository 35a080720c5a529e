//! Names as small numbers, and the names that the language itself gives.
//!
//! Invariant: two `Symbol`s of one `Names` are equal exactly if their texts are.

use std::collections::HashMap;
use std::rc::Rc;

/// A name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Symbol(pub u32);

/// The table of names of a program.
#[derive(Clone, Debug, Default)]
pub struct Names {
    texts: Vec<Rc<str>>,
    numbers: HashMap<Rc<str>, Symbol>,
}

impl Names {
    /// The number of `text`, new or old.
    pub fn intern(&mut self, text: &str) -> Symbol {
        if let Some(&symbol) = self.numbers.get(text) {
            return symbol;
        }
        let text: Rc<str> = text.into();
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
}

impl Special {
    /// All of them, in the order of their numbers.
    pub const ALL: [Special; 16] = {
        use Special::*;
        [
            NR, NF, FNR, FS, OFS, ORS, RS, FILENAME, SUBSEP, CONVFMT, OFMT, RSTART, RLENGTH, ARGC,
            ARGV, ENVIRON,
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
        }
    }

    /// The variable of that name, if it is special.
    pub fn from_name(name: &str) -> Option<Special> {
        Special::ALL.into_iter().find(|s| s.name() == name)
    }

    /// ARGV and ENVIRON are arrays.
    pub fn is_array(self) -> bool {
        matches!(self, Special::ARGV | Special::ENVIRON)
    }
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
}

impl Builtin {
    /// Name, least and most number of arguments.
    const TABLE: [(Builtin, &'static str, usize, usize); 22] = {
        use Builtin::*;
        [
            (Atan2, "atan2", 2, 2),
            (Close, "close", 1, 1),
            (Cos, "cos", 1, 1),
            (Exp, "exp", 1, 1),
            (Fflush, "fflush", 0, 1),
            (Gsub, "gsub", 2, 3),
            (Index, "index", 2, 2),
            (Int, "int", 1, 1),
            (Length, "length", 0, 1),
            (Log, "log", 1, 1),
            (Match, "match", 2, 2),
            (Rand, "rand", 0, 0),
            (Sin, "sin", 1, 1),
            (Split, "split", 2, 3),
            (Sprintf, "sprintf", 1, usize::MAX),
            (Sqrt, "sqrt", 1, 1),
            (Srand, "srand", 0, 1),
            (Sub, "sub", 2, 3),
            (Substr, "substr", 2, 3),
            (System, "system", 1, 1),
            (Tolower, "tolower", 1, 1),
            (Toupper, "toupper", 1, 1),
        ]
    };

    /// The function of that name.
    pub fn from_name(name: &[u8]) -> Option<Builtin> {
        Builtin::TABLE
            .iter()
            .find(|row| row.1.as_bytes() == name)
            .map(|row| row.0)
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_in_the_order_of_their_enums() {
        for (at, row) in Builtin::TABLE.iter().enumerate() {
            assert_eq!(row.0 as usize, at);
        }
        for (at, special) in Special::ALL.iter().enumerate() {
            assert_eq!(*special as usize, at);
        }
    }
}
