//! sed scripts.
//!
//! What they do to a line depends on that line alone if no command of theirs keeps anything for the next (hold space, `n`, `N`) and no
//! address counts lines. Understood is what GNU sed and POSIX have in common, and a little of GNU's; the rest is not.

use super::{Ends, Reading, Together};
use crate::annotation::{Call, Combine};

/// What is known of the commands read so far.
#[derive(Default)]
struct Found {
    stays: Option<String>,
    early: bool,
    across: Option<String>,
}

pub(super) fn read(call: &Call<'_>, text: &[u8]) -> Reading {
    let mut script = Script {
        rest: text,
        found: Found::default(),
    };
    let Some(()) = script.commands() else {
        return Reading::unknown("its script is not understood");
    };
    let has = |names: &[&str]| call.options.iter().any(|option| names.contains(option));
    let found = script.found;
    let lines = if has(&["-z", "--null-data"]) {
        Err("its lines end in zero bytes".to_owned())
    } else if has(&["-i", "-s"]) {
        Err("it treats each file by itself".to_owned())
    } else {
        found.across.map_or(Ok(Together::As(Combine::Concat)), Err)
    };
    Reading {
        stays: found.stays,
        early: found.early,
        ends: if has(&["-z", "--null-data"]) {
            Ends::Unknown
        } else {
            Ends::IfInput
        },
        lines,
        waits: false,
        names: false,
        shares: false,
    }
}

struct Script<'a> {
    rest: &'a [u8],
    found: Found,
}

impl Script<'_> {
    fn next(&mut self) -> Option<u8> {
        let (&byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(byte)
    }

    fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    fn skip(&mut self, which: &[u8]) {
        while self.peek().is_some_and(|byte| which.contains(&byte)) {
            self.next();
        }
    }

    /// Up to the end of the line, which stays.
    fn line(&mut self) {
        while self.peek().is_some_and(|byte| byte != b'\n') {
            self.next();
        }
    }

    fn across(&mut self, why: &str) {
        self.found.across.get_or_insert_with(|| why.to_owned());
    }

    fn stays(&mut self, why: &str) {
        self.found.stays.get_or_insert_with(|| why.to_owned());
        self.across(why);
    }

    /// All commands; none if one is not understood.
    fn commands(&mut self) -> Option<()> {
        loop {
            self.skip(b" \t\n;");
            let Some(byte) = self.peek() else {
                return Some(());
            };
            if byte == b'#' {
                self.line();
                continue;
            }
            self.addresses()?;
            self.command()?;
        }
    }

    fn addresses(&mut self) -> Option<()> {
        if self.one_address()? {
            self.skip(b" \t");
            if self.peek() == Some(b',') {
                self.next();
                self.skip(b" \t");
                self.across("an address is a range of lines");
                if matches!(self.peek(), Some(b'+' | b'~')) {
                    self.next();
                }
                if !self.one_address()? {
                    return None;
                }
            }
        }
        self.skip(b" \t");
        while self.peek() == Some(b'!') {
            self.next();
            self.skip(b" \t");
        }
        Some(())
    }

    /// Whether there was one.
    fn one_address(&mut self) -> Option<bool> {
        match self.peek() {
            Some(b'0'..=b'9') => {
                self.skip(b"0123456789");
                if self.peek() == Some(b'~') {
                    self.next();
                    self.skip(b"0123456789");
                }
                self.across("an address is the number of a line");
            }
            Some(b'$') => {
                self.next();
                self.across("an address is the last line");
            }
            Some(b'/') => {
                self.next();
                self.regex(b'/')?;
            }
            Some(b'\\') => {
                self.next();
                let delimiter = self.next()?;
                if delimiter == b'\n' || delimiter == b'\\' {
                    return None;
                }
                self.regex(delimiter)?;
            }
            _ => return Some(false),
        }
        // I and M belong to a regular expression.
        self.skip(b"IM");
        Some(true)
    }

    /// A regular expression up to its delimiter. One that is empty stands for the last that was used, maybe for another line.
    fn regex(&mut self, delimiter: u8) -> Option<()> {
        let mut is_empty = true;
        loop {
            match self.next()? {
                b'\n' => return None,
                b'\\' => {
                    self.next()?;
                }
                byte if byte == delimiter => {
                    if is_empty {
                        self.across("an empty regular expression stands for an earlier one");
                    }
                    return Some(());
                }
                b'[' => self.bracket()?,
                _ => {}
            }
            is_empty = false;
        }
    }

    /// What stands in brackets, up to the closing one: a delimiter is a character there. To versions that end the expression at it,
    /// it is a mistake, for the bracket is open then.
    fn bracket(&mut self) -> Option<()> {
        if self.peek() == Some(b'^') {
            self.next();
        }
        if self.peek() == Some(b']') {
            self.next();
        }
        loop {
            match self.next()? {
                b']' => return Some(()),
                b'\n' => return None,
                b'[' => {
                    if let Some(kind @ (b':' | b'.' | b'=')) = self.peek() {
                        self.next();
                        while !(self.next()? == kind && self.peek() == Some(b']')) {}
                        self.next();
                    }
                }
                _ => {}
            }
        }
    }

    fn command(&mut self) -> Option<()> {
        let command = self.next()?;
        match command {
            b'{' => return Some(()),
            b'}' | b'd' | b'p' | b'z' => {}
            b's' => return self.substitute(),
            b'y' => {
                let delimiter = self.next()?;
                for _ in 0..2 {
                    loop {
                        match self.next()? {
                            b'\\' => {
                                self.next()?;
                            }
                            b'\n' => return None,
                            byte if byte == delimiter => break,
                            _ => {}
                        }
                    }
                }
            }
            b':' | b'b' | b't' | b'T' => {
                // In some versions a label goes on to the end of the line: what is taken for commands then is none, and does
                // no harm.
                self.skip(b" \t");
                while self.peek().is_some_and(|byte| !b"\n;}".contains(&byte)) {
                    self.next();
                }
                return Some(());
            }
            b'h' | b'H' | b'g' | b'G' | b'x' => self.across("it keeps lines for later ones"),
            b'n' | b'N' | b'D' | b'P' => self.across("it joins lines"),
            b'=' => self.across("it numbers lines"),
            b'l' => self.skip(b" 0123456789"),
            b'q' | b'Q' => {
                self.skip(b" 0123456789");
                self.found.early = true;
                self.across("it may end early");
            }
            b'a' | b'i' | b'c' => {
                // The text goes on behind a line that ends in a backslash.
                let mut last = 0;
                while let Some(byte) = self.next() {
                    if byte == b'\n' && last != b'\\' {
                        break;
                    }
                    last = if last == b'\\' { 0 } else { byte };
                }
                self.across("it adds text");
                return Some(());
            }
            b'r' | b'R' | b'w' | b'W' | b'e' => {
                self.line();
                self.stays("its script reads, writes or runs something");
                return Some(());
            }
            _ => return None,
        }
        self.end()
    }

    fn substitute(&mut self) -> Option<()> {
        let delimiter = self.next()?;
        if delimiter == b'\n' || delimiter == b'\\' {
            return None;
        }
        self.regex(delimiter)?;
        loop {
            match self.next()? {
                b'\\' => {
                    self.next()?;
                }
                byte if byte == delimiter => break,
                _ => {}
            }
        }
        while let Some(flag) = self.peek() {
            match flag {
                b'g' | b'p' | b'i' | b'I' | b'm' | b'M' | b'0'..=b'9' => {
                    self.next();
                }
                b'e' | b'w' => {
                    self.line();
                    self.stays("its script writes or runs something");
                    return Some(());
                }
                _ => break,
            }
        }
        self.end()
    }

    /// What may stand behind a command.
    fn end(&mut self) -> Option<()> {
        self.skip(b" \t");
        match self.peek() {
            None | Some(b'\n' | b';' | b'}' | b'#') => Some(()),
            Some(_) => None,
        }
    }
}
