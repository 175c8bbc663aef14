//! The highest rate at which nothing is lost.

use super::account::Account;

/// Rates are told apart to this part.
const PRECISION: f64 = 0.02;
/// A rate is given up after so many tries with loss: a shared machine pauses now and then.
const TRIES: usize = 6;

/// Halves the interval between a rate that is borne and one that is not. `attempt` sends at a rate.
pub fn highest(limit: f64, mut attempt: impl FnMut(f64) -> Account) -> (f64, Account) {
    let mut bears = |rate: f64| {
        (0..TRIES).find_map(|_| {
            let account = attempt(rate);
            let reached = account.unsent * 100 <= account.sent;
            (account.lost() == 0 && account.repeated == 0 && reached).then_some(account)
        })
    };
    let (mut low, mut high) = (0.0, limit);
    let mut best = (0.0, Account::new(0));
    while high - low > limit * PRECISION {
        let rate = (low + high) / 2.0;
        match bears(rate) {
            Some(account) => {
                low = rate;
                best = (account.rate(), account);
            }
            None => high = rate,
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_limit_of_a_system_is_found() {
        let (rate, _) = highest(1_000_000.0, |rate| {
            let mut account = Account::new(1);
            account.took = Duration::from_secs(1);
            account.sent = rate as u64;
            account.arrived = account.sent.min(437_000);
            account
        });
        assert!((417_000.0..=437_000.0).contains(&rate), "{rate}");
    }
}
