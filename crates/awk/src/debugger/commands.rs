//! The commands that the debugger's user gives.
//!
//! Invariant: a command that means nothing says why and changes nothing.

use std::io::{BufRead, Write};

use awk_syntax::ast::ExprKind;

use super::{Breakpoint, Debugger, Mode, Parsed, Scope, Watchpoint};
use crate::code::Event;
use crate::error::{Fatal, Step};
use crate::value::Value;
use crate::vm::Vm;

/// Name, how it is written, what it does; the first that begins with what was typed is meant.
const COMMANDS: [(&str, &str, &str); 39] = [
    (
        "backtrace",
        "backtrace [N]",
        "show all, or the N innermost, frames",
    ),
    (
        "break",
        "break [[FILE:]N | FUNCTION]",
        "stop at a line or a function",
    ),
    ("bt", "bt [N]", "the same as backtrace"),
    (
        "clear",
        "clear [[FILE:]N | FUNCTION]",
        "delete the breakpoints there",
    ),
    (
        "commands",
        "commands [N]",
        "what to do when breakpoint N stops; ends with `end`",
    ),
    (
        "continue",
        "continue [N]",
        "go on, and ignore the breakpoint N - 1 times",
    ),
    (
        "condition",
        "condition N [EXPR]",
        "breakpoint or watchpoint N stops only if EXPR is true",
    ),
    ("delete", "delete [N ...]", "delete breakpoints, or all"),
    ("disable", "disable [N ...]", "breakpoints stop no more"),
    (
        "display",
        "display [VAR]",
        "show a variable whenever the run stops",
    ),
    ("down", "down [N]", "look at the frame that was called"),
    ("dump", "dump [FILE]", "show the code that runs"),
    ("enable", "enable [N ...]", "breakpoints stop again"),
    ("eval", "eval \"STATEMENTS\"", "run statements of AWK"),
    ("exit", "exit", "the same as quit"),
    ("finish", "finish", "go on until the selected frame returns"),
    ("frame", "frame [N]", "look at frame N"),
    ("help", "help [COMMAND]", "show this"),
    (
        "ignore",
        "ignore N COUNT",
        "breakpoint N does not stop COUNT times",
    ),
    (
        "info",
        "info TOPIC",
        "args, break, display, frame, functions, locals, source, sources, variables, watch",
    ),
    (
        "list",
        "list [- | + | N | N-M | FUNCTION]",
        "show lines of the program",
    ),
    ("next", "next [N]", "go to the next line, through functions"),
    ("nexti", "nexti [N]", "the same as next"),
    (
        "print",
        "print VAR [, VAR ...]",
        "show variables, elements, fields, expressions",
    ),
    ("printf", "printf FORMAT, ARG ...", "show by a format"),
    (
        "quit",
        "quit",
        "leave; a program that has not ended commits nothing",
    ),
    (
        "return",
        "return [VALUE]",
        "make the innermost function return",
    ),
    ("run", "run", "start the program"),
    (
        "save",
        "save FILE",
        "write the commands given so far to a file",
    ),
    ("set", "set VAR = VALUE", "assign"),
    ("source", "source FILE", "take commands from a file"),
    (
        "step",
        "step [N]",
        "go to the next line, also into functions",
    ),
    ("stepi", "stepi [N]", "the same as step"),
    ("tbreak", "tbreak [[FILE:]N | FUNCTION]", "stop there once"),
    ("trace", "trace on|off", "show each line before it runs"),
    ("undisplay", "undisplay [N]", "show a variable no more"),
    (
        "until",
        "until [[FILE:]N | FUNCTION]",
        "go on to a later line of this frame, or to that place",
    ),
    ("unwatch", "unwatch [N]", "watch no more"),
    ("up", "up [N]", "look at the frame that called"),
];

/// Names of one or two letters that do not go to the first command that begins so.
const SHORT: [(&str, &str); 13] = [
    ("b", "break"),
    ("c", "continue"),
    ("d", "delete"),
    ("e", "enable"),
    ("h", "help"),
    ("i", "ignore"),
    ("l", "list"),
    ("n", "next"),
    ("p", "print"),
    ("q", "quit"),
    ("r", "run"),
    ("s", "step"),
    ("t", "tbreak"),
];

/// What a command leads to.
enum Next {
    /// Another command.
    Ask,
    /// The run goes on.
    Go,
}

impl Debugger {
    fn next_command(&mut self) -> Option<String> {
        if !self.queued.is_empty() {
            return Some(self.queued.remove(0));
        }
        let mut line = String::new();
        match self.input.read_line(&mut line) {
            Ok(n) if n > 0 => Some(line.trim().to_string()),
            _ => None,
        }
    }

    /// Takes commands until the run is to go on. The end of the commands is `quit`.
    pub(super) fn converse(&mut self, vm: &mut Vm<'_>) -> Step<()> {
        loop {
            if self.queued.is_empty() && self.interactive {
                let _ = write!(self.output, "pmawk> ");
                let _ = self.output.flush();
            }
            let Some(mut line) = self.next_command() else {
                return Err(Fatal::quit());
            };
            if line.is_empty() {
                // As in other debuggers, nothing is the last step once more.
                match self.history.last() {
                    Some(last) if self.running => line = last.clone(),
                    _ => continue,
                }
            }
            if line.starts_with('#') {
                continue;
            }
            self.history.push(line.clone());
            match self.command(vm, &line) {
                Ok(Next::Ask) => {}
                Ok(Next::Go) => return Ok(()),
                Err(error) if matches!(error.reason(), crate::error::Reason::Quit) => {
                    return Err(error);
                }
                Err(error) => self.say(&format!("error: {error}")),
            }
        }
    }

    fn command(&mut self, vm: &mut Vm<'_>, line: &str) -> Step<Next> {
        let end = line
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(line.len());
        let (word, rest) = (&line[..end], line[end..].trim());
        let name = match word {
            "where" => "backtrace",
            "watch" | "w" => "watch",
            word => {
                let short = SHORT.iter().find(|(short, _)| *short == word);
                let begun = || COMMANDS.iter().find(|(name, ..)| name.starts_with(word));
                match (short, begun()) {
                    (Some((_, name)), _) => name,
                    (None, Some((name, ..))) if !word.is_empty() => name,
                    _ => {
                        return Err(Fatal::new(format!(
                            "there is no command `{line}`; `help` lists them"
                        )));
                    }
                }
            }
        };
        let count = || rest.parse::<u64>().unwrap_or(1).max(1);
        match name {
            "help" => self.help(rest),
            "quit" | "exit" => return Err(Fatal::quit()),
            "run" => {
                if self.over {
                    return Err(Fatal::new("the program has ended; quit, and start it anew"));
                }
                if !self.running {
                    self.say("Starting program:");
                    return Ok(Next::Go);
                }
                return Err(Fatal::new("the program is running already"));
            }
            "break" | "tbreak" => self.add_breakpoint(vm, rest, name == "tbreak")?,
            "clear" => {
                let (source, line) = self.place(vm, rest)?;
                let before = self.breakpoints.len();
                self.breakpoints
                    .retain(|b| (b.source, b.line) != (source, line));
                let gone = before - self.breakpoints.len();
                self.say(&format!("Deleted {gone} breakpoint(s)"));
            }
            "delete" | "enable" | "disable" => self.change_breakpoints(name, rest)?,
            "ignore" => {
                let (n, times) = rest.split_once(' ').unwrap_or((rest, "0"));
                let times = times.trim().parse().unwrap_or(0);
                let b = self.breakpoint(n)?;
                b.ignore = times;
                let number = b.number;
                self.say(&format!(
                    "Will ignore next {times} crossing(s) of breakpoint {number}."
                ));
            }
            "condition" => self.condition(rest)?,
            "commands" => self.read_commands(rest)?,
            "watch" => self.watch(vm, rest)?,
            "unwatch" => match rest.parse::<u32>() {
                Ok(n) => self.watchpoints.retain(|w| w.number != n),
                Err(_) => self.watchpoints.clear(),
            },
            "display" => self.display(vm, rest)?,
            "undisplay" => match rest.parse::<u32>() {
                Ok(n) => self.displays.retain(|(number, _)| *number != n),
                Err(_) => self.displays.clear(),
            },
            "print" => self.print(vm, rest)?,
            "printf" | "eval" | "set" => self.run_statements(vm, name, rest)?,
            "list" => self.list(vm, rest)?,
            "info" => self.info(vm, rest)?,
            "backtrace" | "bt" => self.backtrace(vm, rest),
            "frame" | "up" | "down" => self.select(vm, name, rest)?,
            "dump" => {
                let text = vm.code.print();
                if rest.is_empty() {
                    self.say(&text);
                } else {
                    write_file(rest, &text)?;
                }
            }
            "trace" => self.tracing = rest == "on",
            "source" => {
                let text = std::fs::read_to_string(rest)
                    .map_err(|error| Fatal::new(format!("cannot read {rest:?}: {error}")))?;
                self.queued.extend(text.lines().map(str::to_string));
            }
            "save" => {
                let text: String = self
                    .history
                    .iter()
                    .map(|line| format!("{line}\n"))
                    .collect();
                write_file(rest, &text)?;
            }
            other => {
                if !self.running {
                    return Err(Fatal::new("the program is not running; `run` starts it"));
                }
                return self.go_on(vm, other, rest, count());
            }
        }
        Ok(Next::Ask)
    }

    /// Commands after which the run goes on.
    fn go_on(&mut self, vm: &mut Vm<'_>, name: &str, rest: &str, count: u64) -> Step<Next> {
        let depth = vm.depth();
        self.mode = match name {
            "step" | "stepi" => Mode::Step(count),
            "next" | "nexti" => Mode::Next(count, depth),
            "continue" => {
                let (source, line) = (self.here.source, Debugger::line(vm, self.here));
                for b in &mut self.breakpoints {
                    if (b.source, b.line) == (source, line) {
                        b.ignore += count - 1;
                    }
                }
                Mode::Continue
            }
            "finish" => {
                let from = depth - self.selected.min(depth);
                if from == 0 {
                    return Err(Fatal::new("`finish` means nothing outside a function"));
                }
                let view = self.view(vm);
                let place = Debugger::frame_place(vm, &view);
                self.say(&format!("Run until return from #{} {place}", self.selected));
                Mode::Finish(from)
            }
            "until" if rest.is_empty() => Mode::Until(depth, Debugger::line(vm, self.here)),
            "until" => {
                self.add_breakpoint(vm, rest, true)?;
                Mode::Continue
            }
            _ => {
                let value = if rest.is_empty() {
                    Value::Unassigned
                } else {
                    self.evaluate(vm, rest)?
                };
                vm.return_now(value)?;
                Mode::Step(1)
            }
        };
        Ok(Next::Go)
    }

    fn help(&mut self, rest: &str) {
        for (name, usage, what) in COMMANDS {
            if rest.is_empty() || name.starts_with(rest) {
                self.say(&format!("{usage:<36} {what}"));
            }
        }
        if rest.is_empty() || "watch".starts_with(rest) {
            self.say(&format!(
                "{:<36} {}",
                "watch VAR", "stop when a variable, element or field changes"
            ));
        }
    }

    /// The source and line that `[FILE:]N` or a function's name means; nothing: here.
    fn place(&self, vm: &Vm<'_>, text: &str) -> Step<(u32, usize)> {
        if text.is_empty() {
            return Ok((self.here.source, Debugger::line(vm, self.here)));
        }
        let (file, rest) = match text.rsplit_once(':') {
            Some((file, rest)) if !file.ends_with(':') => (Some(file), rest),
            _ => (None, text),
        };
        let sources = &vm.program.sources;
        let source = match file {
            None => self.here.source,
            Some(file) => {
                let mut all = 0..sources.len() as u32;
                let found = all.find(|n| {
                    let name = &sources.get(*n).name;
                    name == file || name.ends_with(&format!("/{file}"))
                });
                found.ok_or_else(|| Fatal::new(format!("there is no source `{file}`")))?
            }
        };
        let wanted = match rest.parse::<usize>() {
            Ok(line) => line,
            Err(_) => return self.function_place(vm, rest),
        };
        // The first line from there on that has a statement.
        let marks = vm.code.marks.iter();
        let lines = marks
            .filter(|m| matches!(m.event, Event::Statement | Event::Condition))
            .filter(|m| m.span.source == source)
            .map(|m| Debugger::line(vm, m.span));
        let line = lines.filter(|line| *line >= wanted).min();
        line.map(|line| (source, line)).ok_or_else(|| {
            Fatal::new(format!(
                "line {wanted} of `{}': there is nothing to stop at",
                Debugger::source_name(vm, source)
            ))
        })
    }

    fn function_place(&self, vm: &Vm<'_>, name: &str) -> Step<(u32, usize)> {
        let Some(&number) = vm.code.function_numbers.get(name) else {
            return Err(Fatal::new(format!("there is no function `{name}`")));
        };
        let span = vm.program.functions[number as usize].function.span;
        let inside = |s: awk_syntax::Span| {
            s.source == span.source && s.start >= span.start && s.end <= span.end
        };
        let marks = vm.code.marks.iter();
        let first = marks
            .filter(|m| m.event == Event::Statement && inside(m.span))
            .min_by_key(|m| m.span.start);
        first
            .map(|m| (m.span.source, Debugger::line(vm, m.span)))
            .ok_or_else(|| Fatal::new(format!("function `{name}` has no statements")))
    }

    fn add_breakpoint(&mut self, vm: &Vm<'_>, text: &str, temporary: bool) -> Step<()> {
        // `break PLACE EXPR`: with a condition.
        let (text, condition) = match text.split_once(' ') {
            Some((place, condition)) => (place, Some(unquoted(condition))),
            None => (text, None),
        };
        let (source, line) = self.place(vm, text)?;
        let number = self.number();
        self.breakpoints.push(Breakpoint {
            number,
            source,
            line,
            enabled: true,
            temporary,
            condition,
            ignore: 0,
            hits: 0,
            commands: Vec::new(),
        });
        let kind = if temporary {
            "Temporary breakpoint"
        } else {
            "Breakpoint"
        };
        let file = Debugger::source_name(vm, source);
        self.say(&format!(
            "{kind} {number} set at file `{file}', line {line}"
        ));
        Ok(())
    }

    fn breakpoint(&mut self, number: &str) -> Step<&mut Breakpoint> {
        let n: Option<u32> = number.trim().parse().ok();
        let found = self.breakpoints.iter_mut().find(|b| Some(b.number) == n);
        found.ok_or_else(|| Fatal::new(format!("there is no breakpoint {number}")))
    }

    fn change_breakpoints(&mut self, name: &str, rest: &str) -> Step<()> {
        let rest = rest.strip_prefix("breakpoints").unwrap_or(rest);
        let mut numbers = Vec::new();
        for word in rest.split_whitespace() {
            let (low, high) = word.split_once('-').unwrap_or((word, word));
            match (low.parse::<u32>(), high.parse::<u32>()) {
                (Ok(low), Ok(high)) => numbers.push(low..=high),
                _ => return Err(Fatal::new(format!("`{word}` is no number of a breakpoint"))),
            }
        }
        let meant = |b: &Breakpoint| {
            numbers.is_empty() || numbers.iter().any(|range| range.contains(&b.number))
        };
        if name == "delete" {
            self.breakpoints.retain(|b| !meant(b));
        } else {
            for b in self.breakpoints.iter_mut().filter(|b| meant(b)) {
                b.enabled = name == "enable";
            }
        }
        Ok(())
    }

    fn condition(&mut self, rest: &str) -> Step<()> {
        let (number, text) = rest.split_once(' ').unwrap_or((rest, ""));
        let text = unquoted(text);
        let condition = if text.is_empty() {
            None
        } else {
            Parsed::statements(&text).map_err(Fatal::new)?;
            Some(text)
        };
        let n: Option<u32> = number.parse().ok();
        if let Some(watch) = self.watchpoints.iter_mut().find(|w| Some(w.number) == n) {
            watch.condition = condition;
            return Ok(());
        }
        self.breakpoint(number)?.condition = condition;
        Ok(())
    }

    fn read_commands(&mut self, rest: &str) -> Step<()> {
        let mut lines = Vec::new();
        while let Some(line) = self.next_command() {
            if line == "end" {
                break;
            }
            if line != "silent" {
                lines.push(line);
            }
        }
        let last = self.breakpoints.last().map(|b| b.number.to_string());
        let number = if rest.is_empty() {
            last.unwrap_or_default()
        } else {
            rest.to_string()
        };
        self.breakpoint(&number)?.commands = lines;
        Ok(())
    }

    fn watch(&mut self, vm: &mut Vm<'_>, text: &str) -> Step<()> {
        let value = self.evaluate(vm, text)?;
        let value = Debugger::show(vm, &value)?;
        let number = self.number();
        self.say(&format!("Watchpoint {number}: {text}"));
        self.watchpoints.push(Watchpoint {
            number,
            text: text.to_string(),
            value,
            condition: None,
        });
        Ok(())
    }

    fn display(&mut self, vm: &mut Vm<'_>, text: &str) -> Step<()> {
        if text.is_empty() {
            for (number, text) in self.displays.clone() {
                self.say(&format!("{number}: {text}"));
            }
            return Ok(());
        }
        let value = self.evaluate(vm, text)?;
        let value = Debugger::show(vm, &value)?;
        let number = self.number();
        self.displays.push((number, text.to_string()));
        self.say(&format!("{number}: {text} = {value}"));
        Ok(())
    }

    fn print(&mut self, vm: &mut Vm<'_>, rest: &str) -> Step<()> {
        for text in split_list(rest) {
            let parsed = Parsed::statements(&text).map_err(Fatal::new)?;
            let Some(e) = parsed.expression() else {
                return Err(Fatal::new(format!("`{text}` is no expression")));
            };
            let view = self.view(vm);
            let mut scope = Scope {
                vm,
                view,
                parsed: &parsed,
                printed: Vec::new(),
            };
            let value = scope.value(e)?;
            // An element is shown with its key as it is.
            let name = match &e.kind {
                ExprKind::Index { array, subs } if array.path.is_empty() => {
                    let key = scope.key(subs)?;
                    let open = text.find('[').unwrap_or(text.len());
                    format!("{}[\"{}\"]", &text[..open], String::from_utf8_lossy(&key))
                }
                _ => text.clone(),
            };
            if let Value::Array(array) = value {
                self.print_elements(vm, &name, array)?;
                continue;
            }
            let missing = matches!(&e.kind, ExprKind::Field(_))
                && value.maybe_num()
                && value.as_bytes() == Some(b"");
            let shown = if missing {
                "uninitialized field".to_string()
            } else {
                Debugger::show(vm, &value)?
            };
            self.say(&format!("{name} = {shown}"));
        }
        Ok(())
    }

    fn print_elements(
        &mut self,
        vm: &mut Vm<'_>,
        name: &str,
        array: crate::value::ArrayRef,
    ) -> Step<()> {
        let pairs = vm.pairs(array)?;
        if pairs.is_empty() {
            self.say(&format!("array `{name}' is empty"));
        }
        for (key, value) in pairs {
            let element = format!("{name}[\"{}\"]", String::from_utf8_lossy(&key));
            match value {
                Value::Array(inner) => self.print_elements(vm, &element, inner)?,
                value => {
                    let shown = Debugger::show(vm, &value)?;
                    self.say(&format!("{element} = {shown}"));
                }
            }
        }
        Ok(())
    }

    fn run_statements(&mut self, vm: &mut Vm<'_>, name: &str, rest: &str) -> Step<()> {
        let text = match name {
            "printf" => format!("printf {rest}"),
            "eval" => unquoted(rest),
            _ => rest.to_string(),
        };
        let parsed = Parsed::statements(&text).map_err(Fatal::new)?;
        let view = self.view(vm);
        let mut scope = Scope {
            vm,
            view,
            parsed: &parsed,
            printed: Vec::new(),
        };
        scope.run()?;
        let printed = std::mem::take(&mut scope.printed);
        let _ = self.output.write_all(&printed);
        let _ = self.output.flush();
        if name == "set"
            && let Some((variable, _)) = rest.split_once('=')
        {
            let variable = variable.trim().to_string();
            return self.print(vm, &variable);
        }
        Ok(())
    }

    fn list(&mut self, vm: &Vm<'_>, rest: &str) -> Step<()> {
        const LINES: usize = 15;
        let source = self.here.source;
        let (from, to) = if rest.is_empty() || rest == "+" {
            (self.listed + 1, self.listed + LINES)
        } else if rest == "-" {
            let to = self.listed.saturating_sub(LINES);
            (to.saturating_sub(LINES) + 1, to)
        } else if let Some((from, to)) = rest.split_once('-')
            && let (Ok(from), Ok(to)) = (from.trim().parse(), to.trim().parse())
        {
            (from, to)
        } else if let Ok(line) = rest.parse::<usize>() {
            let from = line.saturating_sub(LINES / 2).max(1);
            (from, from + LINES - 1)
        } else {
            let (_, line) = self.function_place(vm, rest)?;
            let from = line.saturating_sub(LINES / 2).max(1);
            (from, from + LINES - 1)
        };
        for line in from.max(1)..=to {
            let Some(text) = Debugger::numbered(vm, source, line) else {
                break;
            };
            self.say(&text);
            self.listed = line;
        }
        Ok(())
    }

    fn backtrace(&mut self, vm: &Vm<'_>, rest: &str) {
        let views = vm.views(self.here);
        let all = views.len() as i64;
        let (from, to) = match rest.parse::<i64>() {
            Ok(n) if n > 0 => (0, n.min(all)),
            Ok(n) if n < 0 => ((all + n).max(0), all),
            _ => (0, all),
        };
        for at in from..to {
            let place = Debugger::frame_place(vm, &views[at as usize]);
            let link = if at == 0 { "\t " } else { "\tin " };
            self.say(&format!("#{at}{link}{place}"));
        }
    }

    fn select(&mut self, vm: &Vm<'_>, name: &str, rest: &str) -> Step<()> {
        let views = vm.views(self.here);
        let n = rest.parse::<usize>();
        let wanted = match name {
            "up" => Some(self.selected + n.unwrap_or(1)),
            "down" => self.selected.checked_sub(n.unwrap_or(1)),
            _ => Some(n.unwrap_or(self.selected)),
        };
        let Some(wanted) = wanted.filter(|wanted| *wanted < views.len()) else {
            return Err(Fatal::new("there is no such frame"));
        };
        self.selected = wanted;
        let view = views[wanted];
        let link = if wanted == 0 { "\t " } else { "\tin " };
        let place = Debugger::frame_place(vm, &view);
        self.say(&format!("#{wanted}{link}{place}"));
        if let Some(text) = Debugger::numbered(vm, view.span.source, Debugger::line(vm, view.span))
        {
            self.say(&text);
        }
        Ok(())
    }

    fn info(&mut self, vm: &mut Vm<'_>, topic: &str) -> Step<()> {
        match topic {
            "args" | "locals" => {
                let view = self.view(vm);
                let Some(number) = view.function else {
                    return Err(Fatal::new("no function is running"));
                };
                // AWK does not tell parameters and local variables apart.
                for name in vm.code.functions[number as usize].params.clone() {
                    let value = vm.look_up(&view, &name)?;
                    let shown = Debugger::show(vm, &value)?;
                    self.say(&format!("{name} = {shown}"));
                }
            }
            "break" | "b" => {
                self.say("Number  Disp  Enabled  Location\n");
                for b in self.breakpoints.clone() {
                    let disp = if b.temporary { "del" } else { "keep" };
                    let enabled = if b.enabled { "yes" } else { "no" };
                    let file = Debugger::source_name(vm, b.source);
                    self.say(&format!(
                        "{:<7} {disp:<5} {enabled:<8} file {file}, line #{}",
                        b.number, b.line
                    ));
                    if b.hits > 0 {
                        self.say(&format!("\tno of hits = {}", b.hits));
                    }
                    if let Some(condition) = b.condition {
                        self.say(&format!("\tstop condition: {condition}"));
                    }
                    if b.ignore > 0 {
                        self.say(&format!("\tignore next {} hit(s)", b.ignore));
                    }
                }
            }
            "watch" => {
                for w in self.watchpoints.clone() {
                    self.say(&format!("{}: {} = {}", w.number, w.text, w.value));
                }
            }
            "display" => {
                for (number, text) in self.displays.clone() {
                    self.say(&format!("{number}: {text}"));
                }
            }
            "frame" => self.select(vm, "frame", "")?,
            "source" => {
                let file = Debugger::source_name(vm, self.here.source);
                let text = &vm.program.sources.get(self.here.source).text;
                let lines = text.split(|b| *b == b'\n').count();
                let lines = lines - usize::from(text.ends_with(b"\n"));
                self.say(&format!(
                    "Current source file: {file}\nNumber of lines: {lines}"
                ));
            }
            "sources" => {
                for n in 0..vm.program.sources.len() {
                    let name = Debugger::source_name(vm, n as u32);
                    self.say(&name);
                }
            }
            "functions" => {
                for f in &vm.program.functions {
                    let span = f.function.name_span;
                    let code = vm.code.functions.iter();
                    let name = vm.program.names.text(f.function.name);
                    let params = code
                        .clone()
                        .find(|c| c.name == name)
                        .map(|c| c.params.join(", "));
                    let text = format!(
                        "{name}({}) in file `{}', line {}",
                        params.unwrap_or_default(),
                        Debugger::source_name(vm, span.source),
                        Debugger::line(vm, span)
                    );
                    self.say(&text);
                }
            }
            "variables" => {
                let mut out = Vec::new();
                vm.dump_variables(&mut out)?;
                self.say(String::from_utf8_lossy(&out).trim_end());
            }
            _ => {
                return Err(Fatal::new(
                    "info: args, break, display, frame, functions, locals, source, sources, variables or watch",
                ));
            }
        }
        Ok(())
    }
}

fn write_file(name: &str, text: &str) -> Step<()> {
    std::fs::write(name, text)
        .map_err(|error| Fatal::new(format!("cannot write {name:?}: {error}")))
}

/// Without the quotes around it.
fn unquoted(text: &str) -> String {
    let text = text.trim();
    let inner = text.strip_prefix('"').and_then(|t| t.strip_suffix('"'));
    inner.map_or_else(|| text.to_string(), |t| t.replace("\\\"", "\""))
}

/// The parts of a list, divided at commas outside brackets and quotes.
fn split_list(text: &str) -> Vec<String> {
    let mut out = vec![String::new()];
    let (mut depth, mut quoted) = (0, false);
    for c in text.chars() {
        match c {
            '"' => quoted = !quoted,
            '(' | '[' if !quoted => depth += 1,
            ')' | ']' if !quoted => depth -= 1,
            ',' if !quoted && depth == 0 => {
                out.push(String::new());
                continue;
            }
            _ => {}
        }
        out.last_mut().expect("there is always one").push(c);
    }
    out.iter()
        .map(|part| part.trim().to_string())
        .filter(|part| !part.is_empty())
        .collect()
}
