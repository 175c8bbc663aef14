use super::*;

pub(super) const GOOD: &str = r#"[node]
name = "edge1"
region = "A"

[media]
ports = "20000-20999"

[[region]]
name = "A"
[[region]]
name = "B"

[[interface]]
name = "access"
device = "veth0"
[[interface]]
name = "core"
device = "veth1"

[pinning]
control = 0
[[pinning.worker]]
core = 1
queues = ["access:0", "core:0"]

[[listener]]
name = "access"
address = "192.0.2.1:5060"
service = "voice"
[[listener]]
name = "core"
address = "198.51.100.1:5060"

[[service]]
name = "voice"
listener = "core"
media = "anchor"
[[service.peer]]
name = "a1"
address = "198.51.100.11:5060"
region = "A"

[[allow]]
prefix = "192.0.2.0/28"
"#;

#[test]
fn a_good_file_is_accepted_with_the_documented_defaults() {
    let c = parse("f", GOOD).unwrap();
    assert!(c.afxdp);
    assert_eq!((c.ring_size, c.spin.as_micros(), c.max_transactions), (2048, 0, 100_000));
    let service = &c.services[0];
    assert_eq!(service.attempt_timeout.as_millis(), 2000);
    assert_eq!(service.call_budget.as_millis(), 16_000);
    assert_eq!((service.policy.fall, service.policy.rise, service.policy.interval.as_millis()), (3, 2, 5000));
    assert_eq!(c.workers[0].queues, [(0, 0, 24), (1, 0, 24)]);
    assert_eq!(c.status_socket.to_str(), Some("/run/strowger/edge1.sock"));
}

#[test]
fn a_worker_that_spins_where_it_should_not_is_warned_of() {
    let warnings = |from: &str, to: &str| {
        let text = format!("{}\n[dataplane]\nspin_us = 1000\n", GOOD).replace(from, to);
        let warnings = parse("f", &text).unwrap().warnings;
        warnings.into_iter().filter(|w| w.contains("spin_us")).collect::<Vec<_>>()
    };
    assert!(warnings("", "").is_empty());
    assert!(warnings("core = 1\n", "")[0].contains("without a core"));
    let sockets = warnings("[dataplane]", "[dataplane]\nbackend = \"udp\"");
    assert!(sockets.len() == 1 && sockets[0].contains("ignored"), "{sockets:?}");
}

/// Text to replace, its replacement, the line of the fault, and words of its message.
const BAD: &[(&str, &str, usize, &str)] = &[
    ("name = \"edge1\"", "nam = \"edge1\"", 2, "unknown field `nam`, expected"),
    ("name = \"edge1\"", "name = 7", 2, "expected a string"),
    ("[node]", "[dataplane]\nspin_us = 1000001\n[node]", 2, "spin_us = 1000001, expected 0 to 1000000"),
    ("[node]", "[node", 1, "unclosed"),
    ("[media]", "[node]", 5, "duplicate key"),
    (
        "region = \"A\"\n\n[media]",
        "region = \"C\"\n\n[media]",
        3,
        "unknown region \"C\", expected one of: A, B",
    ),
    ("20000-20999", "20999-20000", 6, "expected \"first-last\""),
    ("20000-20999", "5000-6000", 28, "port 5060 lies in the media ports"),
    ("device = \"veth1\"", "device = \"veth0\"", 18, "used twice"),
    ("name = \"core\"\ndevice", "name = \"access\"\ndevice", 17, "interface \"access\" is named twice"),
    ("core = 1", "core = 0", 23, "core 0 is already used by the control thread"),
    ("core = 1", "core = -1", 23, "invalid value"),
    ("\"core:0\"", "\"dmz:0\"", 24, "names no [[interface]], expected one of: access, core"),
    ("\"core:0\"", "\"access:0\"", 24, "already served by worker 0"),
    ("\"core:0\"", "\"core\"", 24, "expected \"interface:queue\""),
    ("192.0.2.1:5060", "192.0.2.1", 28, "invalid socket address"),
    ("192.0.2.1:5060", "0.0.0.0:5060", 28, "not a wildcard"),
    ("service = \"voice\"", "service = \"fax\"", 29, "unknown service \"fax\", expected one of: voice"),
    (
        "listener = \"core\"",
        "listener = \"corr\"",
        36,
        "unknown listener \"corr\", expected one of: access, core",
    ),
    (
        "media = \"anchor\"",
        "media = \"yes\"",
        37,
        "unknown variant `yes`, expected one of `anchor`, `marked`, `off`",
    ),
    ("media = \"anchor\"", "attempt_timeout_ms = 5", 37, "attempt_timeout_ms = 5, expected 100 to 32000"),
    (
        "media = \"anchor\"",
        "probe = { interval_ms = 500, timeout_ms = 900 }",
        37,
        "expected at most interval_ms = 500",
    ),
    ("198.51.100.11:5060", "[2001:db8::1]:5060", 40, "another family than listener \"core\""),
    ("192.0.2.0/28", "192.0.2.0/33", 44, "expected \"address/length\""),
    ("[media]\nports = \"20000-20999\"", "", 34, "expected a [media] section"),
    ("ports = \"20000-20999\"", "ports = \"20000-20999\"\ndscp = 64", 7, "dscp = 64, expected 0 to 63"),
    (
        "ports = \"20000-20999\"",
        "ports = \"20000-20999\"\nsource = \"any\"",
        7,
        "expected `learn` or `strict`",
    ),
    ("media = \"anchor\"", "media = \"marked\"", 35, "expected anchor = true at one"),
    (
        "address = \"198.51.100.11:5060\"",
        "address = \"198.51.100.11:5060\"\nanchor = true",
        35,
        "expected media = \"marked\"",
    ),
    (
        "service = \"voice\"",
        "service = \"voice\"\nmedia_addresses = [\"192.0.2.1\", \"192.0.2.1\"]",
        30,
        "expected each address of this machine once",
    ),
    (
        "service = \"voice\"",
        "service = \"voice\"\nmedia_address = \"192.0.2.1\"\nmedia_addresses = [\"192.0.2.2\"]",
        31,
        "expected one of them",
    ),
];

#[test]
fn bad_files_name_line_and_expectation() {
    for (from, to, line, words) in BAD {
        let text = GOOD.replacen(from, to, 1);
        assert_ne!(text, GOOD, "{from:?} is not in the file");
        let error = parse("edge.toml", &text).expect_err(to).to_string();
        let start = format!("edge.toml:{line}: ");
        assert!(error.lines().any(|l| l.starts_with(&start) && l.contains(words)), "{to:?}: {error}");
    }
}

#[test]
fn a_missing_file_is_named() {
    let error = load(Path::new("/nonexistent/x.toml")).unwrap_err().to_string();
    assert!(error.starts_with("/nonexistent/x.toml: cannot read"), "{error}");
}
