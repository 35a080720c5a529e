//! `perdure create`: makes an empty heap.

use crate::exit::Exit;
use crate::text;
use crate::{CannotOpen, Negative, Out};
use anyhow::Result;
use clap::Args;
use heap::{Durability, Heap, Options};
use std::io::Write;
use std::path::PathBuf;

#[derive(Args)]
pub struct CreateArgs {
    /// The heap file to make; its journal HEAP.journal and the sums of its pages HEAP.sums are made beside it
    pub heap: PathBuf,
    /// The largest size that it may grow to, such as 10M or 2G, at least 1M; without one it grows as far as the disk goes
    #[arg(long, value_name = "SIZE", value_parser = parse_limit)]
    pub limit: Option<u64>,
}

pub fn run(args: &CreateArgs, out: &mut Out) -> Result<Exit> {
    // A blank file made with `truncate -s` is there too, but is waiting to be used: pmawk makes it a heap by itself.
    if std::fs::symlink_metadata(&args.heap).is_ok() {
        let shown = args.heap.display();
        let why = format!(
            "\"{shown}\" exists already; it was left as it is: choose another name, or remove it first"
        );
        return Err(Negative(why).into());
    }
    let options = Options {
        limit_bytes: args.limit.unwrap_or(0),
        ..Options::writer()
    };
    let heap = Heap::open(&args.heap, options).map_err(CannotOpen)?;
    heap.close(Durability::Durable).map_err(CannotOpen)?;
    match args.limit {
        None => writeln!(out, "made {} (no limit)", args.heap.display())?,
        Some(limit) => writeln!(
            out,
            "made {} (limit {})",
            args.heap.display(),
            text::size(limit)
        )?,
    }
    Ok(Exit::Ok)
}

/// A size that a heap may have.
fn parse_limit(text: &str) -> Result<u64, String> {
    match parse_size(text)? {
        bytes if bytes < heap::LIMIT_BYTES_MIN => {
            Err("a heap needs more room; the smallest limit is 1M".into())
        }
        bytes => Ok(bytes),
    }
}

/// A size in bytes, with K, M, G or T for powers of 1024.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.char_indices().find(|(_, c)| !c.is_ascii_digit()) {
        Some((at, _)) => text.split_at(at),
        None => (text, ""),
    };
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        "t" | "tib" => 40,
        _ => {
            return Err(format!(
                "\"{unit}\" is no unit; write K, M, G or T, as in 10M"
            ));
        }
    };
    let count: u64 = digits
        .parse()
        .map_err(|_| "a whole number is wanted, as in 10M".to_string())?;
    count
        .checked_mul(1 << shift)
        .filter(|&bytes| bytes <= 1 << 40)
        .ok_or_else(|| "the largest heap is 1T".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        assert_eq!(parse_size("123"), Ok(123));
        assert_eq!(parse_size("10M"), Ok(10 << 20));
        assert_eq!(parse_size("2g"), Ok(2 << 30));
        assert_eq!(parse_size("1T"), Ok(1 << 40));
        for bad in ["", "M", "1.5G", "-1", "2T", "99999999999999999999", "3X"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }
}
