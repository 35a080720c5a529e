//! Who may store, and who may take a cut: sections of changes by many threads, and commits between them.
//!
//! A commit waits until no thread is in a section, but for those that wait for a commit themselves and so are at a consistent point, and
//! keeps new sections out while it is taken. Threads that ask for one meanwhile share the next: one of them takes it for all.
//!
//! The invariant: while the work of [`Gate::alone`] runs, no thread is in a section that has not said that it waits.

use crate::sync::{Condvar, Mutex, MutexGuard, thread_local};
use std::cell::RefCell;

#[derive(Default)]
pub(crate) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Threads that are in a section.
    inside: usize,
    /// Those of them that wait in [`Gate::alone`].
    inside_waiting: usize,
    /// All that wait there.
    waiting: usize,
    /// Threads that sleep until something changes: to wake nobody costs a system call.
    asleep: usize,
    /// Somebody's work runs.
    busy: bool,
    /// Works that have begun, and that have ended.
    begun: u64,
    ended: u64,
    /// Whether the one that ended last was good.
    good: bool,
}

/// How deep a thread is in sections of which heap (by the gate's address).
///
/// Without a destructor: a program may commit in a handler of `atexit`, when those of the thread have run already.
struct Depths {
    entries: [(usize, usize); OPEN_MAX],
    used: usize,
}

/// No more heaps than this can be open in a process.
const OPEN_MAX: usize = 64;

const _: () = assert!(!std::mem::needs_drop::<Depths>());

thread_local! {
    #[allow(clippy::missing_const_for_thread_local)] // the models have no such thing
    static DEPTHS: RefCell<Depths> = RefCell::new(Depths {
        entries: [(0, 0); OPEN_MAX],
        used: 0,
    });
}

impl Depths {
    /// Adds to the depth in one and gives what it was.
    fn change(&mut self, gate: usize, by: isize) -> usize {
        let mut known = self.entries[..self.used].iter();
        let at = known.position(|entry| entry.0 == gate);
        let before = at.map_or(0, |at| self.entries[at].1);
        match (before.saturating_add_signed(by), at) {
            (0, None) => {}
            (0, Some(at)) => {
                self.used -= 1;
                self.entries[at] = self.entries[self.used];
            }
            (depth, Some(at)) => self.entries[at].1 = depth,
            (depth, None) => {
                self.entries[self.used] = (gate, depth);
                self.used += 1;
            }
        }
        before
    }
}

/// What became of a work that several threads wanted.
pub(crate) enum Shared<T> {
    /// This thread did it.
    Done(T),
    /// Another one did, after this thread had asked, and it was good.
    DoneByAnother,
}

/// A gate that stays as it is while this lives.
pub(crate) struct Held<'a>(MutexGuard<'a, State>);

impl Gate {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn wait<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.asleep += 1;
        state = self.changed.wait(state).unwrap_or_else(|e| e.into_inner());
        state.asleep -= 1;
        state
    }

    fn wake(&self, state: &State) {
        if state.asleep > 0 {
            self.changed.notify_all();
        }
    }

    /// Adds to the depth of this thread and gives what it was.
    fn change_depth(&self, by: isize) -> usize {
        let gate = std::ptr::from_ref(self) as usize;
        DEPTHS.with(|depths| depths.borrow_mut().change(gate, by))
    }

    pub(crate) fn begin(&self) {
        if self.change_depth(1) > 0 {
            return;
        }
        let mut state = self.lock();
        // Who waits for a cut goes first: else sections that overlap would keep it waiting for ever.
        while state.busy || state.waiting > 0 {
            state = self.wait(state);
        }
        state.inside += 1;
    }

    /// False if the thread is in no section.
    pub(crate) fn end(&self) -> bool {
        match self.change_depth(-1) {
            0 => return false,
            1 => {}
            _ => return true,
        }
        let mut state = self.lock();
        state.inside -= 1;
        self.wake(&state);
        true
    }

    /// Does `work` while nobody stores. With `shared`, another thread's shared work that begins after this call serves as well.
    pub(crate) fn alone<T, E>(
        &self,
        shared: bool,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<Shared<T>, E> {
        let is_inside = self.change_depth(0) > 0;
        let mut state = self.lock();
        let needed = state.begun + 1;
        state.waiting += 1;
        state.inside_waiting += usize::from(is_inside);
        self.wake(&state);
        let done = loop {
            if shared && state.ended >= needed && state.good {
                break Ok(Shared::DoneByAnother);
            }
            if state.busy || state.inside > state.inside_waiting {
                state = self.wait(state);
                continue;
            }
            state.busy = true;
            state.begun += 1;
            drop(state);
            let done = work();
            state = self.lock();
            state.busy = false;
            state.ended = state.begun;
            state.good = shared && done.is_ok();
            break done.map(Shared::Done);
        };
        state.waiting -= 1;
        state.inside_waiting -= usize::from(is_inside);
        self.wake(&state);
        done
    }

    /// Before a fork: else another thread might hold the lock at that moment, and the child would wait for a thread that it does not have.
    pub(crate) fn hold_for_fork(&self) -> Held<'_> {
        Held(self.lock())
    }

    /// In the child of a fork: of all threads only this one is left.
    pub(crate) fn become_child(&self, mut held: Held<'_>) {
        let is_inside = self.change_depth(0) > 0;
        *held.0 = State {
            inside: usize::from(is_inside),
            ..State::default()
        };
    }

    /// This thread closes the heap, perhaps in a section. Another gate at the same address is not to be taken for this one.
    pub(crate) fn leave_for_good(&self) {
        while self.change_depth(-1) > 0 {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Threads keep two numbers equal in sections; whoever is alone finds them equal, and works are shared.
    #[test]
    fn a_cut_finds_no_section_half_done() {
        let gate = Gate::default();
        let numbers = [AtomicU64::new(0), AtomicU64::new(0)];
        let (cuts, shared) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for thread in 0..6 {
                let (gate, numbers, cuts, shared) = (&gate, &numbers, &cuts, &shared);
                scope.spawn(move || {
                    for step in 0..3000 {
                        gate.begin();
                        gate.begin();
                        let n = numbers[0].fetch_add(1, Ordering::Relaxed);
                        if n % 7 == 0 {
                            std::thread::yield_now();
                        }
                        numbers[1].fetch_add(1, Ordering::Relaxed);
                        assert!(gate.end());
                        let inside = (step + thread) % 2 == 0;
                        if !inside {
                            assert!(gate.end());
                        }
                        let cut = gate.alone::<(), ()>(true, || {
                            let [a, b] = [0, 1].map(|i| numbers[i].load(Ordering::Relaxed));
                            assert_eq!(a, b);
                            cuts.fetch_add(1, Ordering::Relaxed);
                            std::thread::yield_now();
                            Ok(())
                        });
                        if matches!(cut, Ok(Shared::DoneByAnother)) {
                            shared.fetch_add(1, Ordering::Relaxed);
                        }
                        if inside {
                            assert!(gate.end());
                        }
                    }
                    assert!(!gate.end());
                });
            }
        });
        let (cuts, shared) = (cuts.into_inner(), shared.into_inner());
        assert_eq!(cuts + shared, 18_000);
        assert!(shared > 0);
    }

    /// A failed work serves nobody else.
    #[test]
    fn an_error_is_for_who_worked() {
        let gate = Gate::default();
        let works = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let outcome = gate.alone::<(), ()>(true, || {
                            works.fetch_add(1, Ordering::Relaxed);
                            Err(())
                        });
                        assert!(outcome.is_err());
                    }
                });
            }
        });
        assert_eq!(works.into_inner(), 2000);
    }
}
