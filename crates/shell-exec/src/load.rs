//! How busy a machine is.

/// How many processes want a processor, besides the one that asks (proc(5), `/proc/loadavg`): what the last minute had on average, or as many
/// as there are now if those are fewer. What has just ended should count no more, and what has just begun will soon.
pub fn load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    of(&text).unwrap_or_default()
}

fn of(text: &str) -> Option<f64> {
    let mut fields = text.split(' ');
    let minute: f64 = fields.next()?.parse().ok()?;
    let running = fields.nth(2)?.split('/').next()?;
    let now: f64 = running.parse().ok()?;
    Some(minute.min((now - 1.0).max(0.0)))
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
        assert_eq!(of("3.50 2.00 1.00 2/312 4711\n"), Some(1.0));
        assert_eq!(of("0.20 2.00 1.00 9/312 4711\n"), Some(0.2));
        assert_eq!(of("0.20 2.00 1.00 1/312 4711\n"), Some(0.0));
        assert_eq!(of(""), None);
        assert_eq!(of("x y z 1/2"), None);
    }

    #[test]
    fn there_is_always_a_share() {
        assert_eq!(idle_cores(2.0, 0.0), 2.0);
        assert_eq!(idle_cores(8.0, 3.0), 5.0);
        assert_eq!(idle_cores(2.0, 7.0), 0.25);
    }
}
