//! The debugger (`-D`): breakpoints, steps, watched variables, frames, for the person at the other end of `input`.
//!
//! Invariant: it stops only at marked places, between two statements; what its user evaluates runs unwatched.
//!
//! Source: gawk manual, "Debugging awk Programs": the same commands with the same answers.

use std::io::{BufRead, Write};

use awk_syntax::Span;

use crate::code::Event;
use crate::error::{Fatal, Step};
use crate::format::Format;
use crate::value::Value;
use crate::vm::{Phase, View, Vm, Watch};

mod commands;
mod evaluate;
mod stops;

use evaluate::{Parsed, Scope};
use stops::{Breakpoint, Mode, Watchpoint};

/// See the top of the file.
pub struct Debugger {
    input: Box<dyn BufRead>,
    output: Box<dyn Write>,
    breakpoints: Vec<Breakpoint>,
    watchpoints: Vec<Watchpoint>,
    displays: Vec<(u32, String)>,
    next_number: u32,
    mode: Mode,
    /// Source, line and mark of the place passed last.
    last: Option<(u32, usize, u32)>,
    /// The place where the run stands.
    here: Span,
    /// The frame that commands look at; 0 is the innermost.
    selected: usize,
    /// The frame that was shown last: its depth and function.
    shown: Option<(usize, Option<u32>)>,
    phase: Option<Phase>,
    listed: usize,
    running: bool,
    over: bool,
    tracing: bool,
    /// Somebody types the commands: there is a prompt.
    interactive: bool,
    /// Commands given so far, for `save`.
    history: Vec<String>,
    /// Commands that come before those of the input: of breakpoints and files.
    queued: Vec<String>,
}

impl Debugger {
    /// A debugger that reads its commands from `input` and answers on `output`; `interactive`: with a prompt.
    pub fn new(input: Box<dyn BufRead>, output: Box<dyn Write>, interactive: bool) -> Debugger {
        Debugger {
            input,
            output,
            breakpoints: Vec::new(),
            watchpoints: Vec::new(),
            displays: Vec::new(),
            next_number: 1,
            mode: Mode::Continue,
            last: None,
            here: Span::default(),
            selected: 0,
            shown: None,
            phase: None,
            listed: 0,
            running: false,
            over: false,
            tracing: false,
            interactive,
            history: Vec::new(),
            queued: Vec::new(),
        }
    }

    /// A line of the answer. A user who is not there any more gets none.
    fn say(&mut self, text: &str) {
        let _ = writeln!(self.output, "{text}");
        let _ = self.output.flush();
    }

    fn number(&mut self) -> u32 {
        self.next_number += 1;
        self.next_number - 1
    }

    /// The line that a span begins in.
    fn line(vm: &Vm<'_>, span: Span) -> usize {
        vm.program.sources.position(span).0
    }

    fn source_name(vm: &Vm<'_>, source: u32) -> String {
        vm.program.sources.get(source).name.clone()
    }

    /// A line of a source, numbered.
    fn numbered(vm: &Vm<'_>, source: u32, line: usize) -> Option<String> {
        let text = &vm.program.sources.get(source).text;
        let text = text.split(|b| *b == b'\n').nth(line.checked_sub(1)?)?;
        Some(format!("{line:<8}{}", String::from_utf8_lossy(text)))
    }

    /// `f(n, a, i)` or `main()`.
    fn frame_name(vm: &Vm<'_>, view: &View) -> String {
        match view.function {
            Some(n) => {
                let f = &vm.code.functions[n as usize];
                format!("{}({})", f.name, f.params.join(", "))
            }
            None => "main()".to_string(),
        }
    }

    fn frame_place(vm: &Vm<'_>, view: &View) -> String {
        format!(
            "{} at `{}':{}",
            Debugger::frame_name(vm, view),
            Debugger::source_name(vm, view.span.source),
            Debugger::line(vm, view.span)
        )
    }

    /// The frame that commands look at.
    fn view(&self, vm: &Vm<'_>) -> View {
        let views = vm.views(self.here);
        views[self.selected.min(views.len() - 1)]
    }

    /// A value as the debugger writes it.
    fn show(vm: &mut Vm<'_>, value: &Value) -> Step<String> {
        Ok(match value {
            Value::Uninit | Value::Link(_) => "untyped variable".to_string(),
            Value::Unassigned => "uninitialized scalar".to_string(),
            Value::Array(array) => {
                let count = vm.store.heap_of(*array)?.table_len(array.table)?;
                format!("array, {count} elements")
            }
            Value::Regex(text) => format!("@/{}/", String::from_utf8_lossy(text)),
            Value::Small(_) | Value::Long(..) => {
                let bytes = value.as_bytes().unwrap_or_default();
                if value.maybe_num() && crate::num::looks_numeric(bytes).is_some() {
                    String::from_utf8_lossy(bytes).into_owned()
                } else {
                    let mut out = Vec::new();
                    crate::vm::quoted(bytes, &mut out);
                    String::from_utf8_lossy(&out).into_owned()
                }
            }
            number => {
                let mut out = Vec::new();
                let all = Format::parse_in(b"%.17g", vm.settings.numbers);
                number.append_to(&all, &mut out);
                let short = vm.settings.text_of(number);
                // The shortest text that is the same number.
                let exact = crate::num::parse_prefix(&short) == number.to_num();
                String::from_utf8_lossy(if exact { &short } else { &out }).into_owned()
            }
        })
    }

    /// The value of an expression's text in the selected frame.
    fn evaluate(&mut self, vm: &mut Vm<'_>, text: &str) -> Step<Value> {
        let parsed = Parsed::statements(text).map_err(Fatal::new)?;
        let Some(e) = parsed.expression() else {
            return Err(Fatal::new("that is no expression"));
        };
        let view = self.view(vm);
        Scope {
            vm,
            view,
            parsed: &parsed,
            printed: Vec::new(),
        }
        .value(e)
    }

    /// Whether a condition holds; one that cannot be computed does.
    fn holds(&mut self, vm: &mut Vm<'_>, condition: Option<&str>) -> bool {
        let Some(condition) = condition else {
            return true;
        };
        self.selected = 0;
        match self.evaluate(vm, condition) {
            Ok(value) => value.truth(),
            Err(error) => {
                self.say(&format!("condition `{condition}': {error}"));
                true
            }
        }
    }

    /// Whether the run stops here, after having said why.
    fn stops(&mut self, vm: &mut Vm<'_>, place: (u32, usize), arrived: bool) -> bool {
        let depth = vm.depth();
        let mut stop = self.watched_change(vm);
        if arrived {
            stop |= self.breaks(vm, place);
            let (source, line) = place;
            let _ = source;
            match self.mode {
                Mode::Step(left) | Mode::Next(left, _) if left > 1 => {
                    let counts = !matches!(self.mode, Mode::Next(_, from) if depth > from);
                    if counts {
                        self.mode = match self.mode {
                            Mode::Next(left, from) => Mode::Next(left - 1, from),
                            _ => Mode::Step(left - 1),
                        };
                    }
                }
                Mode::Step(_) => stop = true,
                Mode::Next(_, from) => stop |= depth <= from,
                Mode::Finish(from) => stop |= depth < from,
                Mode::Until(from, after) => stop |= depth < from || (depth == from && line > after),
                Mode::Continue => {}
            }
        }
        stop
    }

    fn watched_change(&mut self, vm: &mut Vm<'_>) -> bool {
        let mut stop = false;
        for at in 0..self.watchpoints.len() {
            let watch = self.watchpoints[at].clone();
            self.selected = 0;
            let value = match self.evaluate(vm, &watch.text) {
                Ok(value) => Debugger::show(vm, &value).unwrap_or_default(),
                // Out of its scope it has no value.
                Err(_) => continue,
            };
            if value == watch.value {
                continue;
            }
            self.watchpoints[at].value.clone_from(&value);
            if self.holds(vm, watch.condition.as_deref()) {
                self.say(&format!("Watchpoint {}: {}", watch.number, watch.text));
                self.say(&format!("  Old value: {}", watch.value));
                self.say(&format!("  New value: {value}"));
                stop = true;
                self.shown = None;
            }
        }
        stop
    }

    fn breaks(&mut self, vm: &mut Vm<'_>, (source, line): (u32, usize)) -> bool {
        let mut stop = false;
        for at in 0..self.breakpoints.len() {
            let b = self.breakpoints[at].clone();
            let hit = b.enabled && b.source == source && b.line == line;
            if !hit || !self.holds(vm, b.condition.as_deref()) {
                continue;
            }
            self.breakpoints[at].hits += 1;
            if b.ignore > 0 {
                self.breakpoints[at].ignore -= 1;
                continue;
            }
            stop = true;
            let kind = if b.temporary {
                "Temporary breakpoint"
            } else {
                "Breakpoint"
            };
            let views = vm.views(self.here);
            self.announce_phase(vm);
            let place = Debugger::frame_place(vm, &views[0]);
            self.say(&format!("{kind} {}, {place}", b.number));
            self.shown = Some((vm.depth(), views[0].function));
            self.queued.extend(b.commands);
        }
        self.breakpoints.retain(|b| !(b.temporary && b.hits > 0));
        stop
    }

    fn announce_phase(&mut self, vm: &Vm<'_>) {
        if self.phase != Some(vm.phase) {
            self.phase = Some(vm.phase);
            let name = match vm.phase {
                Phase::Begin => "BEGIN",
                Phase::BeginFile => "BEGINFILE",
                Phase::Main => "Rule",
                Phase::EndFile => "ENDFILE",
                Phase::End => "END",
            };
            self.say(&format!("Stopping in {name} ..."));
        }
    }

    /// Says where the run stands, and takes commands until it is to go on.
    fn stand(&mut self, vm: &mut Vm<'_>) -> Step<()> {
        // What the program printed so far is to be seen before its debugger's words.
        vm.streams.flush_outputs();
        self.selected = 0;
        self.announce_phase(vm);
        let views = vm.views(self.here);
        let shown = Some((vm.depth(), views[0].function));
        if self.shown != shown {
            let place = Debugger::frame_place(vm, &views[0]);
            self.say(&place);
            self.shown = shown;
        }
        let line = Debugger::line(vm, self.here);
        if let Some(text) = Debugger::numbered(vm, self.here.source, line) {
            self.say(&text);
        }
        self.listed = line.saturating_sub(6);
        for (number, text) in self.displays.clone() {
            if let Ok(value) = self.evaluate(vm, &text)
                && let Ok(value) = Debugger::show(vm, &value)
            {
                self.say(&format!("{number}: {text} = {value}"));
            }
        }
        self.converse(vm)
    }
}

impl Watch for Debugger {
    fn begins(&mut self, vm: &mut Vm<'_>) -> Step<()> {
        if let Some(first) = vm.code.marks.iter().find(|m| m.event == Event::Statement) {
            self.here = first.span;
        }
        self.converse(vm)?;
        self.running = true;
        Ok(())
    }

    fn passes(&mut self, vm: &mut Vm<'_>, number: u32) -> Step<()> {
        let mark = vm.code.marks[number as usize];
        let line = Debugger::line(vm, mark.span);
        let place = (mark.span.source, line);
        if !matches!(mark.event, Event::Statement | Event::Condition) {
            // A loop that comes round arrives at its body's line anew.
            if mark.event == Event::Body {
                self.last = None;
            }
            return Ok(());
        }
        let arrived = match self.last {
            Some((source, last, before)) => (source, last) != place || number <= before,
            None => true,
        };
        self.last = Some((place.0, place.1, number));
        self.here = mark.span;
        if self.tracing
            && let Some(text) = Debugger::numbered(vm, place.0, line)
        {
            self.say(&text);
        }
        if self.stops(vm, place, arrived) {
            self.mode = Mode::Continue;
            self.stand(vm)?;
        }
        Ok(())
    }

    fn ends(&mut self, vm: &mut Vm<'_>, result: &Step<()>) {
        self.over = true;
        self.running = false;
        vm.streams.flush_outputs();
        match result {
            Ok(()) => {
                let status = vm.exit_code;
                self.say(&format!(
                    "Program exited normally with exit value: {status}"
                ));
            }
            Err(error) => match error.reason() {
                crate::error::Reason::Quit => return,
                _ => self.say(&format!("Program exited abnormally: {error}")),
            },
        }
        // Leaving now changes nothing more.
        let _ = self.converse(vm);
    }
}
