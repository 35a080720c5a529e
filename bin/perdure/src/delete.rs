//! `perdure delete`: removes variables, arrays and functions by name.
//!
//! The invariant: all names of the command line go in one commit, or none does.

use crate::exit::Exit;
use crate::vars::{FUNCTIONS, GLOBALS};
use crate::{CannotOpen, Negative, Out};
use anyhow::Result;
use clap::Args;
use heap::{Durability, Heap, Options};
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Args)]
pub struct DeleteArgs {
    /// The heap file
    pub heap: PathBuf,
    /// The variables, arrays and functions to remove, by name
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<String>,
    /// Open it even if other users own or may write it
    #[arg(long)]
    pub trust: bool,
    /// How long to wait for a program that writes
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub lock_timeout: u64,
}

pub fn run(args: &DeleteArgs, out: &mut Out) -> Result<Exit> {
    let options = Options {
        create: false,
        trust: args.trust,
        lock_timeout: Duration::from_secs(args.lock_timeout),
        ..Options::writer()
    };
    let mut heap = Heap::open(&args.heap, options).map_err(CannotOpen)?;
    for (at, name) in args.names.iter().enumerate() {
        // A name that is given twice is removed once.
        if !remove(&mut heap, name)? && !args.names[..at].contains(name) {
            let shown = args.heap.display();
            return Err(Negative(format!(
                "heap \"{shown}\": there is no variable or function named {name}, so nothing was deleted; \
                 \"perdure vars {shown}\" lists what there is"
            ))
            .into());
        }
    }
    heap.commit(Durability::Durable).map_err(CannotOpen)?;
    heap.close(Durability::Durable).map_err(CannotOpen)?;
    writeln!(out, "deleted {}", args.names.join(" "))?;
    Ok(Exit::Ok)
}

/// Removes `name` wherever it is; false if it is nowhere.
fn remove(heap: &mut Heap, name: &str) -> heap::Result<bool> {
    let mut found = false;
    for root in [GLOBALS, FUNCTIONS] {
        if let Some(table) = heap.root_find(&String::from_utf8_lossy(root))? {
            found |= heap.remove(table, name.as_bytes())?;
        }
    }
    Ok(found)
}
