//! The bit functions on integers of any size.
//!
//! Invariant: arguments are not negative (gawk refuses them), results may be: `compl(0)` is -1.

use awk_syntax::names::Builtin;
use dashu_int::{IBig, Sign};

use super::arith::check_bits;
use super::{Exact, bit_length};
use crate::error::{Fatal, Step};

/// An argument, cut to an integer.
fn argument(name: &str, at: usize, n: &Exact) -> Step<IBig> {
    let refused = |what: &str| {
        Fatal::new(format!(
            "{name}: argument {} has {what}, which is not allowed",
            at + 1
        ))
    };
    let n = n
        .truncated()
        .ok_or_else(|| refused("an infinite value, or none"))?;
    if n.sign() == Sign::Negative && !n.is_zero() {
        return Err(refused(&format!("the negative value {n}")));
    }
    Ok(n)
}

/// `and`, `or`, `xor`, `compl`, `lshift`, `rshift`.
///
/// # Errors
/// A negative argument; too few of them; a result of too many bits.
pub fn function(which: Builtin, args: &[Exact]) -> Step<IBig> {
    let name = which.name();
    let args: Vec<IBig> = args
        .iter()
        .enumerate()
        .map(|(at, n)| argument(name, at, n))
        .collect::<Step<_>>()?;
    match (which, args.as_slice()) {
        (Builtin::Compl, [n]) => Ok(!n.clone()),
        (Builtin::Lshift | Builtin::Rshift, [n, by]) => {
            let by = usize::try_from(by).unwrap_or(usize::MAX);
            if which == Builtin::Rshift {
                let gone = by >= bit_length(n);
                return Ok(if gone { IBig::ZERO } else { n.clone() >> by });
            }
            check_bits(bit_length(n).saturating_add(by))?;
            Ok(n.clone() << by)
        }
        (_, [first, rest @ ..]) if !rest.is_empty() => {
            Ok(rest.iter().fold(first.clone(), |n, m| match which {
                Builtin::And => n & m,
                Builtin::Or => n | m,
                _ => n ^ m,
            }))
        }
        _ => Err(Fatal::new(format!("`{name}` takes two arguments or more"))),
    }
}
