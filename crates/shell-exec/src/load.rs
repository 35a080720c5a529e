//! How busy a machine is.

use std::collections::VecDeque;

/// How many processes want a processor, besides the one that asks: what the last minute had on average, or as many as there were in the last
/// seconds if those are fewer. What has just ended should count no more, and what has just begun will soon.
#[derive(Default)]
pub struct Load {
    seen: VecDeque<f64>,
}

/// How many looks count.
const LOOKS: usize = 3;

impl Load {
    /// Looks once more, and says what it is (proc(5), `/proc/loadavg`).
    pub fn look(&mut self) -> f64 {
        let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        of(&text).map_or(0.0, |(minute, now)| self.with(minute, now))
    }

    fn with(&mut self, minute: f64, now: f64) -> f64 {
        if self.seen.len() >= LOOKS {
            self.seen.pop_front();
        }
        self.seen.push_back(now);
        minute.min(self.seen.iter().sum::<f64>() / self.seen.len() as f64)
    }
}

/// The last minute's average, and how many others run now.
fn of(text: &str) -> Option<(f64, f64)> {
    let mut fields = text.split(' ');
    let minute: f64 = fields.next()?.parse().ok()?;
    let running = fields.nth(2)?.split('/').next()?;
    let now: f64 = running.parse().ok()?;
    Some((minute, (now - 1.0).max(0.0)))
}

/// How many processors somebody who comes would have: those that nobody uses, or a fair share of one.
pub fn idle_cores(cores: f64, load: f64) -> f64 {
    (cores - load).max(cores / (load + 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_wants_a_processor_is_read() {
        assert_eq!(of("3.50 2.00 1.00 2/312 4711\n"), Some((3.5, 1.0)));
        assert_eq!(of("0.20 2.00 1.00 1/312 4711\n"), Some((0.2, 0.0)));
        assert_eq!(of(""), None);
        assert_eq!(of("x y z 1/2"), None);
    }

    #[test]
    fn what_has_ended_counts_no_more() {
        let mut load = Load::default();
        let told = [4.0, 4.0, 1.0, 1.0, 1.0].map(|now| load.with(3.5, now));
        assert_eq!(told, [3.5, 3.5, 3.0, 2.0, 1.0]);
        assert_eq!(load.with(0.2, 9.0), 0.2);
    }

    #[test]
    fn there_is_always_a_share() {
        assert_eq!(idle_cores(2.0, 0.0), 2.0);
        assert_eq!(idle_cores(8.0, 3.0), 5.0);
        assert_eq!(idle_cores(2.0, 7.0), 0.25);
    }
}
