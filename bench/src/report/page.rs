//! The page in Markdown.

use super::Report;
use crate::run::{
    contest::{Figures, Standing},
    failover::RATE,
    scaling::Series,
};
use std::fmt::Write as _;

pub(super) fn markdown(report: &Report) -> String {
    let mut out = String::from("# Measured\n\n");
    let machine = &report.machine;
    let versions: Vec<_> =
        machine.versions.iter().map(|(name, version)| format!("{name} {version}")).collect();
    let _ = write!(
        out,
        "All figures are of one run on {}, written by\n\n```sh\n{}\n```\n\n\
         | | |\n| --- | --- |\n| processor | {}, {} cores{} |\n| memory | {} MiB |\n| kernel | {} |\n| versions | {} |\n\n",
        machine.date,
        report.command,
        machine.processor,
        machine.cores,
        if machine.is_guest { ", of a virtual machine" } else { "" },
        machine.memory_mib,
        machine.kernel,
        versions.join(", "),
    );
    out.push_str(METHOD);
    for standing in &report.contests {
        contest(&mut out, standing);
    }
    if !report.scaling.is_empty() {
        out.push_str(
            "\n## More of something\n\nNanoseconds of the worker's threads for a packet, at one rate.\n",
        );
    }
    for series in &report.scaling {
        scaling(&mut out, series);
    }
    if !report.failover.is_empty() {
        let _ = write!(
            out,
            "\n## A peer dies under load\n\n{RATE} calls/s to two peers, one of which falls silent. strowger probes every \
             500 ms, Kamailio every second, which is the least that its dispatcher does; both take a call that was not \
             answered for two seconds to the other peer.\n\n\
             | system | calls after the death | failed | INVITEs to the dead peer | last one after | p99 of a call | longest |\n\
             | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n"
        );
    }
    for f in &report.failover {
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {:.0} ms | {:.0} ms | {:.0} ms |",
            f.system, f.calls, f.failed, f.to_dead, f.last_to_dead_ms, f.p99_ms, f.max_ms
        );
    }
    if !report.memory.is_empty() {
        out.push_str(
            "\n## Memory\n\nResident memory with relayed calls of one stream each.\n\n\
             | system | calls | with one call | with all | each call |\n| --- | ---: | ---: | ---: | ---: |\n",
        );
    }
    for m in &report.memory {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let _ = writeln!(
            out,
            "| {} | {} | {:.1} MiB | {:.1} MiB | {:.1} KiB |",
            m.system,
            thousands(m.calls as f64),
            mib(m.idle),
            mib(m.full),
            m.each() / 1024.0
        );
    }
    out
}

const METHOD: &str = "\
How: generator and system sit at the two ends of a veth pair with native XDP, each on a core of its own. The load is
open-loop: packets leave by the clock. The highest rate is the one at which nothing at all is lost or repeated and 99 %
arrive within 10 ms; it is searched to 3 %, in a full run twice for the loads that are drawn, all systems in turn, and
the better one counts. Latency is taken at half of it, from sending to arrival, through the system and back, in the
middle one of five trials. Processor time is compared at one rate for all that bear it: *threads* by the scheduler's
clock; *user*, *system* and *softirq* by samples of the whole core, in a trial of their own. veth has the receiving soft
interrupt run on the sender's core, so for every system here that part falls to the generator. rtpengine runs in user
space: this kernel has no module of it.

![highest rate](rate.svg)
![latency](latency.svg)
![processor time](cost.svg)
";

fn contest(out: &mut String, standing: &Standing) {
    let _ = write!(
        out,
        "\n## {}\n\n| system | {} | ratio | p50 | p99 | p99.9 | threads | user | system | softirq |\n\
         | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
        standing.title, standing.unit
    );
    let reference = standing.figures.first().and_then(|f| f.best.as_ref()).map(|b| b.rate);
    for figures in &standing.figures {
        let _ = writeln!(out, "{}", row(figures, reference));
    }
    let rate = standing.figures.iter().find_map(|f| f.cost.as_ref()).map(|c| c.rate);
    if let Some(rate) = rate {
        let rate = thousands((rate / 100.0).round() * 100.0);
        let _ = writeln!(
            out,
            "\nLatency in microseconds; processor time in nanoseconds, at {rate} {}.",
            standing.unit
        );
    }
}

/// One system.
fn row(figures: &Figures, reference: Option<f64>) -> String {
    let none = || "–".to_owned();
    let best = figures.best.as_ref();
    let rate = best.map_or_else(none, |b| thousands(b.rate));
    let ratio = best.zip(reference).map_or_else(none, |(b, r)| format!("{:.2}", b.rate / r));
    let half = figures.half.as_ref();
    let latency = half.map_or([none(), none(), none()], |h| [h.p50_us, h.p99_us, h.p999_us].map(thousands));
    let cost = figures.cost.as_ref();
    let threads = cost.map_or_else(none, |c| thousands(c.threads_ns));
    let core = cost.and_then(|c| c.core.as_ref());
    let core =
        core.map_or([none(), none(), none()], |c| [c.user_ns, c.system_ns, c.softirq_ns].map(thousands));
    format!(
        "| {} | {rate} | {ratio} | {} | {threads} | {} |",
        figures.system,
        latency.join(" | "),
        core.join(" | ")
    )
}

fn scaling(out: &mut String, series: &Series) {
    let with_echo = series.points.iter().any(|p| p.echo_ns.is_some());
    let (head, line) = if with_echo { (" bare echo |", " ---: |") } else { ("", "") };
    let _ = write!(
        out,
        "\n{} at {} packets/s:\n\n| {} | strowger |{head}\n| ---: | ---: |{line}\n",
        series.load,
        thousands(series.rate),
        series.of
    );
    for point in &series.points {
        let echo = point.echo_ns.map_or_else(String::new, |ns| format!(" {} |", thousands(ns)));
        let _ =
            writeln!(out, "| {} | {} |{echo}", thousands(point.count as f64), thousands(point.strowger_ns));
    }
}

/// A whole number with its thousands set apart.
pub(super) fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!([0.4, 999.6, 1_234_567.0].map(thousands), ["0", "1,000", "1,234,567"]);
    }
}
