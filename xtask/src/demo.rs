//! The main job in five minutes: real calls through XDP, failing over between two regions.

use crate::{
    build, setup,
    view::{Scene, View, number, rows, text},
};
use anyhow::{Context as _, Result, bail, ensure};
use lab::{
    StrowgerNode, TwoRegions, namespace,
    rtp::{MediaCall, StreamResult, stream},
    sipp::{self, Calls, RunningSipp},
    two_regions::{CONFIG, NODE},
};
use serde_json::{Value, json};
use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

const STREAMS: u32 = 24;
const RATE: u64 = 20;
/// Calls last this long, media included.
const CALL_MS: u64 = 2500;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Write the summary as JSON to a file.
    #[arg(long)]
    json: Option<PathBuf>,
    /// How long calls are placed; at least 24.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
}

/// What killing one peer did.
struct Kill {
    peer: &'static str,
    at_unix_ms: u64,
    before: Value,
    after: Value,
}

pub(crate) fn demo(options: &Options) -> Result<()> {
    ensure!(options.seconds >= 24, "--seconds {}, expected at least 24", options.seconds);
    namespace::require_root().context("no privileges needed: examples/udp.toml with `strowger run`")?;
    println!("strowger demo: a carrier, one node, two regions with two peers each\n");
    println!("1. What is needed");
    setup::setup(false)?;
    println!("2. Build");
    build::build()?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    namespace::sweep()?;
    println!("3. Lab: network namespaces, veth links, SIPp as carrier and peers");
    let shown = perform(options, &stop);
    let leftovers = namespace::leftovers()?;
    ensure!(leftovers.is_empty(), "left behind: {leftovers:?}");
    let (summary, faults) = shown?;
    println!("  namespaces, processes, XDP programs and files are removed.");
    if let Some(path) = &options.json {
        std::fs::write(path, serde_json::to_string_pretty(&summary)?)
            .with_context(|| path.display().to_string())?;
        println!("  summary written to {}", path.display());
    }
    if !faults.is_empty() {
        bail!("the demo did not go as it should:\n  {}", faults.join("\n  "));
    }
    println!(
        "\n  Next: examples/ holds configurations, docs/operating.md says how to run a node of your own."
    );
    Ok(())
}

/// The stage: everything of it goes when this function returns, however it does.
fn perform(options: &Options, stop: &AtomicBool) -> Result<(Value, Vec<String>)> {
    let mut lab = TwoRegions::new(1)?;
    lab.start_all_peers()?;
    let node = lab.start_healthy(CONFIG)?;
    println!(
        "   node {NODE}, XDP {} on both interfaces, all peers HEALTHY\n",
        text(&node.status()?["xdp"][0]["mode"])
    );
    println!(
        "4. {RATE} calls/s with audio, and {STREAMS} streams whose every packet is checked. Ctrl-C ends it cleanly."
    );
    let mut stage = Stage {
        lab,
        stop,
        start: Instant::now(),
        total: Duration::from_secs(options.seconds),
        view: View::new(),
        caller: None,
        kills: Vec::new(),
    };
    stage.play()
}

struct Stage<'a> {
    lab: TwoRegions,
    stop: &'a AtomicBool,
    start: Instant,
    total: Duration,
    view: View,
    caller: Option<RunningSipp>,
    kills: Vec<Kill>,
}

impl Stage<'_> {
    fn play(&mut self) -> Result<(Value, Vec<String>)> {
        let calls = (self.total.as_secs() * RATE).to_string();
        let args = ["-r", &RATE.to_string(), "-m", &calls, "-d", &CALL_MS.to_string(), "-timeout", "600"];
        self.caller = Some(self.lab.start_caller(sipp::CALL, 5070, &args)?);
        let at = |percent: u32| self.total * percent / 100;
        let acts = [at(25), at(45), at(65), at(100)];
        let streams = self.streams(acts[0].saturating_sub(Duration::from_secs(2)))?;
        self.until(acts[0], "all well: calls go to region A")?;
        self.kill("a1");
        self.until(acts[1], "peer a1 was killed: a2 takes its calls")?;
        self.kill("a2");
        self.until(acts[2], "region A is dead: calls go to region B")?;
        self.conclude_kills();
        for peer in ["a1", "a2"] {
            self.lab.start_peer(peer, sipp::ANSWER, &["-rtp_echo"])?;
        }
        self.until(acts[3], "region A is back: calls return to it")?;
        let calls = self.finish_calls()?;
        let status = self.node()?.status()?;
        self.lab.node.as_mut().context("the node")?.stop()?;
        let faults = self.faults(&calls, &streams, &status);
        let summary = self.summary(&calls, &streams, &status);
        print_summary(&summary);
        Ok((summary, faults))
    }

    fn node(&self) -> Result<&StrowgerNode> {
        self.lab.node.as_ref().context("the node")
    }

    fn calls(&self) -> Calls {
        self.caller.as_ref().map(RunningSipp::calls).unwrap_or_default()
    }

    /// Runs the checked streams beside the calls, on a thread in the carrier's namespace.
    fn streams(&mut self, length: Duration) -> Result<Vec<StreamResult>> {
        let carrier = &self.lab.carrier;
        let done = AtomicBool::new(false);
        let (node, stop, start, total) = (self.lab.node.as_ref(), self.stop, self.start, self.total);
        let (caller, view) = (self.caller.as_ref(), &mut self.view);
        thread::scope(|scope| {
            let streaming = scope.spawn(|| {
                let result = carrier.enter(|| checked_streams(length));
                done.store(true, Ordering::Relaxed);
                result
            });
            while !done.load(Ordering::Relaxed) && !stop.load(Ordering::Relaxed) {
                let calls = caller.map(RunningSipp::calls).unwrap_or_default();
                let act = "all well: calls go to region A";
                let scene = Scene {
                    elapsed: start.elapsed(),
                    total,
                    act,
                    placed: calls.placed,
                    failed: calls.failed,
                };
                if let Some(status) = node.and_then(|n| n.status().ok()) {
                    view.show(&scene, &status);
                }
                thread::sleep(Duration::from_millis(500));
            }
            streaming.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?
    }

    /// Shows the table until a time of the demo.
    fn until(&mut self, end: Duration, act: &str) -> Result<()> {
        while self.start.elapsed() < end {
            self.show(act)?;
            thread::sleep(Duration::from_millis(500));
        }
        Ok(())
    }

    fn show(&mut self, act: &str) -> Result<()> {
        ensure!(!self.stop.load(Ordering::Relaxed), "stopped by a signal");
        let status = self.node()?.status().context("the node does not answer")?;
        let calls = self.calls();
        let scene = Scene {
            elapsed: self.start.elapsed(),
            total: self.total,
            act,
            placed: calls.placed,
            failed: calls.failed,
        };
        self.view.show(&scene, &status);
        Ok(())
    }

    fn kill(&mut self, peer: &'static str) {
        self.conclude_kills();
        let before = self.node().and_then(StrowgerNode::status).unwrap_or_default();
        self.lab.kill_peer(peer);
        self.kills.push(Kill { peer, at_unix_ms: unix_ms(), before, after: Value::Null });
    }

    /// Notes the state at the end of the latest kill's act.
    fn conclude_kills(&mut self) {
        let status = self.node().and_then(StrowgerNode::status).unwrap_or_default();
        if let Some(kill) = self.kills.last_mut() {
            kill.after = status;
        }
    }

    fn finish_calls(&mut self) -> Result<Calls> {
        let deadline = Instant::now() + Duration::from_secs(45);
        while self.caller.as_mut().is_some_and(|c| !c.has_ended()) {
            ensure!(Instant::now() < deadline, "calls do not end");
            self.show("the last calls end")?;
            thread::sleep(Duration::from_millis(300));
        }
        Ok(self.calls())
    }

    fn faults(&self, calls: &Calls, streams: &[StreamResult], status: &Value) -> Vec<String> {
        let mut faults = Vec::new();
        let placed = self.total.as_secs() * RATE;
        if calls.placed != placed || calls.failed != 0 {
            faults.push(format!(
                "{} of {placed} calls placed, {} failed: {}",
                calls.placed,
                calls.failed,
                self.caller.as_ref().map(RunningSipp::errors).unwrap_or_default()
            ));
        }
        let answered = status["counters"]["calls_answered"].as_u64().unwrap_or_default();
        let expected = placed + u64::from(STREAMS);
        if answered != expected {
            faults.push(format!("{answered} of {expected} calls answered"));
        }
        if streams.len() != STREAMS as usize || streams.iter().any(|s| s.sent != s.echoed || s.wrong != 0) {
            faults.push(format!("streams lost packets: {streams:?}"));
        }
        for kill in &self.kills {
            match kill.detection_ms(status) {
                None => faults.push(format!("the death of {} was not noticed", kill.peer)),
                Some(took) if took > kill.bound_ms() + 100 => {
                    faults.push(format!(
                        "{}: noticed after {took} ms, the bound is {} ms",
                        kill.peer,
                        kill.bound_ms()
                    ));
                }
                Some(_) => {}
            }
        }
        let moved =
            |kill: &Kill, region: &str| attempts(&kill.after, region) > attempts(&kill.before, region);
        if let [_, second] = &self.kills[..]
            && !moved(second, "B")
        {
            faults.push("region B took no call while region A was dead".to_owned());
        }
        if let [_, second] = &self.kills[..]
            && attempts(status, "A") <= attempts(&second.after, "A")
        {
            faults.push("no call returned to region A".to_owned());
        }
        faults
    }

    fn summary(&self, calls: &Calls, streams: &[StreamResult], status: &Value) -> Value {
        let counter = |v: &Value, name: &str| v["counters"][name].as_u64().unwrap_or_default();
        let kills: Vec<_> = self
            .kills
            .iter()
            .map(|k| {
                let grown = |name| counter(&k.after, name) - counter(&k.before, name);
                json!({
                    "peer": k.peer,
                    "detected_after_ms": k.detection_ms(status),
                    "bound_ms": k.bound_ms(),
                    "calls_retried": grown("retries"),
                    "calls_rescued": grown("calls_rescued"),
                    "new_calls_lost": grown("calls_failed"),
                    "calls_in_progress_ended": grown("dialogs_lost"),
                })
            })
            .collect();
        let sum = |f: fn(&StreamResult) -> u64| streams.iter().map(f).sum::<u64>();
        json!({
            "calls": { "placed": calls.placed, "completed": calls.successful, "failed": calls.failed, "answered": counter(status, "calls_answered") },
            "streams": { "count": streams.len(), "packets_sent": sum(|s| s.sent), "packets_echoed": sum(|s| s.echoed), "packets_wrong": sum(|s| s.wrong) },
            "kills": kills,
            "peers": status["peers"],
            "xdp": status["xdp"],
            "drops": status["drops"],
            "counters": status["counters"],
            "latency_us": status["latency_us"],
            "events": status["events"],
        })
    }
}

impl Kill {
    /// Milliseconds from the kill to the peer being UNHEALTHY.
    fn detection_ms(&self, status: &Value) -> Option<u64> {
        let noticed =
            rows(&status["events"]).iter().filter(|e| e["name"] == self.peer && e["to"] == "UNHEALTHY");
        noticed
            .filter_map(|e| e["at_unix_ms"].as_u64())
            .find(|at| *at >= self.at_unix_ms)
            .map(|at| at - self.at_unix_ms)
    }

    fn bound_ms(&self) -> u64 {
        rows(&self.before["peers"])
            .iter()
            .find(|p| p["name"] == self.peer)
            .and_then(|p| p["detection_bound_ms"].as_u64())
            .unwrap_or_default()
    }
}

/// Places the streams' calls, streams, and hangs up. Inside the carrier's namespace.
fn checked_streams(length: Duration) -> Result<Vec<StreamResult>> {
    let local = "192.0.2.10:0".parse()?;
    let mut calls =
        (0..STREAMS).map(|n| MediaCall::place(local, NODE.parse()?, n)).collect::<Result<Vec<_>>>()?;
    stream(&mut calls, length)?;
    calls.into_iter().map(MediaCall::hang_up).collect()
}

/// Call attempts to a region's peers.
fn attempts(status: &Value, region: &str) -> u64 {
    rows(&status["peers"])
        .iter()
        .filter(|p| p["region"] == region)
        .filter_map(|p| p["attempts"].as_u64())
        .sum()
}

fn print_summary(s: &Value) {
    println!("\nSummary");
    let c = &s["calls"];
    println!(
        "  calls      {} placed, {} answered (streams included), {} failed",
        c["placed"], c["answered"], c["failed"]
    );
    let m = &s["streams"];
    println!(
        "  streams    {} of 50 packets/s each way: {} sent, {} came back, {} wrong",
        m["count"], m["packets_sent"], m["packets_echoed"], m["packets_wrong"]
    );
    for k in rows(&s["kills"]) {
        println!(
            "  kill {}    noticed after {} ms (bound {} ms), {} attempts retried, {} new calls lost, {} calls in progress ended",
            text(&k["peer"]),
            k["detected_after_ms"],
            k["bound_ms"],
            k["calls_retried"],
            k["new_calls_lost"],
            k["calls_in_progress_ended"]
        );
    }
    for x in rows(&s["xdp"]) {
        println!("  xdp        {} ({}): {}", text(&x["interface"]), text(&x["mode"]), pairs(&x["verdicts"]));
    }
    println!("  dropped    {}", pairs(&s["drops"]));
    println!(
        "  slow path  {} packets sent through the kernel, {} received",
        s["counters"]["slow_path_sent"], s["counters"]["slow_path_received"]
    );
    let l = &s["latency_us"];
    println!(
        "  latency    in the node, from the XDP program to the hand-over for sending: p50 {:.0} us, p99 {:.0} us, p99.9 {:.0} us, max {:.0} us ({} packets)",
        number(&l["p50"]),
        number(&l["p99"]),
        number(&l["p999"]),
        number(&l["max"]),
        l["count"]
    );
}

fn pairs(value: &Value) -> String {
    let list: Vec<_> =
        value.as_object().into_iter().flatten().map(|(name, n)| format!("{name} {n}")).collect();
    if list.is_empty() { "none".to_owned() } else { list.join(", ") }
}

fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64)
}
