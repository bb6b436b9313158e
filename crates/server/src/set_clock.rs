//! Sleeps that end early when the clock is set: that of the system, or that of the server by a client.

use std::time::{Duration, SystemTime};

use tokio::time::{Instant, sleep};

/// The interval of checks of the clock.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// A difference of this size means that the clock was set. Smaller ones are normal corrections, as by NTP.
const JUMP: Duration = Duration::from_secs(60);

/// Sleeps for `most` by the clock of the server, or until a clock is set. A suspended machine counts as one
/// whose clock was set.
pub(crate) async fn sleep_until_set(most: Duration) {
    tokio::select! {
        () = system_is_set(most) => {}
        () = clock::moved() => {}
        () = clock::sleep(most) => {}
    }
}

/// Waits for `most`, or until the clock of the system is set.
async fn system_is_set(most: Duration) {
    let (begin, clock) = (Instant::now(), clock::system());
    loop {
        let passed = begin.elapsed();
        if passed >= most {
            return;
        }
        sleep(CHECK_INTERVAL.min(most.saturating_sub(passed))).await;
        if is_set(clock, begin.elapsed(), clock::system()) {
            log::warn!("the clock of the system was set, or the machine has slept");
            return;
        }
    }
}

/// Whether a clock that showed `before` was set since then, if it shows `now` after `passed`.
fn is_set(before: SystemTime, passed: Duration, now: SystemTime) -> bool {
    let Some(expected) = before.checked_add(passed) else { return false };
    let difference = now.duration_since(expected).or_else(|_| expected.duration_since(now));
    difference.unwrap_or_default() > JUMP
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_that_is_more_than_a_minute_off_was_set() {
        let before = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let hour = Duration::from_secs(3600);
        for (now, expected) in [
            (before + hour, false),
            (before + hour + JUMP, false),
            (before + hour - JUMP, false),
            (before + 2 * hour, true),
            (before, true),
            (SystemTime::UNIX_EPOCH - hour, true),
        ] {
            assert_eq!(is_set(before, hour, now), expected, "{now:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn wait_ends_with_its_time() {
        let begin = Instant::now();
        sleep_until_set(Duration::from_secs(12)).await;
        assert_eq!(begin.elapsed(), Duration::from_secs(12));
    }
}
