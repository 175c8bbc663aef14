//! Whole systems side by side on one rig, in one run.
#![forbid(unsafe_code)]

use anyhow::{Result, bail};
use bench::{
    report::Report,
    rig::generator::Trial,
    run::{
        Effort,
        contest::{self, Contest, Figures},
        failover, memory, scaling,
    },
};
use clap::Parser;
use std::{path::PathBuf, time::Duration};

/// Measures systems side by side.
#[derive(Debug, Parser)]
#[command(name = "rig")]
struct Args {
    /// Everything, in some 40 minutes.
    #[arg(long)]
    full: bool,
    /// Directory to write the report to.
    #[arg(long)]
    report: Option<PathBuf>,
    /// Measure nothing: write page and charts of the report anew, from its data.
    #[arg(long, requires = "report")]
    redraw: bool,
    /// Only systems whose name contains this.
    #[arg(long, default_value = "")]
    system: String,
    /// No search: only this rate, for ten seconds.
    #[arg(long)]
    rate: Option<f64>,
    /// Only these: names of contests, or sessions, peers, workers, failover, memory.
    names: Vec<String>,
}

/// Calls whose memory is compared: as many as rtpengine's ports are enough for here.
const MEMORY_CALLS: usize = 2_000;
/// Length of a trial at a given rate.
const SUSTAINED: Duration = Duration::from_secs(10);

fn main() -> Result<()> {
    let args = Args::parse();
    if let (true, Some(directory)) = (args.redraw, &args.report) {
        return Report::read(directory)?.draw(directory);
    }
    lab::namespace::require_root()?;
    let effort = if args.full { Effort::FULL } else { Effort::QUICK };
    let contests = contest::all();
    let others = ["sessions", "peers", "workers", "failover", "memory"];
    let known: Vec<&str> = contests.iter().map(|c| c.name).chain(others).collect();
    if let Some(name) = args.names.iter().find(|name| !known.contains(&name.as_str())) {
        bail!("\"{name}\", expected one of {}", known.join(", "));
    }
    let wanted = |name: &str, is_quick| match args.names.is_empty() {
        true => effort.full || is_quick,
        false => args.names.iter().any(|n| n == name),
    };
    let chosen = || contests.iter().filter(|c| wanted(c.name, c.is_quick()));
    if let Some(rate) = args.rate {
        return chosen().try_for_each(|contest| sustain(contest, &args.system, rate));
    }
    let mut report = Report::new(command(&args))?;
    // After each part, so that what was measured is not lost with what goes wrong later.
    let keep = |report: &Report| args.report.as_ref().map_or(Ok(()), |directory| report.write(directory));
    for contest in chosen() {
        report.contests.push(hold(contest, effort, &args.system)?);
        keep(&report)?;
    }
    let point = |p: &scaling::Point| {
        let echo = p.echo_ns.map_or_else(String::new, |ns| format!("  {ns:>8.0} ns bare echo"));
        println!("  {:>8}  {:>8.0} ns strowger{echo}", p.count, p.strowger_ns);
    };
    if wanted("sessions", false) {
        println!("\nsessions: worker time for a packet of RTP, by number of calls");
        report.scaling.push(scaling::sessions(effort, point)?);
    }
    if wanted("peers", false) {
        println!("\npeers: worker time for an INVITE without state, by number of peers");
        report.scaling.push(scaling::peers(effort, point)?);
    }
    if wanted("workers", false) {
        println!("\nworkers: time of all workers for an INVITE without state, by their number");
        report.scaling.push(scaling::workers(effort, point)?);
    }
    keep(&report)?;
    if wanted("failover", false) {
        println!("\nfailover: one of two peers dies under {} calls/s", failover::RATE);
        report.failover = failover::measure()?;
        for f in &report.failover {
            println!(
                "  {:<26} {} of {} calls failed, last INVITE to the dead peer after {:.0} ms, longest call {:.0} ms",
                f.system, f.failed, f.calls, f.last_to_dead_ms, f.max_ms
            );
        }
    }
    if wanted("memory", false) {
        println!("\nmemory: of each call whose media is relayed");
        report.memory = memory::measure(MEMORY_CALLS)?;
        for m in &report.memory {
            println!("  {:<26} {:>8.1} KiB", m.system, m.each() / 1024.0);
        }
    }
    keep(&report)?;
    if let Some(directory) = &args.report {
        println!("\nwritten to {}", directory.display());
    }
    Ok(())
}

/// The command that measures the same again.
fn command(args: &Args) -> String {
    if args.full && args.names.is_empty() && args.system.is_empty() {
        return "cargo xtask bench --full".to_owned();
    }
    let given: Vec<_> = std::env::args().skip(1).collect();
    format!("cargo run --release --package bench --bin rig -- {}", given.join(" "))
}

fn sustain(contest: &Contest, only: &str, rate: f64) -> Result<()> {
    println!("\n{}: {}, at {rate} {}", contest.name, contest.title, contest.unit);
    contest.sustain(only, Trial::new(rate, SUSTAINED), |name, outcome, busy| {
        println!(
            "  {name:<26} {:>10.0} sent, {} lost, {} late; p50 {:.0} p99 {:.0} p99.9 {:.0} longest {:.0} us; {:.0} % busy",
            outcome.sent,
            outcome.lost,
            outcome.late,
            outcome.p50_us,
            outcome.p99_us,
            outcome.p999_us,
            outcome.max_us,
            busy * 100.0
        );
    })
}

fn hold(contest: &Contest, effort: Effort, only: &str) -> Result<contest::Standing> {
    println!("\n{}: {}", contest.name, contest.title);
    println!(
        "  {:<26} {:>10} {:>6}  {:>8} {:>8} {:>8}  {:>8} {:>8} {:>8} {:>8}",
        "system",
        contest.unit,
        "ratio",
        "p50 us",
        "p99 us",
        "p99.9 us",
        "ns each",
        "user",
        "system",
        "softirq"
    );
    let searches = contest.searches(effort);
    if searches > 1 {
        println!("  ({searches} searches, all systems in turn: the first line takes some minutes)");
    }
    let mut reference = None;
    contest.hold(effort, only, |figures| {
        reference = reference.or_else(|| figures.best.as_ref().map(|b| b.rate));
        println!("{}", line(figures, reference));
    })
}

fn line(figures: &Figures, reference: Option<f64>) -> String {
    let Some((best, reference)) = figures.best.as_ref().zip(reference) else {
        return format!("  {:<26} no rate without loss", figures.system);
    };
    let mut line = format!("  {:<26} {:>10.0} {:>6.2}", figures.system, best.rate, best.rate / reference);
    if let Some(half) = &figures.half {
        line += &format!("  {:>8.0} {:>8.0} {:>8.0}", half.p50_us, half.p99_us, half.p999_us);
    }
    if let Some(cost) = &figures.cost {
        line += &format!("  {:>8.0}", cost.threads_ns);
        if let Some(core) = &cost.core {
            line += &format!(" {:>8.0} {:>8.0} {:>8.0}", core.user_ns, core.system_ns, core.softirq_ns);
        }
    }
    line
}
