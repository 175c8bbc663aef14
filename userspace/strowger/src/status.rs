//! `strowger status`: a running node, for people or as JSON.

use anyhow::{Context as _, Result, bail};
use control::{admin::socket, configure};
use serde_json::Value;
use std::path::{Path, PathBuf};

pub(crate) fn status(file: Option<&Path>, socket: Option<&Path>, json: bool) -> Result<()> {
    let status = ask(file, socket, "status")?;
    if json {
        println!("{status}");
    } else {
        print_status(&status);
    }
    Ok(())
}

/// Asks the running node of a configuration, or the one at a socket.
pub(crate) fn ask(file: Option<&Path>, socket: Option<&Path>, request: &str) -> Result<Value> {
    let path: PathBuf = match (socket, file) {
        (Some(socket), _) => socket.to_owned(),
        (None, Some(file)) => configure::load(file)?.status_socket,
        (None, None) => bail!("expected a configuration file or --socket"),
    };
    let answer =
        socket::ask(&path, request).with_context(|| format!("no node answers on {}", path.display()))?;
    let answer: Value = serde_json::from_str(&answer).context("the node's answer is no JSON")?;
    if let Some(error) = answer["error"].as_str() {
        bail!("the node says: {error}");
    }
    Ok(answer)
}

fn print_status(s: &Value) {
    let text = |v: &Value| v.as_str().unwrap_or("-").to_owned();
    let rows = |v: &Value| v.as_array().cloned().unwrap_or_default();
    println!(
        "node {}  backend {}  up {:.0} s  table {}",
        text(&s["node"]),
        text(&s["backend"]),
        s["uptime_s"].as_f64().unwrap_or_default(),
        s["generation"]
    );
    for region in rows(&s["regions"]) {
        let local = if region["local"] == true { " (local)" } else { "" };
        println!(
            "region {}{local}: {} of {} peers available",
            text(&region["name"]),
            region["available"],
            region["peers"]
        );
    }
    println!(
        "\n{:<12} {:<10} {:<7} {:<22} {:<10} {:>8} {:>9} {:>9} {:>7} {:>7} {:>9}",
        "peer",
        "service",
        "region",
        "address",
        "state",
        "since",
        "attempts",
        "answered",
        "failed",
        "active",
        "rtt"
    );
    for p in rows(&s["peers"]) {
        let rtt = p["probe_rtt_us"].as_u64().map_or_else(|| "-".to_owned(), |us| format!("{us} us"));
        println!(
            "{:<12} {:<10} {:<7} {:<22} {:<10} {:>6.0} s {:>9} {:>9} {:>7} {:>7} {:>9}",
            text(&p["name"]),
            text(&p["service"]),
            text(&p["region"]),
            text(&p["address"]),
            text(&p["state"]),
            p["since_s"].as_f64().unwrap_or_default(),
            p["attempts"].to_string(),
            p["answered"].to_string(),
            p["failed"].to_string(),
            p["active"].to_string(),
            rtt
        );
    }
    println!(
        "\n{:<8} {:>5} {:>9} {:>12} {:>14} {:>13} {:>9} {:>13}",
        "worker", "core", "calls", "sip", "media", "transactions", "sessions", "kernel drops"
    );
    for w in rows(&s["workers"]) {
        let core = w["core"].as_u64().map_or_else(|| "-".to_owned(), |c| c.to_string());
        println!(
            "{:<8} {core:>5} {:>9} {:>12} {:>14} {:>13} {:>9} {:>13}",
            w["worker"].to_string(),
            w["calls"].to_string(),
            w["sip_received"].to_string(),
            w["media_relayed"].to_string(),
            w["gauges"]["transactions"].to_string(),
            w["gauges"]["media_sessions"].to_string(),
            w["gauges"]["kernel_drops"].to_string()
        );
    }
    for x in rows(&s["xdp"]) {
        println!(
            "\nxdp on {} ({}, {}): {}",
            text(&x["interface"]),
            text(&x["device"]),
            text(&x["mode"]),
            pairs(&x["verdicts"])
        );
    }
    println!("\ncounters: {}", pairs(&s["counters"]));
    println!("drops: {}", pairs(&s["drops"]));
    let l = &s["latency_us"];
    println!(
        "latency in the node: p50 {} us, p99 {} us, p99.9 {} us, max {} us ({} packets)",
        l["p50"], l["p99"], l["p999"], l["max"], l["count"]
    );
    for e in rows(&s["events"]).iter().rev().take(10) {
        println!(
            "{} {}: {} -> {} ({})",
            e["at_unix_ms"],
            text(&e["peer"]),
            text(&e["from"]),
            text(&e["to"]),
            text(&e["cause"])
        );
    }
}

fn pairs(v: &Value) -> String {
    let shown = v.as_object().into_iter().flatten().filter(|(_, n)| n.as_u64() != Some(0));
    let list: Vec<_> = shown.map(|(name, n)| format!("{name} {n}")).collect();
    if list.is_empty() { "none".to_owned() } else { list.join(", ") }
}
