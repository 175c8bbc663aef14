//! Whole systems side by side on one rig, in one run.
#![forbid(unsafe_code)]

use anyhow::{Context as _, Result, bail};
use bench::rig::{
    CLIENT_CORE, Flow, Rig,
    account::Account,
    echo, forwarder, generator,
    load::{Frames, Load},
    relay, rtpengine, search, sip,
};
use dataplane::{pin, port::Port};
use std::time::Duration;

/// Beyond what the generator can send, in packets a second.
const LIMIT: f64 = 1_600_000.0;
const TRIAL: Duration = Duration::from_millis(400);
/// Calls of the RTP load.
const CALLS: usize = 100;

/// A running system under test: its flows, its processor time so far, and what keeps it running.
struct Running {
    flows: Vec<Flow>,
    time: Box<dyn Fn() -> Result<Duration>>,
}

/// Starts a system on a rig.
type Start = fn(&Rig) -> Result<Running>;

/// Systems of a load; the first one is the limit that the others are held against.
fn systems(load: &str) -> Result<Vec<(&'static str, Start)>> {
    Ok(match load {
        "rtp" => vec![
            ("bare AF_XDP echo", echoed),
            ("strowger", |rig| relayed(rig, "")),
            ("strowger, generic XDP", |rig| relayed(rig, "xdp_mode = \"generic\"")),
            ("strowger, kernel sockets", |rig| relayed(rig, "backend = \"udp\"")),
            ("UDP forwarder", forwarded),
            ("rtpengine", |rig| {
                let relay = rtpengine::Relay::start(rig, CALLS)?;
                Ok(Running { flows: relay.flows().to_vec(), time: Box::new(move || relay.time()) })
            }),
        ],
        "invite" => vec![
            ("bare AF_XDP echo", echoed),
            ("strowger, stateless", |rig| {
                let proxy = sip::Proxy::start(rig)?;
                Ok(Running { flows: sip::flows()?, time: Box::new(move || proxy.time()) })
            }),
            ("UDP forwarder", forwarded),
            ("Kamailio forward()", |rig| {
                let kamailio = sip::Kamailio::start(rig)?;
                Ok(Running { flows: sip::flows()?, time: Box::new(move || kamailio.time()) })
            }),
        ],
        other => bail!("load \"{other}\", expected rtp or invite"),
    })
}

fn echoed(rig: &Rig) -> Result<Running> {
    let echo = echo::start(rig)?;
    Ok(Running { flows: echo::flows(CALLS)?, time: Box::new(move || echo.time()) })
}

fn forwarded(rig: &Rig) -> Result<Running> {
    let forwarder = forwarder::start(rig)?;
    Ok(Running { flows: forwarder::flows(CALLS)?, time: Box::new(move || forwarder.time()) })
}

fn relayed(rig: &Rig, dataplane: &str) -> Result<Running> {
    let relay = relay::Relay::start(rig, CALLS, dataplane)?;
    Ok(Running { flows: relay.flows()?, time: Box::new(move || relay.time()) })
}

/// What was measured of a system.
struct Figures {
    rate: f64,
    cost: f64,
    /// At half its rate, in microseconds: median, 99th and 99.9th percentile.
    latency: [f64; 3],
}

fn main() -> Result<()> {
    lab::namespace::require_root()?;
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let quick = wanted.is_empty();
    let loads = if quick { vec!["rtp".to_owned(), "invite".to_owned()] } else { wanted };
    for load in &loads {
        println!("\n{load}: the highest rate without loss; at half of it processor time and latency");
        println!(
            "  {:<26} {:>10} {:>7}  {:>9}  {:>8} {:>8} {:>8}",
            "system", "packets/s", "ratio", "ns/packet", "p50 us", "p99 us", "p99.9 us"
        );
        let mut limit = None;
        for (name, start) in systems(load)? {
            let figures = measure(load, start).with_context(|| name.to_owned())?;
            let limit = *limit.get_or_insert(figures.rate);
            let [p50, p99, p999] = figures.latency;
            println!(
                "  {name:<26} {:>10.0} {:>7.2}  {:>9.0}  {p50:>8.0} {p99:>8.0} {p999:>8.0}",
                figures.rate,
                figures.rate / limit,
                figures.cost,
            );
        }
    }
    Ok(())
}

fn measure(load: &str, start: Start) -> Result<Figures> {
    let rig = Rig::new()?;
    let mut port = rig.client_port()?;
    let running = start(&rig)?;
    let load = if load == "rtp" { Load::Rtp } else { Load::Invite };
    let mut frames = Frames::new(load, &running.flows, rig.mac(&rig.client)?, rig.mac(&rig.system)?);
    let mut attempt = |rate: f64, length| pinned(&mut port, &mut frames, rate, length);
    attempt(10_000.0, Duration::from_millis(300));
    let (rate, _) = search::highest(LIMIT, |rate| attempt(rate, TRIAL));
    let before = (running.time)()?;
    let account = attempt(rate / 2.0, TRIAL * 5);
    let cost = ((running.time)()? - before).as_nanos() as f64 / account.arrived.max(1) as f64;
    let latency = [0.5, 0.99, 0.999].map(|q| account.latency.value_at_quantile(q) as f64 / 1000.0);
    Ok(Figures { rate, cost, latency })
}

/// On a thread of its own, so that what is started later is not pinned with it.
fn pinned(port: &mut Port, frames: &mut Frames, rate: f64, length: Duration) -> Account {
    std::thread::scope(|scope| {
        let pinned = scope.spawn(|| {
            pin::pin(CLIENT_CORE);
            generator::run(port, frames, rate, length)
        });
        pinned.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
