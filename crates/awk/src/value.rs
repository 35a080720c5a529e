//! AWK values as the machine holds them: 24 bytes, short strings inline.
//!
//! Invariant: a string of at most `SMALL_MAX` bytes made by `Value::text` is `Small`; longer ones share one buffer by
//! reference count, and a buffer with a single owner may grow in place (that makes `s = s x` amortised O(1)).

use std::rc::Rc;

use heap::Table;

use crate::exact::{self, Exact};
use crate::format::{Format, number_to_text};
use crate::num::{looks_numeric, parse_prefix};
use crate::text::{Charset, Measure};

/// Longest inline string.
pub const SMALL_MAX: usize = 22;

/// A short string; the top bit of `head` is the strnum mark, the rest the length.
#[derive(Clone, Copy)]
pub struct Small {
    head: u8,
    bytes: [u8; SMALL_MAX],
}

impl Small {
    fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.head & 0x7f)]
    }

    fn maybe_num(&self) -> bool {
        self.head & 0x80 != 0
    }
}

/// A long string.
#[derive(Default)]
pub struct Long {
    bytes: Vec<u8>,
    measure: Measure,
}

impl Long {
    /// What is known of its characters.
    pub fn measure(&self) -> &Measure {
        &self.measure
    }
}

impl From<Vec<u8>> for Long {
    fn from(bytes: Vec<u8>) -> Long {
        Long {
            bytes,
            measure: Measure::default(),
        }
    }
}

impl std::ops::Deref for Long {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// An array: which heap, and the table in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArrayRef {
    /// The table.
    pub table: Table,
    /// In the scratch heap and not in the one that may be a file.
    pub scratch: bool,
    /// Made by the function call whose variable holds it, which frees it when it returns.
    pub owned: bool,
}

/// A value.
#[derive(Clone)]
pub enum Value {
    /// Never used: `""` and 0 at once; it may still become an array.
    Uninit,
    /// Used as a scalar, but never assigned anything else: `""` and 0 at once.
    Unassigned,
    /// A number.
    Num(f64),
    /// A number that `mkbool` made.
    Bool(bool),
    /// A number of any size or precision (`--bignum`) that is no integer of up to 2^53.
    Exact(Rc<Exact>),
    /// A strongly typed regular expression: its text.
    Regex(Rc<Vec<u8>>),
    /// A short string.
    Small(Small),
    /// A long string and its strnum mark.
    Long(Rc<Long>, bool),
    /// An array, in a local variable only.
    Array(ArrayRef),
    /// In a parameter only: the caller's variable that was handed over and holds nothing; if it is used as an array here,
    /// it becomes one there.
    Link(Link),
}

/// A variable that holds nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Link {
    /// A global's number.
    Global(u32),
    /// A place on the value stack.
    Local(u32),
    /// An element, by its number in the machine's list of elements that were handed over.
    Elem(u32),
}

const _: () = assert!(size_of::<Value>() == 24);

impl Value {
    /// A string. `maybe_num`: it came from input, and compares as a number if it looks like one (POSIX: numeric string).
    #[inline]
    pub fn text(bytes: &[u8], maybe_num: bool) -> Value {
        if bytes.len() <= SMALL_MAX {
            let mut small = Small {
                head: bytes.len() as u8 | (u8::from(maybe_num) << 7),
                bytes: [0; SMALL_MAX],
            };
            small.bytes[..bytes.len()].copy_from_slice(bytes);
            Value::Small(small)
        } else {
            Value::long(bytes.to_vec(), maybe_num)
        }
    }

    /// A string of more than `SMALL_MAX` bytes.
    pub fn long(bytes: Vec<u8>, maybe_num: bool) -> Value {
        Value::Long(Rc::new(Long::from(bytes)), maybe_num)
    }

    /// Text from input: a number if it looks like one. The mark on empty text means something else: see `missing`.
    #[inline]
    pub fn input(bytes: &[u8]) -> Value {
        Value::text(bytes, !bytes.is_empty())
    }

    /// A field past NF: empty text, that `typeof` calls unassigned.
    pub fn missing() -> Value {
        Value::text(b"", true)
    }

    /// The bytes, if it is a string.
    #[inline]
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Value::Small(small) => Some(small.bytes()),
            Value::Long(bytes, _) => Some(bytes),
            _ => None,
        }
    }

    /// The strnum mark; false for what is no string.
    pub fn maybe_num(&self) -> bool {
        match self {
            Value::Small(small) => small.maybe_num(),
            Value::Long(_, maybe) => *maybe,
            _ => false,
        }
    }

    /// The numeric value; 0 for an array, which callers rule out before.
    #[inline]
    pub fn to_num(&self) -> f64 {
        match self {
            Value::Num(n) => *n,
            Value::Bool(b) => f64::from(u8::from(*b)),
            Value::Small(small) => parse_prefix(small.bytes()),
            Value::Long(bytes, _) => parse_prefix(bytes),
            Value::Exact(n) => n.to_double(),
            _ => 0.0,
        }
    }

    /// Whether it compares as a number that has its place among the others.
    pub fn is_number(&self) -> bool {
        match self {
            Value::Num(n) => !n.is_nan(),
            Value::Small(_) | Value::Long(..) => {
                let bytes = self.as_bytes().unwrap_or_default();
                self.maybe_num() && looks_numeric(bytes).is_some_and(|n| !n.is_nan())
            }
            _ => false,
        }
    }

    /// Whether it is true as a condition.
    pub fn truth(&self) -> bool {
        match self {
            Value::Num(n) => *n != 0.0,
            Value::Bool(b) => *b,
            Value::Exact(n) => !n.is_zero(),
            Value::Regex(text) => !text.is_empty(),
            Value::Small(_) | Value::Long(..) => {
                text_truth(self.as_bytes().unwrap_or_default(), self.maybe_num())
            }
            Value::Uninit | Value::Unassigned | Value::Array(_) | Value::Link(_) => false,
        }
    }

    /// Appends the string value; `format` is CONVFMT's or OFMT's.
    #[inline]
    pub fn append_to(&self, format: &Format, out: &mut Vec<u8>) {
        match self {
            Value::Num(n) => number_to_text(*n, format, out),
            Value::Bool(b) => out.push(b'0' + u8::from(*b)),
            Value::Exact(n) => {
                exact::format::push_text(n, format, exact::rules().unwrap_or_default(), out);
            }
            Value::Regex(text) => out.extend_from_slice(text),
            Value::Uninit | Value::Unassigned | Value::Array(_) | Value::Link(_) => {}
            Value::Small(small) => out.extend_from_slice(small.bytes()),
            Value::Long(bytes, _) => out.extend_from_slice(bytes),
        }
    }

    /// As `*self = Value::input(bytes)`, with the memory of a long string that nobody shares.
    #[inline]
    pub fn set_input(&mut self, bytes: &[u8]) {
        if bytes.len() > SMALL_MAX
            && let Value::Long(long, maybe) = self
            && let Some(long) = Rc::get_mut(long)
        {
            long.bytes.clear();
            long.bytes.extend_from_slice(bytes);
            long.measure.forget();
            *maybe = true;
            return;
        }
        *self = Value::input(bytes);
    }

    /// Appends `more` to a string value in place; true if that could be done without making the string anew.
    pub fn grow(&mut self, more: &[u8]) -> bool {
        match self {
            Value::Long(long, maybe) => match Rc::get_mut(long) {
                Some(long) => {
                    long.bytes.extend_from_slice(more);
                    long.measure.grown(more);
                    *maybe = false;
                    true
                }
                None => false,
            },
            Value::Small(small) => {
                let length = small.bytes().len();
                if length + more.len() > SMALL_MAX {
                    return false;
                }
                small.bytes[length..length + more.len()].copy_from_slice(more);
                small.head = (length + more.len()) as u8;
                true
            }
            _ => false,
        }
    }

    /// Makes a long string that nobody shares a part of itself; false if it is none.
    pub(crate) fn cut(&mut self, charset: Charset, start: f64, length: Option<f64>) -> bool {
        let Value::Long(long, maybe) = self else {
            return false;
        };
        let Some(long) = Rc::get_mut(long) else {
            return false;
        };
        let range = long
            .measure
            .substr_range(charset, &long.bytes, start, length);
        if range.len() <= SMALL_MAX {
            *self = Value::text(&long.bytes[range], false);
            return true;
        }
        let before = long.bytes.len();
        long.bytes.truncate(range.end);
        long.bytes.drain(..range.start);
        long.measure.cut(range, before);
        *maybe = false;
        true
    }

    /// Equal in kind and content: whether storing one over the other would change anything.
    pub fn same(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Uninit, Value::Uninit) | (Value::Unassigned, Value::Unassigned) => true,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::Regex(a), Value::Regex(b)) => a == b,
            (Value::Exact(a), Value::Exact(b)) => a == b,
            (Value::Num(a), Value::Num(b)) => a.to_bits() == b.to_bits(),
            (Value::Array(a), Value::Array(b)) => a == b,
            _ => {
                self.as_bytes().is_some()
                    && self.as_bytes() == other.as_bytes()
                    && self.maybe_num() == other.maybe_num()
            }
        }
    }
}

/// Whether a string is true as a condition.
pub fn text_truth(bytes: &[u8], maybe_num: bool) -> bool {
    if maybe_num && let Some(n) = looks_numeric(bytes) {
        return match exact::rules() {
            // What is too small for a double is not zero for these.
            Some(rules) if n == 0.0 => !exact::text::parse_prefix(bytes, rules).is_zero(),
            _ => n != 0.0,
        };
    }
    !bytes.is_empty()
}

/// What a value is in a comparison.
enum Side<'a> {
    Num(f64),
    Text(&'a [u8]),
}

/// Compares as AWK does: numbers if both sides are numbers or look like them, else strings by their bytes.
/// `None` if a NaN is on one side. With `folded` letters are equal whatever their case (IGNORECASE).
pub fn compare(
    left: &Value,
    right: &Value,
    convfmt: &Format,
    folded: Option<Charset>,
) -> Option<std::cmp::Ordering> {
    let order = |a: &[u8], b: &[u8]| match folded {
        None => a.cmp(b),
        Some(charset) => compare_folded(charset, a, b),
    };
    fn side(v: &Value) -> Side<'_> {
        match v {
            Value::Num(n) => Side::Num(*n),
            Value::Bool(b) => Side::Num(f64::from(u8::from(*b))),
            Value::Exact(n) => Side::Num(n.to_double()),
            Value::Regex(text) => Side::Text(text),
            Value::Uninit | Value::Unassigned | Value::Array(_) | Value::Link(_) => Side::Num(0.0),
            Value::Small(_) | Value::Long(..) => {
                let bytes = v.as_bytes().unwrap_or_default();
                if v.maybe_num()
                    && let Some(n) = looks_numeric(bytes)
                {
                    Side::Num(n)
                } else {
                    Side::Text(bytes)
                }
            }
        }
    }
    let as_text = |v: &Value, out: &mut Vec<u8>| v.append_to(convfmt, out);
    match (side(left), side(right)) {
        (Side::Num(a), Side::Num(b)) => match exact::rules() {
            None => a.partial_cmp(&b),
            Some(rules) => exact::compare_values(left, right, rules),
        },
        (Side::Text(a), Side::Text(b)) => Some(order(a, b)),
        (Side::Text(a), Side::Num(_)) => {
            let mut b = Vec::new();
            as_text(right, &mut b);
            Some(order(a, b.as_slice()))
        }
        (Side::Num(_), Side::Text(b)) => {
            let mut a = Vec::new();
            as_text(left, &mut a);
            Some(order(a.as_slice(), b))
        }
    }
}

/// As if all letters were small.
#[cold]
pub fn compare_folded(charset: Charset, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
    let (mut left, mut right) = (Vec::new(), Vec::new());
    crate::text::to_lower(charset, a, &mut left);
    crate::text::to_lower(charset, b, &mut right);
    left.cmp(&right)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_grow_in_place_when_nobody_shares_them() {
        let mut v = Value::text(b"0123456789012345678901234567890", true);
        assert!(v.grow(b"x"));
        assert!(!v.maybe_num());
        let shared = v.clone();
        assert!(!v.grow(b"y"));
        assert_eq!(shared.as_bytes().unwrap().last(), Some(&b'x'));
        let mut small = Value::text(b"ab", true);
        assert!(small.grow(b"cd"));
        assert_eq!(small.as_bytes(), Some(&b"abcd"[..]));
        assert!(!small.grow(&[b'z'; 30]));
    }

    #[test]
    fn numbers_and_numeric_strings_compare_as_numbers() {
        use std::cmp::Ordering::{Equal, Greater, Less};
        let f = Format::parse(b"%.6g");
        let (ten, nine) = (Value::text(b" 10 ", true), Value::text(b"9", true));
        assert_eq!(compare(&ten, &nine, &f, None), Some(Greater));
        assert_eq!(compare(&ten, &Value::Num(10.0), &f, None), Some(Equal));
        assert_eq!(
            compare(&Value::text(b"10", false), &Value::Num(9.0), &f, None),
            Some(Less)
        );
        assert_eq!(
            compare(&Value::Uninit, &Value::text(b"", false), &f, None),
            Some(Equal)
        );
        assert_eq!(
            compare(&Value::Uninit, &Value::Num(0.0), &f, None),
            Some(Equal)
        );
        assert_eq!(
            compare(&Value::Num(f64::NAN), &Value::Num(0.0), &f, None),
            None
        );
    }
}
