//! What a running node tells, as tables for people or as JSON.

use crate::talk::Where;
use anyhow::Result;
use serde_json::Value;
use std::{
    io::{IsTerminal as _, Write as _},
    time::Duration,
};

/// Everything.
pub(crate) fn status(node: &Where, json: bool) -> Result<()> {
    one("/v1/status", whole, node, json)
}

/// One thing.
pub(crate) fn one(path: &str, table: fn(&Value) -> String, node: &Where, json: bool) -> Result<()> {
    let answer = node.get(path)?;
    if json {
        println!("{answer}");
    } else {
        print!("{}", table(&answer));
    }
    Ok(())
}

/// A live table.
pub(crate) fn watch(node: &Where, every: f64) -> Result<()> {
    let every = Duration::from_secs_f64(every.clamp(0.1, 3600.0));
    let mut before: Option<Value> = None;
    loop {
        let status = node.get("/v1/status")?;
        // Whole at once, so that the screen does not flicker.
        let clear = if std::io::stdout().is_terminal() { "\x1b[H\x1b[2J" } else { "" };
        let text = format!(
            "{clear}{}{}\n{}\n{}{}",
            head(&status),
            rates(before.as_ref(), &status, every),
            regions(&status["regions"]),
            peers(&status["peers"]),
            recent(&status["events"], 8)
        );
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()?;
        before = Some(status);
        std::thread::sleep(every);
    }
}

fn rates(before: Option<&Value>, now: &Value, every: Duration) -> String {
    let rate = |name: &str| {
        let value = |s: &Value| s["counters"][name].as_u64().unwrap_or_default();
        let passed = before.map_or(0, |b| value(now).saturating_sub(value(b)));
        passed as f64 / every.as_secs_f64()
    };
    format!(
        "calls/s {:.0}  retries/s {:.0}  SIP/s {:.0}  media packets/s {:.0}\n",
        rate("calls"),
        rate("retries"),
        rate("sip_received"),
        rate("media_relayed")
    )
}

/// A text, or a dash where there is none.
pub(crate) fn text(v: &Value) -> String {
    v.as_str().unwrap_or("-").to_owned()
}

fn rows(v: &Value) -> Vec<Value> {
    v.as_array().cloned().unwrap_or_default()
}

fn seconds(v: &Value) -> String {
    v.as_f64().map_or_else(|| "-".to_owned(), |s| format!("{s:.0} s"))
}

/// A table whose columns are as wide as their widest cell; numbers stand at the right.
fn table(head: &[&str], body: &[Vec<String>]) -> String {
    let width = |i: usize| {
        let cells = body.iter().filter_map(|row| row.get(i)).map(|cell| cell.chars().count());
        cells.chain([head[i].len()]).max().unwrap_or_default()
    };
    let widths: Vec<_> = (0..head.len()).map(width).collect();
    let number = |i: usize| {
        let mut cells = body.iter().filter_map(|row| row.get(i)).filter(|c| *c != "-").peekable();
        cells.peek().is_some()
            && cells.all(|c| c.starts_with(|c: char| c.is_ascii_digit()) && !c.contains([':', '/']))
    };
    let numbers: Vec<_> = (0..head.len()).map(number).collect();
    let line = |cells: Vec<&str>| {
        let padded = cells.iter().enumerate().map(|(i, cell)| {
            let pad = " ".repeat(widths[i].saturating_sub(cell.chars().count()));
            if numbers[i] { format!("{pad}{cell}") } else { format!("{cell}{pad}") }
        });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    let body = body.iter().map(|row| line(row.iter().map(String::as_str).collect()));
    line(head.to_vec()) + &body.collect::<String>()
}

fn head(s: &Value) -> String {
    let state = if s["draining"] == true {
        "draining"
    } else if s["ready"] == true {
        "ready"
    } else {
        "NOT READY"
    };
    format!(
        "node {}  {state}  backend {}  up {}  table {}\n",
        text(&s["node"]),
        text(&s["backend"]),
        seconds(&s["uptime_s"]),
        s["generation"]
    )
}

pub(crate) fn regions(v: &Value) -> String {
    let row = |r: &Value| {
        let avoided: Vec<_> = rows(&r["avoided_by"]).iter().map(text).collect();
        vec![
            text(&r["name"]),
            if r["local"] == true { "local" } else { "other" }.to_owned(),
            format!("{} of {}", r["available"], r["peers"]),
            if avoided.is_empty() {
                "in use".to_owned()
            } else {
                format!("avoided by {}", avoided.join(", "))
            },
        ]
    };
    table(&["region", "kind", "available", "new calls"], &rows(v).iter().map(row).collect::<Vec<_>>())
}

pub(crate) fn peers(v: &Value) -> String {
    let row = |p: &Value| {
        let share = p["share"].as_u64().unwrap_or(100);
        let mut state = text(&p["state"]);
        if share < 100 {
            state += &format!(" {share} %");
        }
        if p["admission"] != "enabled" {
            state = format!("{} ({state})", text(&p["admission"]));
        }
        vec![
            text(&p["name"]),
            text(&p["service"]),
            text(&p["region"]),
            text(&p["address"]),
            state,
            seconds(&p["since_s"]),
            p["attempts"].to_string(),
            p["answered"].to_string(),
            p["failed"].to_string(),
            p["active"].to_string(),
            p["probe_rtt_us"].as_u64().map_or_else(|| "-".to_owned(), |us| format!("{us} us")),
        ]
    };
    let columns = [
        "peer", "service", "region", "address", "state", "since", "attempts", "answered", "failed", "active",
        "rtt",
    ];
    table(&columns, &rows(v).iter().map(row).collect::<Vec<_>>())
}

pub(crate) fn health(v: &Value) -> String {
    let source = |s: &Value| {
        vec![
            text(&s["name"]),
            text(&s["service"]),
            text(&s["region"]),
            text(&s["state"]),
            seconds(&s["since_s"]),
            format!("{} healthy, {} unhealthy, {} unknown", s["healthy"], s["unhealthy"], s["unknown"]),
            format!("{} % and {}", s["min_percent"], s["min_healthy"]),
        ]
    };
    let composite = |c: &Value| {
        let avoided = match (c["avoided"] == true, c["mode"] == "enforce") {
            (false, _) => "in use",
            (true, true) => "avoided",
            (true, false) => "would be avoided",
        };
        vec![
            text(&c["name"]),
            text(&c["mode"]),
            text(&c["region"]),
            text(&c["state"]),
            seconds(&c["since_s"]),
            avoided.to_owned(),
            seconds(&c["back_in_s"]),
        ]
    };
    let sources: Vec<_> = rows(&v["sources"]).iter().map(source).collect();
    let composites: Vec<_> = rows(&v["composites"]).iter().map(composite).collect();
    if sources.is_empty() && composites.is_empty() {
        return "no health source is configured\n".to_owned();
    }
    table(&["source", "service", "region", "state", "since", "peers", "needs"], &sources)
        + "\n"
        + &table(&["composite", "mode", "region", "state", "since", "its region is", "back in"], &composites)
}

pub(crate) fn names(v: &Value) -> String {
    let row = |n: &Value| {
        vec![
            text(&n["name"]),
            n["servers"].to_string(),
            text(&n["latest"]),
            seconds(&n["stale_s"]),
            seconds(&n["next_s"]),
            n["queries"].to_string(),
            n["failures"].to_string(),
        ]
    };
    let names: Vec<_> = rows(v).iter().map(row).collect();
    if names.is_empty() {
        return "no name is configured\n".to_owned();
    }
    table(&["name", "servers", "latest answer", "stale for", "next in", "look-ups", "failed"], &names)
}

pub(crate) fn events(v: &Value) -> String {
    let row = |e: &Value| {
        vec![
            utc(e["at_unix_ms"].as_u64().unwrap_or_default()),
            text(&e["kind"]),
            text(&e["name"]),
            format!("{} -> {}", text(&e["from"]), text(&e["to"])),
            text(&e["cause"]),
        ]
    };
    table(&["at (UTC)", "what", "name", "change", "cause"], &rows(v).iter().map(row).collect::<Vec<_>>())
}

fn recent(v: &Value, count: usize) -> String {
    let all = rows(v);
    if all.is_empty() {
        return String::new();
    }
    let latest = all[all.len().saturating_sub(count)..].to_vec();
    format!("\n{}", events(&Value::Array(latest)))
}

/// Time of day.
fn utc(unix_ms: u64) -> String {
    let (seconds, ms) = (unix_ms / 1000, unix_ms % 1000);
    format!("{:02}:{:02}:{:02}.{ms:03}", seconds / 3600 % 24, seconds / 60 % 60, seconds % 60)
}

fn whole(s: &Value) -> String {
    let mut out = head(s) + "\n" + &regions(&s["regions"]) + "\n" + &peers(&s["peers"]);
    if !rows(&s["health"]["sources"]).is_empty() || !rows(&s["health"]["composites"]).is_empty() {
        out += &format!("\n{}", health(&s["health"]));
    }
    if !rows(&s["names"]).is_empty() {
        out += &format!("\n{}", names(&s["names"]));
    }
    let worker = |w: &Value| {
        vec![
            w["worker"].to_string(),
            w["core"].as_u64().map_or_else(|| "-".to_owned(), |c| c.to_string()),
            w["calls"].to_string(),
            w["sip_received"].to_string(),
            w["media_relayed"].to_string(),
            w["gauges"]["transactions"].to_string(),
            w["gauges"]["media_sessions"].to_string(),
            w["gauges"]["kernel_drops"].to_string(),
        ]
    };
    let columns = ["worker", "core", "calls", "sip", "media", "transactions", "streams", "kernel drops"];
    out += &format!("\n{}", table(&columns, &rows(&s["workers"]).iter().map(worker).collect::<Vec<_>>()));
    for x in rows(&s["xdp"]) {
        out += &format!(
            "\nxdp on {} ({}, {}): {}\n",
            text(&x["interface"]),
            text(&x["device"]),
            text(&x["mode"]),
            pairs(&x["verdicts"])
        );
    }
    out += &format!("\ncounters: {}\ndrops: {}\n", pairs(&s["counters"]), pairs(&s["drops"]));
    let l = &s["latency_us"];
    out += &format!(
        "latency in the node: p50 {} us, p99 {} us, p99.9 {} us, max {} us ({} packets)\n",
        l["p50"], l["p99"], l["p999"], l["max"], l["count"]
    );
    out + &recent(&s["events"], 10)
}

fn pairs(v: &Value) -> String {
    let shown = v.as_object().into_iter().flatten().filter(|(_, n)| n.as_u64() != Some(0));
    let list: Vec<_> = shown.map(|(name, n)| format!("{name} {n}")).collect();
    if list.is_empty() { "none".to_owned() } else { list.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_aligned_and_numbers_stand_at_the_right() {
        let cells = |row: [&str; 3]| row.map(str::to_owned).to_vec();
        let shown = table(
            &["name", "n", "address"],
            &[cells(["a", "7", "192.0.2.1:1"]), cells(["long name", "1000", "-"])],
        );
        assert_eq!(shown, "name          n  address\na             7  192.0.2.1:1\nlong name  1000  -\n");
        assert_eq!(utc(86_399_007), "23:59:59.007");
    }
}
