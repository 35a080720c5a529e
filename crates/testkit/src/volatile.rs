//! Power cuts under real file systems: a disk whose write cache is volatile, ext4, XFS or btrfs on it, and on that the
//! programs under test.
//!
//! ```text
//!     subject          a process that commits; another that looks at what a crash left
//!     ext4, XFS, btrfs the kernel's own, mounted where nobody else sees it
//!     loop device      its barriers become fsync of the file beneath
//!     FUSE             one file, served by a thread of the test (serve.rs)
//!     Disk             every write and every flush, in order (disk.rs)
//! ```
//!
//! A run is recorded once; then the power is cut at as many of its moments as one likes, each leaving a state that the disk may
//! have been in (`cut.rs`): the file system is mounted, replays its journal, and the subject is opened.
//!
//! Two invariants. The test's process never touches a file on its own disk, or its end would wait for itself: everything
//! above the disk runs in other processes. And nothing outlives them: mounts are in a mount namespace that dies with its last
//! process, loop devices detach when they are closed, so that also a killed test leaves the machine as it was.

mod cut;
mod disk;
mod keeper;
mod ladder;
mod rig;
mod runner;
mod serve;

pub use cut::Cuts;
pub use disk::{Disk, Image, Record, Recording, SECTOR_BYTES};
pub use keeper::Reporter;
pub use ladder::{Effort, Subject, Tally, Violation, climb};
pub use rig::{FileSystem, Rig, why_not_here};
pub use runner::{Goal, Trial, run};
