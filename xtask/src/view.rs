//! The demo's live table.

use serde_json::Value;
use std::{
    collections::HashMap,
    fmt::Write as _,
    io::{IsTerminal as _, Write as _},
    time::{Duration, Instant},
};

/// How often a line is printed where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Shows a node's status again and again.
pub(crate) struct View {
    terminal: bool,
    lines: usize,
    attempts: HashMap<String, (Instant, u64)>,
    last_line: Option<Instant>,
}

/// What the demo itself knows.
pub(crate) struct Scene<'a> {
    pub(crate) elapsed: Duration,
    pub(crate) total: Duration,
    pub(crate) act: &'a str,
    pub(crate) placed: u64,
    pub(crate) failed: u64,
}

impl View {
    pub(crate) fn new() -> Self {
        Self {
            terminal: std::io::stdout().is_terminal(),
            lines: 0,
            attempts: HashMap::new(),
            last_line: None,
        }
    }

    pub(crate) fn show(&mut self, scene: &Scene<'_>, status: &Value) {
        if self.terminal {
            let text = self.table(scene, status);
            let up = if self.lines > 0 { format!("\x1b[{}A", self.lines) } else { String::new() };
            print!("{up}\x1b[J{text}");
            let _ = std::io::stdout().flush();
            self.lines = text.lines().count();
        } else if self.last_line.is_none_or(|at| at.elapsed() >= LINE_EVERY) {
            self.last_line = Some(Instant::now());
            println!("{}", line(scene, status));
        }
    }

    fn table(&mut self, scene: &Scene<'_>, status: &Value) -> String {
        let mut t = String::new();
        let (now, total) = (scene.elapsed.as_secs(), scene.total.as_secs());
        let filled = (scene.elapsed.as_secs_f64() / scene.total.as_secs_f64() * 40.0).min(40.0) as usize;
        let _ = writeln!(
            t,
            "\n  [{}{}] {now:>3} of {total} s   {}",
            "#".repeat(filled),
            ".".repeat(40 - filled),
            scene.act
        );
        for region in rows(&status["regions"]) {
            let all = region["available"] == region["peers"];
            let colour = if all {
                32
            } else if region["available"] == 0 {
                31
            } else {
                33
            };
            let local = if region["local"] == true { "local region, tried first" } else { "other region" };
            let _ = writeln!(
                t,
                "  region {:<3} \x1b[{colour}m{} of {} peers available\x1b[0m  ({local})",
                text(&region["name"]),
                region["available"],
                region["peers"]
            );
        }
        let _ = writeln!(
            t,
            "\n  {:<6} {:<7} {:<11} {:>7} {:>8} {:>9} {:>9} {:>7} {:>7}",
            "peer", "region", "health", "for", "calls/s", "attempts", "answered", "failed", "active"
        );
        for peer in rows(&status["peers"]) {
            let colour = match text(&peer["state"]) {
                "HEALTHY" => 32,
                "UNHEALTHY" => 31,
                _ => 33,
            };
            let rate = self.rate(text(&peer["name"]), peer["attempts"].as_u64().unwrap_or_default());
            let _ = writeln!(
                t,
                "  {:<6} {:<7} \x1b[{colour}m{:<11}\x1b[0m {:>5.0} s {rate:>8.1} {:>9} {:>9} {:>7} {:>7}",
                text(&peer["name"]),
                text(&peer["region"]),
                text(&peer["state"]),
                peer["since_s"].as_f64().unwrap_or_default(),
                cell(&peer["attempts"]),
                cell(&peer["answered"]),
                cell(&peer["failed"]),
                cell(&peer["active"])
            );
        }
        let c = &status["counters"];
        let l = &status["latency_us"];
        let _ = writeln!(
            t,
            "\n  calls placed {}   answered {}   rescued by a retry {}   \x1b[1mfailed {}\x1b[0m",
            scene.placed, c["calls_answered"], c["calls_rescued"], scene.failed
        );
        let _ = writeln!(
            t,
            "  media packets relayed {}   latency in the node: p50 {:.0} us, p99 {:.0} us",
            c["media_relayed"],
            number(&l["p50"]),
            number(&l["p99"])
        );
        for event in rows(&status["events"]).iter().rev().take(4) {
            let _ = writeln!(
                t,
                "  {} {} -> {} ({})",
                text(&event["name"]),
                text(&event["from"]),
                text(&event["to"]),
                text(&event["cause"])
            );
        }
        t
    }

    /// Attempts a second since the last look, smoothed over at least one second.
    fn rate(&mut self, peer: &str, attempts: u64) -> f64 {
        let now = Instant::now();
        let (since, before) = *self.attempts.entry(peer.to_owned()).or_insert((now, attempts));
        let elapsed = now.duration_since(since).as_secs_f64();
        if elapsed > 2.0 {
            self.attempts.insert(
                peer.to_owned(),
                (
                    now - Duration::from_secs(1),
                    before + ((attempts - before) as f64 * (1.0 - 1.0 / elapsed)) as u64,
                ),
            );
        }
        if elapsed < 0.2 { 0.0 } else { (attempts - before) as f64 / elapsed }
    }
}

fn line(scene: &Scene<'_>, status: &Value) -> String {
    let peers: Vec<_> = rows(&status["peers"])
        .iter()
        .map(|p| format!("{} {} {}", text(&p["name"]), text(&p["state"]), p["attempts"]))
        .collect();
    format!(
        "  {:>3} s  {:<44} calls {} answered {} failed {}  | {}",
        scene.elapsed.as_secs(),
        scene.act,
        scene.placed,
        status["counters"]["calls_answered"],
        scene.failed,
        peers.join(", ")
    )
}

pub(crate) fn rows(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("-")
}

/// A value as text that can be padded.
fn cell(value: &Value) -> String {
    value.to_string()
}

pub(crate) fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_default()
}
