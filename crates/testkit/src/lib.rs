//! Test instruments: a simulated disk with faults, the crash ladder, power cuts under real file systems, a repeatable
//! random generator, rigs of several machines, and the runner that holds our AWK beside others. Development only: no program depends on it.

pub mod crash;
pub mod disk;
pub mod format_doc;
pub mod oracle;
pub mod rig;
pub mod rng;
pub mod volatile;

/// `usual`, or the number in the environment variable `name`: how much is tried.
///
/// # Panics
/// When it is no number.
pub fn effort(name: &str, usual: u64) -> u64 {
    let given = std::env::var(name).ok();
    given.map_or(usual, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is {text:?} and should be a number"))
    })
}
