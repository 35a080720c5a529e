//! `-fperdure-stats`: what became of each store, from the lines that the pass leaves in a file.

use crate::arguments::Arguments;
use anyhow::{Context, Result};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The columns: headings of three letters or more, and what they add up.
const COLUMNS: [(&str, &[&str]); 12] = [
    ("stores", &["seen"]),
    ("check", &["inline"]),
    ("merged", &["merged", "redundant"]),
    ("hoisted", &["hoisted"]),
    ("stack", &["stack"]),
    ("global", &["global", "segment"]),
    ("fresh", &["fresh"]),
    ("calls:marked", &["calls_marked"]),
    ("harmless", &["calls_harmless"]),
    ("seen", &["calls_seen"]),
    ("run-time", &["calls_run_time", "calls_indirect"]),
    ("unseen", &["calls_unseen"]),
];

/// Where the lines go.
pub enum Collection {
    None,
    /// A file of the user's, for other programs.
    Kept(PathBuf),
    /// A file of ours, for the table.
    Table(PathBuf),
}

impl Collection {
    /// # Errors
    /// When there is no place for a file of ours.
    pub fn new(arguments: &Arguments) -> Result<Collection> {
        Ok(match &arguments.stats {
            None => Collection::None,
            Some(Some(file)) => Collection::Kept(file.into()),
            Some(None) => {
                let name = format!("perdure-stats-{}", std::process::id());
                let path = std::env::temp_dir().join(name);
                std::fs::write(&path, "")
                    .with_context(|| format!("cannot write {}", path.display()))?;
                Collection::Table(path)
            }
        })
    }

    pub fn file(&self) -> Option<&Path> {
        match self {
            Collection::None => None,
            Collection::Kept(path) | Collection::Table(path) => Some(path),
        }
    }

    pub fn is_ours(&self) -> bool {
        matches!(self, Collection::Table(_))
    }

    /// Prints the table, and removes its file.
    ///
    /// # Errors
    /// When the file cannot be read, or holds something else.
    pub fn print(&self) -> Result<()> {
        let Collection::Table(path) = self else {
            return Ok(());
        };
        let text = std::fs::read_to_string(path);
        std::fs::remove_file(path).ok();
        let text = text.with_context(|| format!("cannot read {}", path.display()))?;
        let lines: Vec<Value> = text
            .lines()
            .map(serde_json::from_str)
            .collect::<serde_json::Result<_>>()
            .context("the pass left statistics that are no JSON")?;
        if !lines.is_empty() {
            eprint!("{}", table(&lines));
        }
        Ok(())
    }
}

fn table(lines: &[Value]) -> String {
    let mut rows = vec![COLUMNS.map(|(heading, _)| heading.to_owned()).to_vec()];
    rows[0].push("object".into());
    let mut sums = [0; COLUMNS.len()];
    for line in lines {
        let mut row = Vec::new();
        for ((_, parts), sum) in COLUMNS.iter().zip(&mut sums) {
            let count: u64 = parts.iter().filter_map(|part| line[*part].as_u64()).sum();
            *sum += count;
            row.push(count.to_string());
        }
        row.push(line["object"].as_str().unwrap_or("?").into());
        rows.push(row);
    }
    if lines.len() > 1 {
        let mut row: Vec<String> = sums.iter().map(u64::to_string).collect();
        row.push("sum".into());
        rows.push(row);
    }
    let widths: Vec<usize> = (0..COLUMNS.len())
        .map(|i| rows.iter().map(|row| row[i].len()).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for row in rows {
        for (cell, width) in row.iter().zip(&widths) {
            text.push_str(&format!("{cell:>width$}  "));
        }
        text.push_str(&row[COLUMNS.len()]);
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_table_adds_up() {
        let lines = [
            json!({"object": "a.c", "seen": 10, "inline": 7, "merged": 1, "redundant": 2, "stack": 0}),
            json!({"object": "b.c", "seen": 5, "inline": 1, "stack": 4}),
        ];
        let text = table(&lines);
        let sum: Vec<&str> = text
            .lines()
            .last()
            .expect("three rows")
            .split_whitespace()
            .collect();
        assert_eq!(sum[..5], ["15", "8", "3", "0", "4"]);
        assert_eq!(sum.last(), Some(&"sum"));
    }
}
