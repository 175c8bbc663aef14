//! All tests, suite by suite, with one line each and a count at the end.

use crate::{bench, ebpf, root, say, setup, tidy};
use anyhow::{Result, bail};
use lab::namespace;
use std::process::Command;

struct Suite {
    name: &'static str,
    what: &'static str,
    args: &'static [&'static str],
}

const fn suite(name: &'static str, what: &'static str, args: &'static [&'static str]) -> Suite {
    Suite { name, what, args }
}

/// Suites that this program runs itself.
const TIDY: &str = "tidy";
const INSTRUCTIONS: &str = "instructions";

const SUITES: &[Suite] = &[
    suite("format", "rustfmt", &["fmt", "--all", "--check"]),
    suite(
        "lints",
        "clippy, warnings are errors",
        &["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"],
    ),
    suite(
        "unit",
        "unit and virtual-time tests of all crates",
        &["test", "--workspace", "--exclude", "lab", "--exclude", "hostile", "--no-fail-fast"],
    ),
    suite(
        "hostile",
        "mutated frames and messages, RFC torture messages",
        &["test", "--release", "--package", "hostile"],
    ),
    suite("examples", "example configurations", &["test", "--package", "lab", "--test", "examples"]),
    suite(
        "ebpf",
        "the XDP program against a table of packets",
        &["test", "--package", "lab", "--test", "ebpf"],
    ),
    suite(
        "calls",
        "calls and failover on the XDP path",
        &["test", "--package", "lab", "--test", "calls", "--", "--test-threads=1"],
    ),
    suite(
        "discovery",
        "peers from a real DNS server, and without it",
        &["test", "--package", "lab", "--test", "discovery", "--", "--test-threads=1"],
    ),
    suite(
        "control",
        "reload under load, the API, a thousand peers",
        &["test", "--package", "lab", "--test", "control", "--", "--test-threads=1"],
    ),
    suite("page", "the status page in headless Chromium", &["test", "--package", "lab", "--test", "page"]),
    suite(
        "drills",
        "failover drills at 100 calls/s: kill, cut, freeze, flap, drain",
        &["test", "--package", "lab", "--test", "drills", "--", "--test-threads=1", "--nocapture"],
    ),
    suite(
        "dialogs",
        "what SIP says of a proxy, with SIPp on both sides",
        &["test", "--package", "lab", "--test", "dialogs", "--", "--test-threads=1"],
    ),
    suite(
        "messages",
        "torture messages, loops, explain through the running node",
        &["test", "--package", "lab", "--test", "messages", "--", "--test-threads=1"],
    ),
    suite(
        "media",
        "offers and answers of every kind, and what becomes of each packet",
        &["test", "--package", "lab", "--test", "media", "--", "--test-threads=1"],
    ),
    suite(
        "neighbours",
        "Kamailio, rtpengine and baresip beside it, IPv4, IPv6 and between them",
        &["test", "--package", "lab", "--test", "neighbours", "--", "--test-threads=1"],
    ),
    suite(
        "paths",
        "workers, IPv6, fragments, kernel sockets, crashes, floods",
        &["test", "--package", "lab", "--test", "paths", "--", "--test-threads=1"],
    ),
];

/// Passed and failed tests.
#[derive(Default)]
struct Count {
    passed: u64,
    failed: u64,
}

pub(crate) fn test(filter: Option<&str>) -> Result<()> {
    namespace::require_root()?;
    let wanted = |name: &str| filter.is_none_or(|f| name.contains(f));
    let names = || [TIDY, INSTRUCTIONS].into_iter().chain(SUITES.iter().map(|s| s.name));
    if !names().any(wanted) {
        bail!("no suite is called so; there are {}", names().collect::<Vec<_>>().join(", "));
    }
    println!("What is needed");
    setup::setup(false)?;
    namespace::sweep()?;
    println!("Build");
    ebpf::build()?;
    let mut cargo = Command::new("cargo");
    say::must(
        "building strowger",
        cargo.args(["build", "--release", "--package", "strowger"]).current_dir(root()),
    )?;
    println!("Tests");
    let mut total = Count::default();
    if wanted(TIDY) {
        let tidied = tidy::tidy();
        tally(&mut total, TIDY, "rules of the source tree", tidied.is_ok(), Count::default());
        if let Err(error) = tidied {
            println!("{error:#}");
        }
    }
    if wanted(INSTRUCTIONS) {
        let guarded = bench::guard();
        let what =
            guarded.as_ref().map_or("what each stage costs, against the accepted counts", String::as_str);
        tally(&mut total, INSTRUCTIONS, what, guarded.is_ok(), Count::default());
        if let Err(error) = guarded {
            println!("{error:#}");
        }
    }
    for suite in SUITES.iter().filter(|s| wanted(s.name)) {
        let mut cargo = Command::new("cargo");
        let outcome = say::watch(suite.name, cargo.args(suite.args).current_dir(root()))?;
        let count = count(&outcome.output);
        let took = outcome.took.as_secs_f64();
        tally(&mut total, suite.name, &format!("{} ({took:.0} s)", suite.what), outcome.success, count);
        if !outcome.success {
            println!("{}", outcome.output);
        }
    }
    println!("\n{} passed, {} failed", total.passed, total.failed);
    if total.failed > 0 {
        bail!("tests failed");
    }
    Ok(())
}

/// Adds a suite; one that counts nothing itself is one test.
fn tally(total: &mut Count, name: &str, what: &str, success: bool, mut count: Count) {
    if count.passed + count.failed == 0 || (!success && count.failed == 0) {
        count.passed += u64::from(success);
        count.failed += u64::from(!success);
    }
    let verdict = if success { "ok  " } else { "FAIL" };
    println!("  {verdict} {name:<12} {:>4} passed, {} failed   {what}", count.passed, count.failed);
    total.passed += count.passed;
    total.failed += count.failed;
}

/// Sums the result lines of cargo test.
fn count(output: &str) -> Count {
    let mut sum = Count::default();
    for line in output.lines().filter(|l| l.starts_with("test result:")) {
        let number = |word: &str| {
            let before = line.split(word).next()?;
            before.rsplit([' ', ';']).find(|w| !w.is_empty())?.parse::<u64>().ok()
        };
        sum.passed += number(" passed").unwrap_or_default();
        sum.failed += number(" failed").unwrap_or_default();
    }
    sum
}
