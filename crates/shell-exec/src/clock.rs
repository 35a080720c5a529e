//! What is later than what, on this machine.

use rustix::time::{ClockId, clock_gettime};

/// Microseconds of the machine's monotonic clock, which all processes have in common.
pub fn micros() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000 + now.tv_nsec.cast_unsigned() / 1000
}
