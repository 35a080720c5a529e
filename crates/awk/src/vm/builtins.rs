//! Functions of the language that have no instruction of their own: arguments and result are values.
//!
//! Invariant: arguments are computed before the function begins; what it stores in arrays it stores after it has read all of
//! its arguments, so that `split(a[1], a)` works.
//!
//! Source: gawk manual, "Built-in Functions".

use std::rc::Rc;

use awk_syntax::names::Builtin;

use super::Vm;
use crate::error::{Fatal, Step as Result};
use crate::fields::{Splitter, csv};
use crate::regex::{Options, Regex};
use crate::settings::Notation;
use crate::text;
use crate::value::{ArrayRef, Link, Value};

/// A place between parts that has no element.
const NO_SEPARATOR: (u32, u32) = (u32::MAX, u32::MAX);

/// Keeps what a double can hold: the 53 bits from the lowest one that is set, as gawk's bit functions do.
fn fit_double(n: u64) -> f64 {
    let zeros = n.trailing_zeros().min(63);
    let kept = (n >> zeros) & ((1 << 53) - 1);
    (kept << zeros) as f64
}

/// `strtonum`: hexadecimal and octal by their prefixes, all else decimal.
fn text_to_number(text: &[u8]) -> f64 {
    let digits = |text: &[u8], radix: u32| {
        let valid = text.iter().map_while(|b| (*b as char).to_digit(radix));
        valid.fold(0.0, |n, digit| n * f64::from(radix) + f64::from(digit))
    };
    match text {
        [b'0', b'x' | b'X', rest @ ..] => digits(rest, 16),
        [b'0', rest @ ..]
            if !rest
                .iter()
                .take_while(|b| b.is_ascii_digit() || crate::num::continues_decimal(**b))
                .any(|b| !(b'0'..=b'7').contains(b)) =>
        {
            digits(rest, 8)
        }
        _ => crate::num::parse_prefix(text),
    }
}

/// The replacement of `gensub`: `\0` to `\9` and `&` are groups, `\\` and `\&` plain.
fn expand_groups(
    replacement: &[u8],
    target: &[u8],
    groups: &[Option<(usize, usize)>],
    out: &mut Vec<u8>,
) {
    let group = |n: usize, out: &mut Vec<u8>| {
        if let Some(Some((start, end))) = groups.get(n) {
            out.extend_from_slice(&target[*start..*end]);
        }
    };
    let mut rest = replacement;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match (byte, rest.first()) {
            (b'&', _) => group(0, out),
            (b'\\', Some(&next)) => {
                rest = &rest[1..];
                if next.is_ascii_digit() {
                    group(usize::from(next - b'0'), out);
                } else {
                    out.push(next);
                }
            }
            (byte, _) => out.push(byte),
        }
    }
}

/// Appends `target` to `out` with its matches (only the `nth`, if given) replaced, and gives how many were.
pub(super) fn replace_groups(
    regex: &Regex,
    charset: text::Charset,
    replacement: &[u8],
    target: &[u8],
    nth: Option<u64>,
    out: &mut Vec<u8>,
) -> u64 {
    let mut groups = Vec::new();
    let (mut at, mut copied, mut seen, mut replaced) = (0, 0, 0, 0);
    let mut last_end = None;
    while at <= target.len() && regex.captures_at(target, at, &mut groups) {
        let Some(Some((start, end))) = groups.first().copied() else {
            break;
        };
        // An empty match directly behind a match is none, unless that one is only counted (gawk).
        if nth.is_some() || !(start == end && last_end == Some(start)) {
            seen += 1;
            if nth.is_none_or(|n| n == seen) {
                out.extend_from_slice(&target[copied..start]);
                expand_groups(replacement, target, &groups, out);
                copied = end;
                replaced += 1;
                if nth.is_some() {
                    break;
                }
            }
        }
        last_end = Some(end);
        at = if start == end {
            if end >= target.len() {
                break;
            }
            end + text::next_char(charset, &target[end..]).1
        } else {
            end
        };
    }
    out.extend_from_slice(&target[copied..]);
    replaced
}

impl Vm<'_> {
    fn text_argument(&self, args: &[Value], at: usize) -> Vec<u8> {
        args.get(at)
            .map(|value| self.settings.text_of(value))
            .unwrap_or_default()
    }

    /// A number that a bit function takes.
    fn bits(name: &str, args: &[Value], at: usize) -> Result<u64> {
        let n = args[at].to_num();
        if n < 0.0 {
            return Err(Fatal::new(format!(
                "{name}: argument {} has the negative value {n}, which is not allowed",
                at + 1
            )));
        }
        // Beyond 2^64 the low bits of the number, which are zeros, are what is left.
        Ok(if n >= 18_446_744_073_709_551_616.0 {
            0
        } else {
            n as u64
        })
    }

    /// The regular expression that an argument means: its own, or its text's.
    pub(crate) fn regex_argument(&mut self, value: &Value) -> Result<Rc<Regex>> {
        match value {
            Value::Regex(text) => self.compiled(text),
            value => {
                let text = self.settings.text_of(value);
                self.compiled(&text)
            }
        }
    }

    /// Calls a function of the language.
    ///
    /// # Errors
    /// What the function cannot do.
    pub(super) fn builtin(&mut self, which: Builtin, args: Vec<Value>) -> Result<Value> {
        let name = which.name();
        let args = args.as_slice();
        if self.code.exact
            && let Some(value) = self.exact_builtin(which, args)?
        {
            return Ok(value);
        }
        Ok(Value::Num(match which {
            Builtin::And | Builtin::Or | Builtin::Xor => {
                if args.len() < 2 {
                    return Err(Fatal::new(format!("`{name}` takes two arguments or more")));
                }
                let mut n = Vm::bits(name, args, 0)?;
                for at in 1..args.len() {
                    let m = Vm::bits(name, args, at)?;
                    n = match which {
                        Builtin::And => n & m,
                        Builtin::Or => n | m,
                        _ => n ^ m,
                    };
                }
                fit_double(n)
            }
            Builtin::Compl => fit_double(!Vm::bits(name, args, 0)?),
            Builtin::Lshift | Builtin::Rshift => {
                let (n, by) = (Vm::bits(name, args, 0)?, Vm::bits(name, args, 1)?);
                fit_double(match which {
                    Builtin::Lshift => n.wrapping_shl((by % 64) as u32),
                    _ => n.wrapping_shr((by % 64) as u32),
                })
            }
            Builtin::Strtonum => match &args[0] {
                value @ (Value::Small(_) | Value::Long(..) | Value::Regex(_))
                    if kind(value) != "strnum" =>
                {
                    text_to_number(&self.settings.text_of(value))
                }
                value => value.to_num(),
            },
            Builtin::Mkbool => return Ok(Value::Bool(args[0].truth())),
            Builtin::Intdiv => return self.integer_division(args),
            Builtin::Isarray => {
                let is_array = matches!(self.settled(&args[0])?, Value::Array(_));
                f64::from(u8::from(is_array))
            }
            Builtin::Typeof => {
                let value = self.settled(&args[0])?;
                return Ok(Value::text(kind(&value).as_bytes(), false));
            }
            Builtin::Asort => return self.asort(args, false),
            Builtin::Asorti => return self.asort(args, true),
            Builtin::Gensub => return self.gensub(args),
            Builtin::Match => self.match_groups(args)?,
            Builtin::Split => self.split_seps(args)?,
            Builtin::Patsplit => self.patsplit(args)?,
            Builtin::Systime | Builtin::Strftime | Builtin::Mktime => {
                return self.time_function(which, args);
            }
            Builtin::Bindtextdomain | Builtin::Dcgettext | Builtin::Dcngettext => {
                return self.translation(which, args);
            }
            Builtin::Commit | Builtin::Rollback => return self.transaction(which),
            _ => return self.library_function(which, args),
        }))
    }

    /// A variable that was handed over, as what it is now.
    pub(crate) fn settled(&mut self, value: &Value) -> Result<Value> {
        Ok(match value {
            Value::Link(link) => match self.linked_array(*link)? {
                Some(array) => Value::Array(array),
                // What a variable without a value was assigned since is its own: it was handed over by value.
                None => match self.origin(*link)? {
                    value @ (Value::Array(_) | Value::Unassigned) => value,
                    _ => Value::Uninit,
                },
            },
            value => value.clone(),
        })
    }

    /// What is now in the variable that was handed over.
    fn origin(&mut self, link: Link) -> Result<Value> {
        Ok(match link {
            Link::Global(n) => self.globals[n as usize].clone(),
            Link::Local(at) => {
                let next = self.vals[at as usize].clone();
                self.settled(&next)?
            }
            Link::Elem(at) => {
                let (array, key) = self.handed[at as usize].clone();
                match self.store.heap_of(array)?.find(array.table, &key)? {
                    Some(slot) => self.store.get(array, slot)?,
                    None => Value::Uninit,
                }
            }
        })
    }

    fn integer_division(&mut self, args: &[Value]) -> Result<Value> {
        let (n, by) = (args[0].to_num().trunc(), args[1].to_num().trunc());
        let array = self.array_argument("intdiv", 3, args.get(2))?;
        self.clear(array)?;
        if by == 0.0 {
            self.warn("intdiv: division by zero: there is no result");
            return Ok(Value::Num(-1.0));
        }
        for (key, value) in [("quotient", (n / by).trunc()), ("remainder", n % by)] {
            let slot = self.store.entry(array, key.as_bytes())?;
            self.store.set_num(array, slot, value + 0.0)?;
        }
        Ok(Value::Num(0.0))
    }

    fn gensub(&mut self, args: &[Value]) -> Result<Value> {
        let regex = self.regex_argument(&args[0])?;
        let replacement = self.text_argument(args, 1);
        let how = self.text_argument(args, 2);
        let nth = if matches!(how.first(), Some(b'g' | b'G')) {
            None
        } else {
            let n = args[2].to_num();
            if n < 1.0 || n.is_nan() {
                let shown = String::from_utf8_lossy(&how).into_owned();
                self.warn(&format!("gensub: third argument `{shown}` treated as 1"));
            }
            Some(n.max(1.0) as u64)
        };
        let value = match args.get(3) {
            Some(value) => value.clone(),
            None => self.field(0),
        };
        let target = self.settings.text_of(&value);
        let mut out = Vec::with_capacity(target.len());
        let charset = self.settings.charset;
        let regex = self.cased(&regex);
        let count = replace_groups(regex, charset, &replacement, &target, nth, &mut out);
        // Nothing replaced: text stays what it is, a number that it looks like too.
        Ok(match value {
            Value::Uninit | Value::Unassigned if count == 0 => Value::Unassigned,
            value if count == 0 => Value::text(&target, value.maybe_num()),
            _ => Value::text(&out, false),
        })
    }

    /// `match` with an array for the groups.
    fn match_groups(&mut self, args: &[Value]) -> Result<f64> {
        let subject = self.text_argument(args, 0);
        let regex = self.regex_argument(&args[1])?;
        let array = self.array_argument("match", 3, args.get(2))?;
        self.match_into(&regex, &subject, array)
    }

    /// What an argument says about where to split: a string of one character has its own meaning.
    pub(super) fn splitter_argument(&mut self, value: &Value) -> Result<Rc<Splitter>> {
        let text = match value {
            // An empty one divides into characters (gawk).
            Value::Regex(text) if !text.is_empty() => {
                let regex = self.compiled(text)?;
                let ignore_case = self.settings.ignore_case;
                return Ok(Rc::new(Splitter::from_regex_with(regex, ignore_case)));
            }
            value => self.settings.text_of(value),
        };
        let ignore_case = self.settings.ignore_case;
        if text::char_count(self.settings.charset, &text) <= 1 {
            let options = Options {
                ignore_case,
                ..self.settings.regex_options()
            };
            return Splitter::compile(&text, options)
                .map(Rc::new)
                .map_err(|e| Fatal::new(format!("separator of `split`: {}", e.what)));
        }
        let regex = self.compiled(&text)?;
        Ok(Rc::new(Splitter::from_regex_with(regex, ignore_case)))
    }

    /// `split` with an array for the separators, or called by name.
    fn split_seps(&mut self, args: &[Value]) -> Result<f64> {
        let subject = self.text_argument(args, 0);
        let splitter = match args.get(2) {
            Some(value) => self.splitter_argument(value)?,
            None => self.settings.fs.clone(),
        };
        let array = self.array_argument("split", 2, args.get(1))?;
        let seps = match args.get(3) {
            Some(value) => Some(self.array_argument("split", 4, Some(value))?),
            None => None,
        };
        let charset = self.settings.charset;
        let (mut parts, mut between) = (Vec::new(), Vec::new());
        if self.settings.input == Notation::Csv && args.len() < 3 {
            let mut unquoted = Vec::new();
            let in_record = csv::split(&subject, &mut parts, &mut unquoted) == csv::Source::Record;
            let text = if in_record { &subject } else { &unquoted };
            return self.store_parts("split", text, &parts, &between, array, seps);
        }
        splitter.split_with_seps(charset, &subject, false, &mut parts, &mut between);
        // The text before the first part, and that behind the last, is there only if it is not empty.
        let last = parts.len();
        for at in [0, last] {
            if let Some(range) = between.get_mut(at)
                && range.0 == range.1
            {
                *range = NO_SEPARATOR;
            }
        }
        self.store_parts("split", &subject, &parts, &between, array, seps)
    }

    fn patsplit(&mut self, args: &[Value]) -> Result<f64> {
        let subject = self.text_argument(args, 0);
        let splitter = match args.get(2) {
            Some(value) if self.settings.text_of(value).is_empty() => {
                return Err(Fatal::new("patsplit: the third argument must not be empty"));
            }
            Some(value) => Rc::new(Splitter::Pattern {
                regex: self.regex_argument(value)?,
                ignore_case: self.settings.ignore_case,
            }),
            None => self.settings.fpat()?,
        };
        let array = self.array_argument("patsplit", 2, args.get(1))?;
        let seps = match args.get(3) {
            Some(value) => Some(self.array_argument("patsplit", 4, Some(value))?),
            None => None,
        };
        let (mut parts, mut between) = (Vec::new(), Vec::new());
        let charset = self.settings.charset;
        splitter.split_with_seps(charset, &subject, false, &mut parts, &mut between);
        self.store_parts("patsplit", &subject, &parts, &between, array, seps)
    }

    fn store_parts(
        &mut self,
        name: &str,
        text: &[u8],
        parts: &[(u32, u32)],
        between: &[(u32, u32)],
        array: ArrayRef,
        seps: Option<ArrayRef>,
    ) -> Result<f64> {
        if seps.is_some_and(|seps| seps.table == array.table && seps.scratch == array.scratch) {
            return Err(Fatal::new(format!(
                "{name}: the second and the fourth argument cannot be the same array"
            )));
        }
        self.clear(array)?;
        for (at, (start, end)) in parts.iter().enumerate() {
            let slot = self
                .store
                .heap_of(array)?
                .entry_int(array.table, at as i64 + 1)?;
            let value = Value::input(&text[*start as usize..*end as usize]);
            self.store.set(array, slot, &value)?;
        }
        if let Some(seps) = seps {
            self.clear(seps)?;
            for (at, (start, end)) in between.iter().enumerate() {
                if (*start, *end) == NO_SEPARATOR {
                    continue;
                }
                let slot = self.store.heap_of(seps)?.entry_int(seps.table, at as i64)?;
                let value = Value::input(&text[*start as usize..*end as usize]);
                self.store.set(seps, slot, &value)?;
            }
        }
        Ok(parts.len() as f64)
    }

    /// Any function of the language, also those with instructions of their own, for calls by name.
    pub(crate) fn any_builtin(&mut self, which: Builtin, args: Vec<Value>) -> Result<Value> {
        if self.code.exact
            && let Some(value) = self.exact_builtin(which, &args)?
        {
            return Ok(value);
        }
        let text = |vm: &Self, at: usize| vm.text_argument(&args, at);
        let num = |at: usize| args.get(at).map_or(0.0, Value::to_num);
        Ok(Value::Num(match which {
            Builtin::Atan2 => num(0).atan2(num(1)),
            Builtin::Cos => num(0).cos(),
            Builtin::Exp => num(0).exp(),
            Builtin::Int => num(0).trunc(),
            Builtin::Log => num(0).ln(),
            Builtin::Sin => num(0).sin(),
            Builtin::Sqrt => num(0).sqrt(),
            Builtin::Rand => self.next_random(),
            Builtin::Srand => {
                if let Some(seed) = args.first() {
                    self.nums.push(seed.to_num());
                }
                self.srand(!args.is_empty());
                self.pop_num()
            }
            Builtin::Length => match args.first() {
                Some(value) => match self.settled(value)? {
                    Value::Array(array) => {
                        self.store.heap_of(array)?.table_len(array.table)? as f64
                    }
                    value => self.settings.length_of(&value),
                },
                None => self.length_record(),
            },
            Builtin::Index => {
                self.push_text(&text(self, 0));
                self.push_text(&text(self, 1));
                self.index();
                self.pop_num()
            }
            Builtin::Match if args.len() == 2 => {
                let regex = self.regex_argument(&args[1])?;
                self.push_text(&text(self, 0));
                self.match_with(&regex);
                self.pop_num()
            }
            Builtin::Sub | Builtin::Gsub => {
                // Called by name it changes `$0` only: there is no variable to store in.
                if args.len() == 3 {
                    let name = which.name();
                    return Err(Fatal::new(format!(
                        "`{name}` can be called indirectly with two arguments only"
                    )));
                }
                let regex = self.regex_argument(&args[0])?;
                let target = self.record.whole(&self.settings).to_vec();
                self.push_text(&text(self, 1));
                self.push_text(&target);
                self.substitute_with(&regex, which == Builtin::Gsub);
                let count = self.pop_num();
                if count > 0.0 {
                    let value = self.pop_val();
                    self.set_field(0, value)?;
                }
                count
            }
            Builtin::Substr => {
                self.push_text(&text(self, 0));
                self.nums.push(num(1));
                if args.len() == 3 {
                    self.nums.push(num(2));
                }
                self.substr(args.len() == 3);
                return Ok(self.pop_val());
            }
            Builtin::Tolower | Builtin::Toupper => {
                self.push_text(&text(self, 0));
                self.change_case(if which == Builtin::Tolower {
                    text::to_lower
                } else {
                    text::to_upper
                });
                return Ok(self.pop_val());
            }
            Builtin::Sprintf => {
                let count = args.len() as u32;
                self.vals.extend(args);
                self.format_dynamic(count)?;
                self.text_to_value();
                return Ok(self.pop_val());
            }
            Builtin::Close => {
                self.push_text(&text(self, 0));
                if args.len() == 2 {
                    self.push_text(&text(self, 1));
                    self.close_side()?;
                } else {
                    self.close()?;
                }
                self.pop_num()
            }
            Builtin::Fflush => {
                if !args.is_empty() {
                    self.push_text(&text(self, 0));
                }
                self.fflush(!args.is_empty())?;
                self.pop_num()
            }
            Builtin::System => {
                self.push_text(&text(self, 0));
                self.system()?;
                self.pop_num()
            }
            _ => return self.builtin(which, args),
        }))
    }

    /// Puts a string on top of the text buffer.
    fn push_text(&mut self, text: &[u8]) {
        self.marks.push(self.text.len());
        self.text.extend_from_slice(text);
    }
}

/// What `typeof` says.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Uninit | Value::Link(_) => "untyped",
        Value::Unassigned => "unassigned",
        Value::Num(_) | Value::Exact(_) => "number",
        Value::Bool(_) => "number|bool",
        Value::Regex(_) => "regexp",
        Value::Array(_) => "array",
        Value::Small(_) | Value::Long(..) => {
            let bytes = value.as_bytes().unwrap_or_default();
            match value.maybe_num() {
                true if bytes.is_empty() => "unassigned",
                true if crate::num::looks_numeric(bytes).is_some() => "strnum",
                _ => "string",
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_beyond_a_double_are_cut_from_the_lowest_one_that_is_set() {
        assert_eq!(fit_double(!0), 9_007_199_254_740_991.0);
        assert_eq!(fit_double(!1), 18_014_398_509_481_982.0);
        assert_eq!(fit_double(1 << 63 | 1), 1.0);
        assert_eq!(fit_double(1 << 55 | 1 << 3), 36_028_797_018_963_976.0);
        assert_eq!(fit_double(0), 0.0);
    }

    #[test]
    fn text_is_read_in_the_base_of_its_prefix() {
        for (text, n) in [
            ("0x1F", 31.0),
            ("017", 15.0),
            ("12abc", 12.0),
            ("0x1.8p3", 1.0),
            (" 0x10", 0.0),
            ("-0x10", 0.0),
            ("018", 18.0),
            ("1e3", 1000.0),
            ("0xg", 0.0),
            ("0", 0.0),
            ("0.5", 0.5),
        ] {
            assert_eq!(text_to_number(text.as_bytes()), n, "{text}");
        }
    }
}
