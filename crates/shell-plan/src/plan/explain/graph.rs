//! A plan as a drawing: a column for each machine, a box for each stage, arrows with what is expected to go along them.
//!
//! ```text
//!   here          lab           (columns)
//!                 [files]
//!                 [grep] [grep] (lanes side by side)
//!                 [ + ]         (put together)
//!   [sort] <------ 3 MB
//!   output
//! ```
//!
//! Invariant: the drawing needs nothing from outside, and its colours follow the reader's scheme, light or dark.

use super::{bytes, cut, machine, title};
use crate::annotation::Kind;
use crate::plan::volume::label;
use crate::plan::{Combiner, Facts, Group, Part, Place, Plan, Stdin, Stdout};

const BOX_WIDTH: f64 = 150.0;
const BOX_HEIGHT: f64 = 34.0;
const GAP: f64 = 24.0;
const ROW: f64 = 76.0;
const TOP: f64 = 96.0;
/// Lanes of one host that are drawn; the rest is told by a number.
const LANES_DRAWN: usize = 4;

const STYLE: &str = "\
.g text{font:12px ui-sans-serif,system-ui,sans-serif;text-anchor:middle}.g .dim{font-size:11px}.g .left{text-anchor:start}\
.g .head{font-weight:600}.g path{fill:none;stroke-width:1.4}.g .arrow{marker-end:url(#tip)}\
.g .column{fill:none;stroke-dasharray:3 5;stroke-opacity:.5}.g .data{fill:none;stroke-dasharray:4 3}\
.g text{fill:#1d2733}.g .dim{fill:#5b6774}.g .back{fill:#ffffff}\
.g path,.g .column,.g .here,.g .far,.g .join,.g .data{stroke:#8a96a3}.g .tip{fill:#8a96a3;stroke:none}\
.g .here{fill:#eef1f4}.g .far{fill:#dff0e6}.g .join{fill:#fdf0d5}\
@media (prefers-color-scheme:dark){.g text{fill:#e6ebf0}.g .dim{fill:#a3aebb}.g .back{fill:#14191f}\
.g path,.g .column,.g .here,.g .far,.g .join,.g .data{stroke:#76828f}.g .tip{fill:#76828f;stroke:none}\
.g .here{fill:#2b333c}.g .far{fill:#1f4030}.g .join{fill:#4a3c1c}}";

/// A box that was drawn: the middle of its upper and lower edge.
#[derive(Clone, Copy)]
struct Drawn {
    x: f64,
    top: f64,
    bottom: f64,
}

struct Canvas<'f, 'a> {
    facts: &'f Facts<'a>,
    /// For each machine that is drawn: its left edge and its width.
    columns: Vec<(Place, f64, f64)>,
    shapes: String,
    arrows: String,
    /// Texts beside arrows, above all of these.
    labels: String,
    row: usize,
}

/// The plan as an SVG document.
pub fn svg(facts: &Facts<'_>, plan: &Plan) -> String {
    let columns = columns(facts, plan);
    let width = columns
        .last()
        .map_or(300.0, |(_, left, width)| left + width + GAP)
        .max(480.0);
    let mut canvas = Canvas {
        facts,
        columns,
        shapes: String::new(),
        arrows: String::new(),
        labels: String::new(),
        row: 0,
    };
    canvas.everything(plan);
    let height = TOP + ROW * canvas.row as f64 + 10.0;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\" class=\"g\" role=\"img\">\n\
         <title>{0}</title>\n<style>{STYLE}</style>\n\
         <defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\"><path class=\"tip\" d=\"M0 0L8 4L0 8z\"/></marker></defs>\n\
         <rect class=\"back\" width=\"{width:.0}\" height=\"{height:.0}\"/>\n\
         <text class=\"head left\" x=\"{GAP}\" y=\"24\">{1}</text>\n\
         <text class=\"dim left\" x=\"{GAP}\" y=\"42\">{2}</text>\n",
        escaped(&title(facts, plan)),
        escaped(&cut(
            &crate::plan::choose::pipeline(facts),
            (width / 7.0) as usize
        )),
        escaped(&format!(
            "expected: {}; all here: {}",
            super::cost(plan.cost),
            super::cost(plan.here)
        )),
    );
    for (place, left, width) in &canvas.columns {
        text.push_str(&format!(
            "<rect class=\"column\" x=\"{left:.0}\" y=\"56\" width=\"{width:.0}\" height=\"{:.0}\" rx=\"8\"/>\
             <text class=\"head\" x=\"{:.0}\" y=\"76\">{}</text>\n",
            height - 66.0,
            left + width / 2.0,
            escaped(&cut(&machine(facts, *place), 24)),
        ));
    }
    text.push_str(&canvas.shapes);
    text.push_str(&canvas.arrows);
    text.push_str(&canvas.labels);
    text.push_str("</svg>\n");
    text
}

/// The machines that the plan has to do with, this one first, each as wide as its lanes need.
fn columns(facts: &Facts<'_>, plan: &Plan) -> Vec<(Place, f64, f64)> {
    let mut places = vec![Place::Here];
    let of_files = facts
        .stages
        .iter()
        .flat_map(|stage| stage.files.iter().map(|named| named.at));
    let of_groups = plan.groups.iter().flat_map(|group| {
        let lanes = group.lanes.iter().map(|lane| Place::Host(lane.host));
        lanes.chain([group.place])
    });
    for place in of_files.chain(of_groups) {
        if !places.contains(&place) {
            places.push(place);
        }
    }
    places.sort_unstable();
    let mut left = GAP;
    places
        .into_iter()
        .map(|place| {
            let lanes = plan
                .groups
                .iter()
                .map(|group| lanes_at(group, place).len().min(LANES_DRAWN + 1));
            let count = lanes.max().unwrap_or(1).max(1) as f64;
            let width = count * (BOX_WIDTH + 14.0) + 14.0;
            let column = (place, left, width);
            left += width + GAP;
            column
        })
        .collect()
}

/// The lanes of a group on a machine, by number.
fn lanes_at(group: &Group, place: Place) -> Vec<usize> {
    let lanes = group.lanes.iter().enumerate();
    lanes
        .filter(|(_, lane)| Place::Host(lane.host) == place)
        .map(|(number, _)| number)
        .collect()
}

impl Canvas<'_, '_> {
    fn everything(&mut self, plan: &Plan) {
        let mut before: Vec<(Drawn, f64)> = Vec::new();
        let mut k = 0;
        while k < self.facts.stages.len() {
            let group = plan.groups.iter().find(|group| group.stages.start == k);
            match group {
                Some(group) if group.lanes.len() > 1 => {
                    before = self.lanes(plan, group);
                    k = group.lanes_end;
                }
                _ => {
                    let at = plan.stages[k].at.first().copied().unwrap_or(Place::Here);
                    before = self.stage(plan, k, at, &before);
                    k += 1;
                }
            }
        }
        let Some(last) = self.facts.stages.last() else {
            return;
        };
        let (at, what) = match &last.stdout {
            Stdout::File(file) => (file.at, "output file"),
            Stdout::Terminal => (Place::Here, "terminal"),
            Stdout::Stage | Stdout::Other => (Place::Here, "output"),
        };
        let x = self.middle(at);
        let end = self.plain(x, what);
        for (from, count) in before {
            self.arrow(from, end, Some(count));
        }
        self.row += 1;
    }

    fn column(&self, place: Place) -> (f64, f64) {
        let found = self.columns.iter().find(|(at, ..)| *at == place);
        found.map_or((GAP, BOX_WIDTH), |(_, left, width)| (*left, *width))
    }

    fn middle(&self, place: Place) -> f64 {
        let (left, width) = self.column(place);
        left + width / 2.0
    }

    fn y(&self) -> f64 {
        TOP + ROW * self.row as f64
    }

    /// A stage that runs once.
    fn stage(
        &mut self,
        plan: &Plan,
        k: usize,
        at: Place,
        before: &[(Drawn, f64)],
    ) -> Vec<(Drawn, f64)> {
        let stage = &self.facts.stages[k];
        let reads = stage.call.as_ref().map_or(true, |call| call.stdin);
        let files = self.files(k);
        if !files.is_empty() {
            let drawn: Vec<(Drawn, f64)> = files
                .iter()
                .map(|(place, what, count)| (self.data(*place, what), *count))
                .collect();
            self.row += 1;
            let target = self.command(self.middle(at), at, &label(stage));
            for (from, count) in drawn {
                self.arrow(from, target, Some(count));
            }
            if reads {
                for &(from, count) in before {
                    self.arrow(from, target, Some(count));
                }
            }
            self.row += 1;
            return vec![(target, plan.stages[k].output_bytes)];
        }
        let target = self.command(self.middle(at), at, &label(stage));
        for &(from, count) in before.iter().filter(|_| reads) {
            self.arrow(from, target, Some(count));
        }
        self.row += 1;
        vec![(target, plan.stages[k].output_bytes)]
    }

    /// Stages in lanes, and the box in which they come together.
    fn lanes(&mut self, plan: &Plan, group: &Group) -> Vec<(Drawn, f64)> {
        let places: Vec<Place> = self.columns.iter().map(|(place, ..)| *place).collect();
        let mut ends = Vec::new();
        let mut lowest = self.row;
        let first_row = self.row;
        let input = plan.stages[group.stages.start].input_bytes;
        for place in places {
            let lanes = lanes_at(group, place);
            if lanes.is_empty() {
                continue;
            }
            self.row = first_row;
            let (left, width) = self.column(place);
            let what = match group.lanes[lanes[0]].part {
                Part::Operands(_) => {
                    let words = lanes.iter().map(|&lane| match &group.lanes[lane].part {
                        Part::Operands(words) => words.len(),
                        _ => 1,
                    });
                    files_text(words.sum())
                }
                _ => "one file, by lines".to_owned(),
            };
            let source = self.data(place, &what);
            self.row += 1;
            let drawn = lanes.len().min(LANES_DRAWN);
            let columns = if lanes.len() > LANES_DRAWN {
                drawn + 1
            } else {
                drawn
            };
            let step = width / columns as f64;
            for (number, &lane) in lanes.iter().take(drawn).enumerate() {
                self.row = first_row + 1;
                let x = left + step * (number as f64 + 0.5);
                let mut above = source;
                let mut count = Some(input * group.lanes[lane].share);
                for k in group.stages.start..group.lanes_end {
                    let target = self.command(x, place, &label(&self.facts.stages[k]));
                    self.arrow(above, target, count);
                    above = target;
                    count = Some(plan.stages[k].output_bytes * group.lanes[lane].share);
                    self.row += 1;
                }
                ends.push((above, group.lanes[lane].output_bytes));
            }
            if lanes.len() > drawn {
                self.row = first_row + 1;
                let x = left + step * (drawn as f64 + 0.5);
                let more = self.plain(x, &format!("and {} more", lanes.len() - drawn));
                self.arrow(source, more, None);
                self.row = first_row + 1 + (group.lanes_end - group.stages.start);
                ends.push((more, 0.0));
            }
            lowest = lowest.max(self.row);
        }
        self.row = lowest;
        let what = match group.combine.as_ref().map(|combining| &combining.combiner) {
            None | Some(Combiner::Concat | Combiner::Text | Combiner::Lines) => {
                "one behind the other"
            }
            Some(Combiner::Sum { .. } | Combiner::Sums { .. }) => "numbers added",
            Some(Combiner::Merge(_)) => "merged",
            Some(Combiner::Uniq) => "equal lines made one",
            Some(Combiner::UniqCount | Combiner::Counts { .. }) => "counts added",
            Some(Combiner::Again(_)) => "the same command again",
            Some(Combiner::First) => "the first that prints",
        };
        let join = self.boxed(self.middle(group.place), "join", what);
        for (from, count) in ends {
            self.arrow(from, join, (count > 0.0).then_some(count));
        }
        self.row += 1;
        vec![(join, plan.stages[group.lanes_end - 1].output_bytes)]
    }

    /// Where a stage's data are: each machine, and how much.
    fn files(&self, k: usize) -> Vec<(Place, String, f64)> {
        let stage = &self.facts.stages[k];
        let mut list: Vec<(Place, usize, f64)> = Vec::new();
        let Ok(call) = &stage.call else {
            return Vec::new();
        };
        let mut add = |place: Place, count: f64| match list.iter_mut().find(|(at, ..)| *at == place)
        {
            Some(row) => {
                row.1 += 1;
                row.2 += count;
            }
            None => list.push((place, 1, count)),
        };
        for (named, file) in stage.files.iter().zip(&call.files) {
            if file.kind != Kind::Output && file.kind != Kind::Scratch {
                add(named.at, named.size_bytes as f64);
            }
        }
        if let Stdin::File { file, offset } = &stage.stdin
            && call.stdin
        {
            add(file.at, file.size_bytes.saturating_sub(*offset) as f64);
        }
        list.into_iter()
            .map(|(at, files, count)| (at, files_text(files), count))
            .collect()
    }

    fn command(&mut self, x: f64, at: Place, text: &str) -> Drawn {
        self.boxed(x, if at == Place::Here { "here" } else { "far" }, text)
    }

    fn data(&mut self, at: Place, text: &str) -> Drawn {
        let x = self.middle(at);
        self.boxed(x, "data", text)
    }

    fn boxed(&mut self, x: f64, class: &str, text: &str) -> Drawn {
        let top = self.y();
        self.shapes.push_str(&format!(
            "<rect class=\"{class}\" x=\"{:.1}\" y=\"{top:.1}\" width=\"{BOX_WIDTH}\" height=\"{BOX_HEIGHT}\" rx=\"5\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\">{}</text>\n",
            x - BOX_WIDTH / 2.0,
            top + BOX_HEIGHT / 2.0 + 4.0,
            escaped(&cut(text, 20)),
        ));
        Drawn {
            x,
            top,
            bottom: top + BOX_HEIGHT,
        }
    }

    /// Text without a box.
    fn plain(&mut self, x: f64, text: &str) -> Drawn {
        let top = self.y();
        self.shapes.push_str(&format!(
            "<text class=\"dim\" x=\"{x:.1}\" y=\"{:.1}\">{}</text>\n",
            top + BOX_HEIGHT / 2.0 + 4.0,
            escaped(text),
        ));
        Drawn {
            x,
            top: top + 6.0,
            bottom: top + BOX_HEIGHT - 6.0,
        }
    }

    fn arrow(&mut self, from: Drawn, to: Drawn, count: Option<f64>) {
        let (y0, y1) = (from.bottom + 1.0, to.top - 2.0);
        let bend = (y1 - y0) / 2.0;
        self.arrows.push_str(&format!(
            "<path class=\"arrow\" d=\"M{:.1} {y0:.1}C{:.1} {:.1} {:.1} {:.1} {:.1} {y1:.1}\"/>\n",
            from.x,
            from.x,
            y0 + bend,
            to.x,
            y1 - bend,
            to.x,
        ));
        if let Some(count) = count {
            // Nearer to where it comes from, so that labels of arrows that meet stay apart.
            let x = from.x + (to.x - from.x) * 0.3;
            let y = y0 + (y1 - y0) * 0.36 + 4.0;
            let text = bytes(count);
            let width = 6.4 * text.chars().count() as f64 + 6.0;
            self.labels.push_str(&format!(
                "<rect class=\"back\" x=\"{:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"14\"/>\
                 <text class=\"dim\" x=\"{x:.1}\" y=\"{y:.1}\">{text}</text>\n",
                x - width / 2.0,
                y - 11.0,
            ));
        }
    }
}

/// A number of files, in words.
fn files_text(count: usize) -> String {
    if count == 1 {
        "a file".to_owned()
    } else {
        format!("{count} files")
    }
}

fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            // Nothing that XML has no way to say.
            c if (c as u32) < 0x20 || c == '\u{fffe}' || c == '\u{ffff}' => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}
