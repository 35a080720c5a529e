//! Splitting the process: the child keeps the memory and loses the claim to the file.
//!
//! The invariant: of two processes with the same writer's descriptors only the parent ever commits; what the child sees stays
//! the state of the fork, however often the parent commits. So the child holds a pin on the last commit from before it exists,
//! in a description of its own, and goes on as a reader's snapshot does: its changes are private and forgotten.

use std::fs::File;
use std::os::fd::AsRawFd;

use crate::lock::Locks;
use crate::{Error, Region, Result};

/// Which of the two processes this is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Forked {
    /// The old one; the number is the child's.
    Parent(i32),
    /// The new one.
    Child,
}

impl Region {
    /// Makes a copy of the process.
    ///
    /// # Errors
    /// When the process has more than one thread, of which the child would have only this one; when the system has no room
    /// for another process; when the commit cannot be pinned for the child. There is no child then.
    pub fn fork(&mut self) -> Result<Forked> {
        let path = match &self.backing {
            Some(backing) => backing.path_text(),
            None => "(memory)".to_string(),
        };
        let io = |action: &'static str| {
            let path = path.clone();
            move |error| Error::io(path.clone(), action, error)
        };
        let threads = std::fs::read_dir("/proc/self/task").map_err(io("count threads"))?;
        if threads.count() != 1 {
            let error = std::io::Error::other("the process has several threads");
            return Err(io("fork")(error));
        }
        let pin = self.prepare_fork()?;
        // What is mapped shared would be shared with the child.
        let copy = match &self.backing {
            Some(backing) => {
                let fresh = backing.committed_end()..self.end;
                let copied = self
                    .spill
                    .copy(&self.map, &backing.path, &*backing.heap, fresh);
                Some(copied.map_err(io("copy spilled memory for the child"))?)
            }
            None => None,
        };
        // SAFETY: with a single thread nothing is held by another one, so the child may use all of its memory.
        let pid = unsafe { libc::fork() };
        match pid {
            -1 => Err(io("fork")(std::io::Error::last_os_error())),
            0 => {
                self.become_child(pin);
                if let (Some(backing), Some(copy)) = (&mut self.backing, copy) {
                    let taken = self.spill.take_over(&mut self.map, copy, backing.tail.end);
                    backing.poison_on_error("map its copy of spilled memory", taken)?;
                }
                Ok(Forked::Child)
            }
            // The parent's copy of the pin's descriptor is closed here; the lock lives as long as the child's.
            pid => Ok(Forked::Parent(pid)),
        }
    }
}

/// What a child needs of the process that it was split off from.
pub struct Pin(Option<Locks>);

impl Pin {
    /// For a region whose commit could not be pinned: what the child sees of it may change.
    pub fn none() -> Pin {
        Pin(None)
    }
}

impl Region {
    /// For programs that split themselves with `fork`: to be called before. Nothing else of the region may be going on then.
    ///
    /// # Errors
    /// When the commit cannot be pinned for the child, which must not use the region then.
    pub fn prepare_fork(&self) -> Result<Pin> {
        let Some(backing) = self.backing.as_ref().filter(|backing| backing.writer) else {
            return Ok(Pin(None));
        };
        match backing.pin() {
            Ok(pin) => Ok(Pin(Some(pin))),
            Err(error) => Err(Error::io(backing.path_text(), "pin the commit", error)),
        }
    }

    /// In the child: from now on this is a reader's snapshot. (In the parent the pin is dropped; the lock lives as long as
    /// the child's.)
    pub fn become_child(&mut self, pin: Pin) {
        if let Some(backing) = &mut self.backing {
            backing.writer = false;
            if let Pin(Some(pin)) = pin {
                // Drops the child's copy of the description that holds the writer's lock, so that it ends with the
                // parent however long the child lives.
                backing.locks = pin;
            }
        }
        if let Some(outside) = &mut self.outside {
            outside.become_child();
        }
    }
}

impl crate::backing::Backing {
    /// A reader's pin on the last commit, in an open file description of its own.
    fn pin(&self) -> std::io::Result<Locks> {
        let Some(file) = self.locks.file() else {
            return Ok(Locks::none());
        };
        // Through /proc and not by name: the name may belong to another file by now.
        let own = File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
        let locks = Locks::on(own);
        locks.end_opening(self.tail.seq)?;
        Ok(locks)
    }
}
