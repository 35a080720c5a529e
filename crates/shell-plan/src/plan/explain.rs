//! A plan, said to people: as text, and drawn.
//!
//! Invariant: what is shown is in the plan; nothing is computed again here.

use super::choose::pipeline;
use super::volume::label;
use super::{Cost, Facts, Place, Plan};

mod graph;

pub use graph::svg;

/// A number of bytes, short: `3.2 GB`.
pub fn bytes(count: f64) -> String {
    let units = ["kB", "MB", "GB", "TB"];
    if count < 1000.0 {
        return format!("{count:.0} B");
    }
    let mut value = count / 1000.0;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    let digits = usize::from(value < 9.95);
    format!("{value:.digits$} {}", units[unit])
}

/// A time, short: `41 s`, `0.12 s`, `3 ms`.
pub fn seconds(time: f64) -> String {
    match time {
        t if t < 0.0995 => format!("{:.0} ms", t * 1000.0),
        t if t < 0.995 => format!("{t:.2} s"),
        t if t < 9.95 => format!("{t:.1} s"),
        t if t < 600.0 => format!("{t:.0} s"),
        t => format!("{:.0} min", t / 60.0),
    }
}

fn cost(cost: Cost) -> String {
    format!(
        "{}, moves {}",
        seconds(cost.seconds),
        bytes(cost.moved_bytes)
    )
}

/// A machine's name.
fn machine(facts: &Facts<'_>, place: Place) -> String {
    match place {
        Place::Here => "here".to_owned(),
        Place::Host(host) => facts.hosts[host].name.clone(),
    }
}

/// A text of at most so many characters.
fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most.saturating_sub(1)).collect();
    format!("{kept}…")
}

/// What runs where and why, what it is expected to cost, and what was decided against; lines of text, the last with its end.
pub fn text(facts: &Facts<'_>, plan: &Plan) -> String {
    let rows: Vec<[String; 5]> = (facts.stages.iter().zip(&plan.stages).enumerate())
        .map(|(number, (stage, reason))| {
            let at: Vec<String> = reason
                .at
                .iter()
                .map(|&place| machine(facts, place))
                .collect();
            let at = if at.len() > 3 {
                format!("{} hosts", at.len())
            } else {
                at.join(", ")
            };
            [
                (number + 1).to_string(),
                cut(&label(stage), 40),
                at,
                format!(
                    "{} → {}",
                    bytes(reason.input_bytes),
                    bytes(reason.output_bytes)
                ),
                reason.why.clone(),
            ]
        })
        .collect();
    let mut widths = [0; 4];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in &rows {
        for (cell, width) in row.iter().zip(widths) {
            text.push_str(&format!("{cell:width$}  "));
        }
        text.push_str(&row[4]);
        text.push('\n');
    }
    text.push_str(&format!("expected: {}\n", cost(plan.cost)));
    for alternative in &plan.rejected {
        let costs = alternative
            .cost
            .map_or_else(String::new, |c| format!(" ({})", cost(c)));
        text.push_str(&format!(
            "not taken: {}{costs}: {}\n",
            alternative.what, alternative.why
        ));
    }
    text
}

/// What is said about a plan in one line.
pub fn title(facts: &Facts<'_>, plan: &Plan) -> String {
    format!("{}: {}", cut(&pipeline(facts), 100), cost(plan.cost))
}
