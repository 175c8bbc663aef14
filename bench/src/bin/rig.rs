//! Whole systems side by side on one rig, in one run.
#![forbid(unsafe_code)]

use anyhow::Result;
use bench::rig::{
    CLIENT_CORE, Flow, Rig, account::Account, echo::Echo, generator, generator::Frames, relay::Relay, search,
};
use dataplane::{pin, port::Port};
use std::time::Duration;

/// Beyond what the generator can send.
const LIMIT: f64 = 1_600_000.0;
const TRIAL: Duration = Duration::from_millis(400);
const ROUNDS: usize = 2;

fn main() -> Result<()> {
    lab::namespace::require_root()?;
    let calls = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(100);
    println!(
        "RTP of {calls} calls, 214 bytes a frame: the highest rate without loss, and processor time per packet"
    );
    let mut best = [0f64; 2];
    for round in 0..ROUNDS {
        let rig = Rig::new()?;
        let mut port = rig.client_port()?;
        let echo = Echo::start(&rig)?;
        let (rate, cost) = measure(&rig, &mut port, &Echo::flows(calls)?, || Ok(echo.time()))?;
        report("bare AF_XDP echo", rate, cost);
        best[0] = best[0].max(rate);
        drop((echo, port));
        let rig = Rig::new()?;
        let mut port = rig.client_port()?;
        let relay = Relay::start(&rig, calls)?;
        let (rate, cost) = measure(&rig, &mut port, &relay.flows()?, || relay.time())?;
        report("strowger", rate, cost);
        best[1] = best[1].max(rate);
        relay.node().check_invariants()?;
        println!(
            "  round {} of {ROUNDS}: strowger at {:.3} of the echo's rate",
            round + 1,
            best[1] / best[0]
        );
    }
    Ok(())
}

fn report(name: &str, rate: f64, cost: f64) {
    println!("  {name:<20} {rate:>10.0} packets/s   {cost:>6.0} ns of its core per packet");
}

fn measure(
    rig: &Rig,
    port: &mut Port,
    flows: &[Flow],
    time: impl Fn() -> Result<Duration>,
) -> Result<(f64, f64)> {
    let mut frames = Frames::new(flows, rig.mac(&rig.client)?, rig.mac(&rig.system)?);
    // On a thread of its own, so that what is started later is not pinned with it.
    let mut attempt = |rate: f64, length| -> Account {
        std::thread::scope(|scope| {
            let pinned = scope.spawn(|| {
                pin::pin(CLIENT_CORE);
                generator::run(port, &mut frames, rate, length)
            });
            pinned.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    };
    attempt(10_000.0, Duration::from_millis(300));
    let (rate, _) = search::highest(LIMIT, |rate| attempt(rate, TRIAL));
    let before = time()?;
    let account = attempt(rate / 2.0, TRIAL * 2);
    let cost = (time()? - before).as_nanos() as f64 / account.arrived.max(1) as f64;
    Ok((rate, cost))
}
