//! Handing outputs to the system, and closing streams.
//!
//! Invariant: what cannot be handed over becomes a [`Failure`], whoever asked for the flush; `close_all` gives out those that
//! nobody has taken, so that no run ends well that has lost output.

use super::coprocess::end_of_file;
use super::network::end_writing;
use super::out::{Out, Sink};
use super::processes::wait;
use super::{Failure, Input, Slot, StreamError, Streams};

/// What is done with all other outputs when one is closed that a process reads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Others {
    /// They go out before it: they come before what the process prints when its input ends.
    First,
    /// Nothing.
    AsTheyAre,
}

impl Streams {
    /// AWK's `close`: of the streams with that name the one opened last. Gives 0 for a file, the status of a command
    /// as [`super::status_value`], -1 if no such stream is open.
    pub fn close(&mut self, name: &[u8]) -> f64 {
        self.close_named(name, Others::First)
    }

    fn close_named(&mut self, name: &[u8], others: Others) -> f64 {
        let opened = [
            self.files.get(name).map(|n| n.opened),
            self.pipes.get(name).map(|n| n.opened),
            self.input_files.get(name).map(|i| i.opened),
            self.input_commands.get(name).map(|i| i.opened),
            self.stdin_names.get(name).copied(),
            self.coprocesses.get(name).map(|c| c.opened),
        ];
        let last = opened.iter().flatten().max();
        let Some(which) = opened
            .iter()
            .position(|o| o.is_some() && o.as_ref() == last)
        else {
            return -1.0;
        };
        match which {
            0 | 1 => {
                let names = if which == 0 {
                    &mut self.files
                } else {
                    &mut self.pipes
                };
                let slot = names.remove(name).map(|named| named.slot);
                self.recent = None;
                slot.map_or(-1.0, |slot| self.close_output(slot, others))
            }
            2 => {
                if let Some(input) = self.input_files.remove(name) {
                    self.retire(input.reader);
                }
                0.0
            }
            3 => self.input_commands.remove(name).map_or(-1.0, close_input),
            5 => self.close_coprocess(name, others),
            _ => {
                // Bytes already read stay: the main input may go on with them.
                self.stdin_names.remove(name);
                0.0
            }
        }
    }

    pub(super) fn close_output(&mut self, slot: Slot, others: Others) -> f64 {
        let feeds_process = self.out(slot).is_some_and(Out::feeds_process);
        if others == Others::First && feeds_process {
            self.flush_outputs();
        }
        self.close_only(slot)
    }

    fn close_only(&mut self, slot: Slot) -> f64 {
        let Slot::Open(index) = slot else {
            let out = if slot == Slot::Stdout {
                &mut self.stdout
            } else {
                &mut self.stderr
            };
            flush_into(out, &mut self.failures);
            return 0.0;
        };
        let Some(mut out) = self.outs.get_mut(index).and_then(Option::take) else {
            return -1.0;
        };
        self.free.push(index);
        flush_into(&mut out, &mut self.failures);
        match out.sink {
            Sink::Child(child) => return wait(child),
            Sink::Socket(socket) => end_writing(&socket),
            Sink::Terminal(mut master) => end_of_file(&mut master),
            _ => {}
        }
        0.0
    }

    /// Hands all outputs to the system. What fails is kept for [`Streams::take_failures`].
    pub fn flush_outputs(&mut self) {
        flush_into(&mut self.stdout, &mut self.failures);
        flush_into(&mut self.stderr, &mut self.failures);
        for out in self.outs.iter_mut().flatten() {
            flush_into(out, &mut self.failures);
        }
    }

    /// Whether standard output and standard error are the only outputs.
    pub fn has_no_other_outputs(&self) -> bool {
        self.outs.iter().all(Option::is_none) && self.coprocesses.is_empty()
    }

    /// The outputs that could not be handed over since this was last asked: their bytes are lost.
    pub fn take_failures(&mut self) -> Vec<Failure> {
        std::mem::take(&mut self.failures)
    }

    /// Whether [`Streams::take_failures`] has something to give.
    #[inline]
    pub fn has_failures(&self) -> bool {
        !self.failures.is_empty()
    }

    /// AWK's `fflush` of the outputs of that name; how many there were. What fails is kept for
    /// [`Streams::take_failures`].
    pub fn flush(&mut self, name: &[u8]) -> usize {
        let mut slots: Vec<Slot> = [&self.files, &self.pipes]
            .iter()
            .filter_map(|names| names.get(name))
            .map(|named| named.slot)
            .collect();
        slots.extend(self.coprocesses.get(name).and_then(|process| process.to));
        if slots.is_empty() {
            match name {
                b"/dev/stdout" => slots.push(Slot::Stdout),
                b"/dev/stderr" => slots.push(Slot::Stderr),
                _ => {}
            }
        }
        for slot in &slots {
            let out = match *slot {
                Slot::Stdout => Some(&mut self.stdout),
                Slot::Stderr => Some(&mut self.stderr),
                Slot::Open(index) => self.outs.get_mut(index).and_then(Option::as_mut),
            };
            if let Some(out) = out {
                flush_into(out, &mut self.failures);
            }
        }
        slots.len()
    }

    /// Closes everything at the end of a run: flushes, then waits for all commands. Gives what could not be handed over.
    pub fn close_all(&mut self) -> Vec<Failure> {
        // As gawk: what was opened last is closed first, and standard output comes after all, so that what a command prints
        // when its input ends comes before what the program still holds.
        let own = |slot: Slot| matches!(slot, Slot::Stdout | Slot::Stderr);
        self.files.retain(|_, named| !own(named.slot));
        self.stdin_names.clear();
        let mut names: Vec<(u64, Vec<u8>)> = Vec::new();
        let outputs = self.files.iter().chain(&self.pipes);
        names.extend(outputs.map(|(name, named)| (named.opened, name.clone())));
        let inputs = self.input_files.iter().chain(self.input_commands.iter());
        names.extend(inputs.map(|(name, input)| (input.opened, name.clone())));
        let processes = self.coprocesses.iter();
        names.extend(processes.map(|(name, process)| (process.opened, name.clone())));
        names.sort_unstable();
        for (_, name) in names.iter().rev() {
            self.close_named(name, Others::AsTheyAre);
        }
        self.flush_outputs();
        self.take_failures()
    }
}

/// Flushes; a failure is kept. A command may stop reading early, its status says whether that is an error: only the `print`
/// that meets it tells of it.
fn flush_into(out: &mut Out, failures: &mut Vec<Failure>) {
    match out.flush() {
        Ok(()) => {}
        Err(error @ StreamError::StdoutClosed) => failures.push(Failure {
            name: out.name.clone(),
            error,
        }),
        Err(error) if out.feeds_process() && error.is_broken_pipe() => {}
        Err(error) => failures.push(Failure {
            name: out.name.clone(),
            error,
        }),
    }
}

/// Closes our end first, so that a command that still writes is stopped by SIGPIPE, then waits.
fn close_input(input: Input) -> f64 {
    drop(input.reader);
    input.child.map_or(0.0, wait)
}
