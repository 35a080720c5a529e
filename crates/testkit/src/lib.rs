//! Test instruments: a simulated disk with faults, the crash ladder, power cuts under real file systems, a repeatable
//! random generator, and the runner that holds our AWK beside others. Development only: no program depends on it.

pub mod crash;
pub mod disk;
pub mod format_doc;
pub mod oracle;
pub mod rng;
pub mod volatile;
