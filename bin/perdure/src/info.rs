//! `perdure info`: facts about a heap file, for people or (`--json`) for programs.

use crate::exit::Exit;
use crate::text;
use crate::{HeapArgs, Out};
use anyhow::{Context, Result};
use clap::Args;
use std::io::Write;

#[derive(Args)]
pub struct InfoArgs {
    #[command(flatten)]
    pub heap: HeapArgs,
    /// Print one JSON object: sizes in bytes, times in seconds since 1970 (null where there is none)
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &InfoArgs, out: &mut Out) -> Result<Exit> {
    let heap = crate::open(&args.heap.heap, args.heap.trust, heap::Verify::No)?;
    let facts = heap.facts().context("the heap has no file")?;
    let roots = heap.table_len(heap.roots()?)?;
    let live = heap.live_bytes()?;
    let uuid = uuid_text(&facts.uuid);
    let size = |bytes| text::size(bytes);
    let time = |s| (s != 0).then(|| text::time(s));
    if args.json {
        let or_null = |n: u64| {
            if n == 0 {
                "null".to_string()
            } else {
                n.to_string()
            }
        };
        let fields = [
            ("format", facts.format_version.to_string()),
            ("uuid", format!("\"{uuid}\"")),
            ("created_s", or_null(facts.created_s)),
            ("commits", facts.commits.to_string()),
            ("last_commit_s", or_null(facts.last_commit_s)),
            ("checkpoints", facts.generation.to_string()),
            ("size_bytes", facts.end_bytes.to_string()),
            ("limit_bytes", or_null(facts.limit_bytes)),
            ("file_bytes", facts.file_bytes.to_string()),
            ("disk_bytes", facts.file_allocated_bytes.to_string()),
            ("journal_file_bytes", facts.journal_file_bytes.to_string()),
            ("journal_used_bytes", facts.journal_used_bytes.to_string()),
            ("commits_pending", facts.commits_pending.to_string()),
            ("live_bytes", live.to_string()),
            ("roots", roots.to_string()),
        ];
        let lines: Vec<String> = fields
            .iter()
            .map(|(name, value)| format!("  \"{name}\": {value}"))
            .collect();
        writeln!(out, "{{\n{}\n}}", lines.join(",\n"))?;
        return Ok(Exit::Ok);
    }
    let last = match time(facts.last_commit_s) {
        Some(when) => when,
        None if facts.commits == 0 => "never".into(),
        None => "not known: it was before the last checkpoint or restart of the machine".into(),
    };
    let limit = match facts.limit_bytes {
        0 => "none".into(),
        limit => size(limit),
    };
    let pending = match facts.commits_pending {
        0 => "none: all are in the heap file".into(),
        n => format!("{n} wait in the journal"),
    };
    let rows = [
        ("heap", args.heap.heap.display().to_string()),
        ("format", facts.format_version.to_string()),
        ("uuid", uuid),
        (
            "created",
            time(facts.created_s).unwrap_or_else(|| "not known".into()),
        ),
        ("commits", facts.commits.to_string()),
        ("last commit", last),
        ("size", size(facts.end_bytes)),
        ("limit", limit),
        ("space on disk", size(facts.file_allocated_bytes)),
        (
            "journal",
            format!(
                "{}, {} in use",
                size(facts.journal_file_bytes),
                size(facts.journal_used_bytes)
            ),
        ),
        ("pending commits", pending),
        ("live data", size(live)),
        ("named roots", roots.to_string()),
    ];
    for (name, value) in rows {
        writeln!(out, "{name:<16} {value}")?;
    }
    Ok(Exit::Ok)
}

fn uuid_text(uuid: &[u8; 16]) -> String {
    let hex: Vec<String> = uuid.iter().map(|b| format!("{b:02x}")).collect();
    [&hex[..4], &hex[4..6], &hex[6..8], &hex[8..10], &hex[10..16]]
        .map(|part| part.concat())
        .join("-")
}
