//! `fork`, `wait`, `waitpid`.
//!
//! Invariant: what was printed before a fork is handed to the system before it, so that it appears once; a child never commits
//! to the heap, of which it keeps the state of the fork.

use heap::Forked;
use rustix::process::{Pid, WaitOptions, WaitStatus, waitpid};

use super::super::Vm;
use crate::error::Step as Result;
use crate::value::Value;

impl Vm<'_> {
    /// `fork()`: 0 in the child, the child's number in the parent, -1 with ERRNO.
    pub(super) fn fork(&mut self) -> Result<Value> {
        self.streams.flush_outputs()?;
        match self.store.main.fork() {
            Ok(Forked::Parent(pid)) => Ok(Value::Num(f64::from(pid))),
            Ok(Forked::Child) => {
                for (key, pid) in [
                    (&b"pid"[..], Some(rustix::process::getpid())),
                    (b"ppid", rustix::process::getppid()),
                ] {
                    let number = pid.map_or(0, |pid| pid.as_raw_nonzero().get());
                    self.set_procinfo(key, &Value::Num(f64::from(number)))?;
                }
                Ok(Value::Num(0.0))
            }
            Err(error) => self.failed(std::io::Error::other(error.to_string())),
        }
    }

    /// `wait()` and `waitpid(pid)`, which does not block: the number of the child that ended, 0 if none has yet, -1 with
    /// ERRNO.
    pub(super) fn wait(&mut self, args: &[Value]) -> Result<Value> {
        let (pid, options) = match args.first() {
            Some(pid) => (Pid::from_raw(pid.to_num() as i32), WaitOptions::NOHANG),
            None => (None, WaitOptions::empty()),
        };
        match waitpid(pid, options) {
            Ok(ended) => Ok(Value::Num(
                ended.map_or(0.0, |(pid, _): (Pid, WaitStatus)| {
                    f64::from(pid.as_raw_nonzero().get())
                }),
            )),
            Err(error) => self.failed(error.into()),
        }
    }
}
