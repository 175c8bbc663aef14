//! The highest rate that a system bears.

use super::account::Account;
use anyhow::Result;
use std::time::Duration;

/// Rates are told apart to this part.
const PRECISION: f64 = 0.03;
/// A rate is given up after so many tries: a shared machine pauses now and then.
const TRIES: usize = 6;
/// Where more than one in so many is lost, it was no pause, and two tries are enough.
const CLEARLY: u64 = 20;
/// From one rate to the next, until one is too high.
const STEP: f64 = 1.5;
/// A system whose packets take longer than this does not keep up: its buffers fill, and only the end of the trial
/// saves it from loss.
const BACKLOG: Duration = Duration::from_millis(10);

/// Whether all went well, and the rate was really sent.
pub fn bears(account: &Account) -> bool {
    let reached = (account.unsent + account.unanswered) * 100 <= account.sent;
    let late = account.latency.value_at_quantile(0.99) > BACKLOG.as_nanos() as u64;
    account.lost() == 0 && account.repeated == 0 && reached && !late
}

/// Steps up from a rate until one is not borne, then halves the interval. `attempt` sends at a rate. With nothing
/// borne at all there is no rate.
///
/// # Errors
/// Those of `attempt`.
pub fn highest(start: f64, mut attempt: impl FnMut(f64) -> Result<Account>) -> Result<Option<Account>> {
    let mut try_rate = |rate: f64| -> Result<Option<Account>> {
        for attempted in 1..=TRIES {
            let account = attempt(rate)?;
            if bears(&account) {
                return Ok(Some(account));
            }
            if account.lost() * CLEARLY > account.sent && attempted >= 2 {
                break;
            }
        }
        Ok(None)
    };
    let (mut low, mut high, mut rate) = (0.0, f64::INFINITY, start);
    let mut best = None;
    while high - low > low.max(start * PRECISION) * PRECISION {
        match try_rate(rate)? {
            Some(account) => {
                low = rate;
                best = Some(account);
            }
            None => high = rate,
        }
        rate = if high.is_finite() { f64::midpoint(low, high) } else { rate * STEP };
    }
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limited(limit: u64) -> impl FnMut(f64) -> Result<Account> {
        move |rate| {
            let mut account = Account::new(1);
            account.took = Duration::from_secs(1);
            account.sent = rate as u64;
            account.arrived = account.sent.min(limit);
            Ok(account)
        }
    }

    #[test]
    fn the_limit_of_a_system_is_found() {
        for limit in [1_200, 437_000] {
            let best = highest(10_000.0, limited(limit)).expect("no trial fails").expect("a rate is borne");
            let least = limit as f64 * (1.0 - PRECISION);
            assert!((least..=limit as f64).contains(&best.rate()), "{limit}: {}", best.rate());
        }
    }

    #[test]
    fn a_system_that_bears_nothing_has_no_rate() {
        assert!(highest(10_000.0, limited(0)).expect("no trial fails").is_none());
    }

    #[test]
    fn what_arrives_too_late_is_not_borne() {
        let mut account = Account::new(1);
        account.sent = 1;
        account.arrive(0, 0, BACKLOG.as_nanos() as u64 * 2);
        assert!(!bears(&account));
    }
}
