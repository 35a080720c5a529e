//! What `nearsh stats` prints.

use shell_exec::wire::Record;

/// A line for each pipeline, or part of one, that ran elsewhere: what it took, and behind that what had been expected.
pub fn text(records: &[Record]) -> String {
    if records.is_empty() {
        return "Nothing has run on another machine lately.\n".into();
    }
    // Lanes may be on several hosts.
    let names = records.iter().map(|record| record.host.chars().count());
    let width = names.max().unwrap_or(0).max(12);
    let mut text = format!(
        "{:<width$} {:>9} {:>10} {:>9} {:>10} {:>9} {:>9}  {}\n",
        "host", "seconds", "(expected)", "came", "(expected)", "went", "planned", "commands"
    );
    let seconds = |micros: u64| format!("{:.3}", micros as f64 / 1e6);
    for record in records {
        let commands = record.commands.join(" | ");
        text += &format!(
            "{:<width$} {:>9} {:>10} {:>9} {:>10} {:>9} {:>6.1} ms  {commands}",
            record.host,
            seconds(record.took),
            format!("({})", seconds(record.expected)),
            size(record.came),
            format!("({})", size(record.expected_came)),
            size(record.went),
            record.planned as f64 / 1e3,
        );
        if let Some(trouble) = &record.trouble {
            let what = if record.is_lost { "lost" } else { "here" };
            text += &format!(" ({what}: {trouble})");
        }
        text.push('\n');
    }
    text
}

/// Bytes for people, with three digits.
fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "kB", "MB", "GB"] {
        if value < 999.5 {
            return if unit == "B" || value >= 99.95 {
                format!("{value:.0} {unit}")
            } else {
                format!("{value:.1} {unit}")
            };
        }
        value /= 1000.0;
    }
    format!("{value:.1} TB")
}
