//! Several processes for one input (`-j`): each reads a stretch of it, and what they made of it is put together.
//!
//! The first process reads the first stretch itself, with the run's own variables. When it is through, it takes over what the
//! others have left, in the order of the input; a stretch whose process gave up (an error, a warning, a sum of fractions) it
//! reads itself, as if there had been no other. The last record is always its own, because END sees it.
//!
//! Invariant: the output, the variables and the exit status are those of one process. Nothing that another process does is
//! seen by anybody before it is taken over, and it is taken over whole or not at all.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::rc::Rc;

use awk_syntax::independence::{Merge, MergeArray, Plan};
use heap::Forked;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use super::Vm;
use crate::error::{Fatal, Step as Result};
use crate::records::Separator;
use crate::value::Value;
pub(super) use stretches::{Operand, reader as reader_of};
use stretches::{Place, Stretch};
use worker::{GaveUp, Shelves, Work};

mod merge;
mod stretches;
mod wire;
mod worker;

/// More processes than this are not begun.
pub const JOBS_MAX: usize = 256;

/// See the top of the file.
pub struct Parallel {
    plan: Rc<Plan>,
    jobs: usize,
    state: State,
    leave: EndProcess,
    /// What is said about it, if anybody asked (`--explain-parallel`).
    explains: bool,
    /// Something was added that is no whole number, or compared that is no number: all that follows is for this process.
    inexact: Option<GaveUp>,
    /// The absolute values of all that was added: as long as they stay below 2^52 all sums are exact.
    volume: f64,
    /// Arrays of the plan that were not empty when the others began.
    filled: Vec<bool>,
}

/// Ends one of the processes that the run has begun, with a status, at once: what it has of the first one's open files and commands is
/// not its own to close, and nothing behind the call that began it may run.
pub type EndProcess = fn(i32) -> !;

enum State {
    /// Nothing has been read yet.
    Waiting,
    /// The first process, in a stretch of its own.
    Reading {
        stretch: Stretch,
        others: VecDeque<Other>,
        /// What nobody has begun to read.
        rest: VecDeque<Stretch>,
        last: Place,
        /// Stretches taken over, and those that were read again.
        taken: usize,
        again: usize,
    },
    /// Another process.
    Working(Work),
    /// One process, to the end.
    Single,
}

/// A process that reads a stretch.
struct Other {
    stretch: Stretch,
    pid: Pid,
    /// Where it leaves what it made.
    shelves: Shelves,
}

impl Parallel {
    fn new(plan: Plan, jobs: usize, leave: EndProcess, explains: bool) -> Parallel {
        Parallel {
            filled: vec![false; plan.arrays.len()],
            plan: Rc::new(plan),
            jobs: jobs.min(JOBS_MAX),
            state: State::Waiting,
            leave,
            explains,
            inexact: None,
            volume: 0.0,
        }
    }

    /// Whether a number may be added as it is; it is counted then. Any may once nothing is put together any more.
    #[inline]
    pub(super) fn admits(&mut self, n: f64) -> bool {
        let admits = is_whole(n) && self.volume < EXACT_BELOW;
        if !admits && (self.inexact.is_some() || matches!(self.state, State::Single)) {
            return true;
        }
        if admits {
            self.volume += n.abs();
        }
        admits
    }

    /// Whether this is one of the other processes.
    fn is_working(&self) -> bool {
        matches!(self.state, State::Working(_))
    }

    fn stretch(&self) -> Option<&Stretch> {
        match &self.state {
            State::Reading { stretch, .. } => Some(stretch),
            State::Working(work) => Some(&work.stretch),
            State::Waiting | State::Single => None,
        }
    }
}

/// Whether adding it, and numbers like it, is exact in any order.
#[inline]
fn is_whole(n: f64) -> bool {
    n == n.trunc() && n.abs() < EXACT_BELOW && (n != 0.0 || n.is_sign_positive())
}

/// 2^52: the sum of two such numbers is still exact.
const EXACT_BELOW: f64 = 4_503_599_627_370_496.0;

impl Vm<'_> {
    /// The run may use `jobs` processes for the records of the main input if there is a plan for it; else the reasons are told,
    /// if anybody asked.
    pub fn share_records(
        &mut self,
        plan: std::result::Result<Plan, Vec<String>>,
        jobs: usize,
        leave: EndProcess,
        explains: bool,
    ) {
        match plan {
            Ok(plan) => self.parallel = Some(Parallel::new(plan, jobs, leave, explains)),
            Err(reasons) if explains => {
                for reason in reasons {
                    (self.input.warn)(format!("-j: one process: {reason}"));
                }
            }
            Err(_) => {}
        }
    }

    /// Before the first record of the main input: begins the other processes, if that is of use.
    #[cold]
    pub(super) fn begin_parallel(&mut self) -> Result<()> {
        let waits = |p: &Parallel| matches!(p.state, State::Waiting);
        if !self.parallel.as_ref().is_some_and(waits) {
            return Ok(());
        }
        match self.begin_others() {
            Ok(Ok(())) => {
                if let Some(Parallel {
                    state: State::Reading { .. },
                    jobs,
                    ..
                }) = self.parallel
                {
                    self.explain(&format!("up to {jobs} processes"));
                }
                Ok(())
            }
            Ok(Err(why)) => {
                self.stay_single();
                self.explain(&format!("one process: {why}"));
                Ok(())
            }
            Err(fatal) => {
                self.stay_single();
                Err(fatal)
            }
        }
    }

    /// One of the other processes stays what it is: it is about to end.
    fn stay_single(&mut self) {
        match &mut self.parallel {
            Some(parallel) if !parallel.is_working() => parallel.state = State::Single,
            _ => {}
        }
    }

    fn explain(&mut self, what: &str) {
        if self.parallel.as_ref().is_some_and(|p| p.explains) {
            (self.input.warn)(format!("-j: {what}"));
        }
    }

    /// The inner error says why one process does better.
    fn begin_others(&mut self) -> Result<std::result::Result<(), String>> {
        if self.input.has_begun() {
            return Ok(Err("BEGIN has read from the input".into()));
        }
        // What is buffered for them would have to be handed over now, and whoever reads it sees when.
        if !self.streams.has_no_other_outputs() {
            return Ok(Err(
                "BEGIN has opened a file or a command to write to".into()
            ));
        }
        self.work_off_assignments()?;
        let Separator::Byte(separator) = *self.settings.separator else {
            return Ok(Err("records end by more than one character (RS)".into()));
        };
        let operands = self.files_to_read()?;
        let Some(parallel) = &self.parallel else {
            return Ok(Ok(()));
        };
        let (plan, jobs) = (Rc::clone(&parallel.plan), parallel.jobs);
        let planned = match operands {
            Ok(operands) => stretches::plan(&operands, separator, jobs, plan.prints),
            Err(why) => Err(why),
        };
        let (all, last) = match planned {
            Ok(planned) => planned,
            Err(why) => return Ok(Err(why)),
        };
        if let Err(why) = self.can_start_apart(&plan)? {
            return Ok(Err(why));
        }
        if let Some(parallel) = &mut self.parallel {
            parallel.state = State::Reading {
                stretch: Stretch {
                    start: last,
                    end: last,
                },
                others: VecDeque::new(),
                rest: all.into(),
                last,
                taken: 0,
                again: 0,
            };
        }
        self.begin_wave()
    }

    /// Takes the next stretch of what nobody has begun to read, and has others begin with those that follow. The inner error says
    /// why there are no others: this process reads all that is left then.
    fn begin_wave(&mut self) -> Result<std::result::Result<(), String>> {
        let Some(Parallel {
            state:
                State::Reading {
                    stretch,
                    others,
                    rest,
                    ..
                },
            jobs,
            ..
        }) = &mut self.parallel
        else {
            return Ok(Ok(()));
        };
        let Some(own) = rest.pop_front() else {
            return Ok(Ok(()));
        };
        *stretch = own;
        for _ in 1..*jobs {
            let Some(stretch) = rest.pop_front() else {
                break;
            };
            let begun = Shelves::new()
                .map_err(|error| error.to_string())
                .and_then(|shelves| match self.store.main.fork() {
                    Ok(forked) => Ok((shelves, forked)),
                    Err(error) => Err(error.to_string()),
                });
            match begun {
                Ok((shelves, Forked::Child)) => {
                    return self.become_worker(own.start, stretch, shelves).map(Ok);
                }
                Ok((shelves, Forked::Parent(pid))) => match Pid::from_raw(pid) {
                    Some(pid) => others.push_back(Other {
                        stretch,
                        pid,
                        shelves,
                    }),
                    None => return Ok(Err("the system gave a process no number".into())),
                },
                Err(why) => {
                    end_all(others);
                    return Ok(Err(format!("no other process can be begun: {why}")));
                }
            }
        }
        Ok(Ok(()))
    }

    /// Whether what BEGIN left allows others to begin without it. Notes which arrays are filled.
    fn can_start_apart(&mut self, plan: &Plan) -> Result<std::result::Result<(), String>> {
        if plan.loops
            && let Some(order) = self.procinfo(b"sorted_in")?
            && !self.settings.text_of(&order).starts_with(b"@")
        {
            return Ok(Err(
                "arrays are gone through in the order of a function".into()
            ));
        }
        for (n, merge) in &plan.scalars {
            let value = &self.globals[*n as usize];
            if let Merge::Extreme { guarded, .. } = merge {
                let is_empty = value.as_bytes().is_some_and(<[u8]>::is_empty);
                let is_nothing = matches!(value, Value::Uninit | Value::Unassigned);
                if !(is_nothing || value.is_number() || *guarded && is_empty) {
                    let name = &self.code.globals[*n as usize];
                    return Ok(Err(format!(
                        "`{name}` holds text, beside which numbers have no order"
                    )));
                }
            }
        }
        for (at, (n, merge)) in plan.arrays.iter().enumerate() {
            let array = self.store.known_array(crate::code::Arr(*n));
            let len = match array {
                Some(array) => self.store.heap_of(array)?.table_len(array.table)?,
                None => 0,
            };
            if len > 0 && matches!(merge, MergeArray::Elements(Merge::Extreme { .. })) {
                let name = &self.code.globals[*n as usize];
                return Ok(Err(format!("array `{name}` is not empty")));
            }
            if let Some(parallel) = &mut self.parallel {
                parallel.filled[at] = len > 0;
            }
        }
        Ok(Ok(()))
    }

    /// Whether the current stretch ends before the next operand is opened.
    #[inline]
    pub(super) fn is_stretch_over(&self) -> bool {
        let Some(stretch) = self.parallel.as_ref().and_then(Parallel::stretch) else {
            return false;
        };
        let next = self.input.next_operand();
        next > stretch.end.operand || next == stretch.end.operand && stretch.end.offset == 0
    }

    /// The stretch is over: another process hands over what it made and ends; the first one goes on with the next stretch that
    /// nobody has read. False at the end of the input.
    #[cold]
    pub(super) fn next_stretch(&mut self) -> Result<bool> {
        let Some(parallel) = &mut self.parallel else {
            return Ok(false);
        };
        let (other, last) = match &mut parallel.state {
            State::Working(_) => return Err(self.hand_over()),
            State::Reading { others, last, .. } => (others.pop_front(), *last),
            State::Waiting | State::Single => return Ok(false),
        };
        let Some(other) = other else {
            return self.go_on(last);
        };
        let stretch = other.stretch;
        let taken = self.take_over(other)?;
        if let Some(Parallel {
            state:
                State::Reading {
                    stretch: current,
                    taken: count,
                    again,
                    ..
                },
            ..
        }) = &mut self.parallel
        {
            *current = stretch;
            if taken {
                *count += 1;
            } else {
                *again += 1;
            }
        }
        if taken {
            return self.next_stretch();
        }
        self.open_at(stretch.start, Some(stretch.end))
    }

    /// All that was begun is read: begins anew with what follows, or reads what is left.
    fn go_on(&mut self, last: Place) -> Result<bool> {
        let next = match &self.parallel {
            Some(Parallel {
                state: State::Reading { rest, .. },
                inexact,
                ..
            }) => match rest.front() {
                Some(next) if inexact.is_some() => {
                    let start = next.start;
                    self.end_parallel();
                    return self.open_at(start, None);
                }
                next => next.copied(),
            },
            _ => None,
        };
        let Some(next) = next else {
            self.end_parallel();
            return self.open_at(last, None);
        };
        if let Err(why) = self.begin_wave()? {
            self.explain(&format!("one process from here on: {why}"));
            self.end_parallel();
            return self.open_at(next.start, None);
        }
        if self.parallel.as_ref().is_some_and(Parallel::is_working) {
            return Ok(true); // it has opened what it is to read
        }
        self.open_at(next.start, Some(next.end))
    }

    fn end_parallel(&mut self) {
        let Some(parallel) = &mut self.parallel else {
            return;
        };
        let state = std::mem::replace(&mut parallel.state, State::Single);
        let State::Reading { taken, again, .. } = state else {
            return;
        };
        let why = parallel.inexact.map(GaveUp::reason);
        let mut what = format!(
            "{taken} of {} stretches read by others were put together",
            taken + again
        );
        if let Some(why) = why {
            what.push_str(&format!("; the rest was read again: {why}"));
        }
        self.explain(&what);
    }

    /// Waits for another process and takes over what it left; false if its stretch is still to be read.
    fn take_over(&mut self, other: Other) -> Result<bool> {
        let status = loop {
            match waitpid(Some(other.pid), WaitOptions::empty()) {
                Ok(Some((_, status))) => break status.exit_status(),
                Ok(None) => {}
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => break None,
            }
        };
        let Some(parallel) = &mut self.parallel else {
            return Ok(false);
        };
        if status != Some(0) {
            let why = GaveUp::from_status(status);
            parallel.inexact.get_or_insert(why);
            return Ok(false);
        }
        if parallel.inexact.is_some() {
            return Ok(false);
        }
        let Ok(left) = wire::take(&other.shelves.left) else {
            return Ok(false);
        };
        if !self.put_together(&left, &other.stretch)? {
            return Ok(false);
        }
        self.print_on(other.shelves.printed)?;
        Ok(true)
    }

    /// Prints what another process has printed.
    fn print_on(&mut self, mut printed: File) -> Result<()> {
        let mut block = vec![0; 64 << 10];
        let failed = |error: std::io::Error| {
            Fatal::new(format!("cannot read what another process printed: {error}"))
        };
        printed.seek(SeekFrom::Start(0)).map_err(failed)?;
        loop {
            let len = printed.read(&mut block).map_err(failed)?;
            if len == 0 {
                return Ok(());
            }
            self.print_bytes(&block[..len])?;
        }
    }

    /// What is about to be added is looked at.
    #[inline]
    pub(super) fn check_whole(&mut self) -> Result<()> {
        let n = self.nums.last().copied().unwrap_or(0.0);
        if self
            .parallel
            .as_mut()
            .is_some_and(|parallel| parallel.admits(n))
        {
            return Ok(());
        }
        self.stop_sharing(GaveUp::Fraction)
    }

    /// What is about to be compared is looked at.
    #[inline]
    pub(super) fn check_number(&mut self) -> Result<()> {
        let value = self.pop_val();
        if value.is_number() {
            return Ok(());
        }
        self.stop_sharing(GaveUp::Text)
    }

    /// Another process ends; the first one puts nothing together any more.
    #[cold]
    fn stop_sharing(&mut self, why: GaveUp) -> Result<()> {
        let Some(parallel) = &mut self.parallel else {
            return Ok(());
        };
        match &mut parallel.state {
            State::Working(work) => {
                work.gave_up = why;
                Err(Fatal::quit())
            }
            State::Reading { others, .. } => {
                if parallel.inexact.is_none() {
                    parallel.inexact = Some(why);
                    for other in others {
                        let _ = kill_process(other.pid, Signal::KILL); // it may have ended
                    }
                }
                Ok(())
            }
            State::Waiting | State::Single => Ok(()),
        }
    }

    /// Goes on at a place of the input, up to `end` if there is one. FNR is left as it is where that is inside a file.
    fn open_at(&mut self, place: Place, end: Option<Place>) -> Result<bool> {
        self.input.set_next_operand(place.operand);
        if place.offset == 0 {
            // `open_next` limits what it opens by the stretch.
            return self.open_next();
        }
        let Some(operand) = self.operand(place.operand)? else {
            return self.open_next();
        };
        self.input.set_next_operand(place.operand + 1);
        let file = self
            .streams
            .open_input(&operand)
            .map_err(|error| Fatal::operand(error.to_string()))?;
        let end = end.filter(|end| end.operand == place.operand);
        let reader = stretches::reader(file, place.offset, end.map(|end| end.offset));
        self.settings.argind = place.operand as f64;
        let reader = reader.map_err(|error| self.read_error(&error))?;
        self.read_on(&operand, reader)
    }

    /// Where the current stretch ends in an operand, if it does.
    pub(super) fn stretch_end(&self, operand: usize) -> Option<u64> {
        let end = self.parallel.as_ref().and_then(Parallel::stretch)?.end;
        (end.operand == operand && end.offset > 0).then_some(end.offset)
    }

    /// If this is one of the other processes, it ends here, without handing anything over.
    pub fn end_worker(&self) {
        if let Some(Parallel {
            state: State::Working(work),
            leave,
            ..
        }) = &self.parallel
        {
            leave(work.gave_up.status());
        }
    }
}

fn end_all(others: &mut VecDeque<Other>) {
    while let Some(other) = others.pop_front() {
        let _ = kill_process(other.pid, Signal::KILL);
        let _ = waitpid(Some(other.pid), WaitOptions::empty());
    }
}
