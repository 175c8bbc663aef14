//! What an operator does to a running node: reload under load, the API and its description, a thousand
//! peers (requirements C7, D8, I1, I2, I4).

use anyhow::{Context as _, Result, ensure};
use lab::{
    TwoRegions,
    process::eventually,
    raw, sipp,
    two_regions::{self, PEERS, quiet},
};
use rustix::process::Signal;
use serde_json::Value;
use std::{
    collections::HashMap,
    net::{SocketAddr, TcpListener, UdpSocket},
    os::unix::net::UnixStream,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

const SOON: Duration = Duration::from_secs(10);
const MS: fn(u64) -> Duration = Duration::from_millis;

fn healthy(config: &str) -> Result<TwoRegions> {
    let mut lab = TwoRegions::new(1)?;
    lab.start_all_peers()?;
    lab.start_healthy(config)?;
    Ok(lab)
}

/// A request to the node's API, with JSON as answer.
fn api(lab: &TwoRegions, method: &str, path: &str) -> Result<(u16, Value)> {
    let (status, body) = lab.running().http(method, path)?;
    Ok((status, serde_json::from_str(&body).with_context(|| format!("{method} {path}: {body}"))?))
}

#[test]
fn reloads_under_load_lose_nothing_and_bad_files_change_nothing() -> Result<()> {
    let lab = healthy(&quiet())?;
    let mut caller =
        lab.start_caller(&sipp::quiet_call(), 5070, &["-r", "100", "-m", "1200", "-d", "500", "-l", "5000"])?;
    let node = lab.running();
    let generation = || node.status().map(|s| s["generation"].as_u64().unwrap_or_default());
    // A peer goes, another service stands before the old one, times change; then all of it back again.
    let without_a2 = quiet()
        .replace("[[service.peer]]\nname = \"a2\"\naddress = \"198.51.100.12:5060\"\nregion = \"A\"\n", "");
    ensure!(without_a2 != quiet());
    let other = without_a2
        .replace("attempt_timeout_ms = 500", "attempt_timeout_ms = 900")
        .replace(
            "[[service]]\nname = \"voice\"",
            "[[service]]\nname = \"fax\"\nlistener = \"core\"\n[[service.peer]]\nname = \"f1\"\naddress = \"203.0.113.99:5060\"\n\n[[service]]\nname = \"voice\"",
        );
    for round in 0..6 {
        let plain = quiet();
        node.write_config(if round % 2 == 0 { &other } else { &plain })?;
        let before = generation()?;
        if round < 4 {
            let text = node.tell(&["reload"])?;
            let (a2, fax) =
                if round % 2 == 0 { ("- peer a2", "+ service fax") } else { ("+ peer a2", "- service fax") };
            ensure!(text.contains(a2) && text.contains(fax) && text.contains("attempt_timeout"), "{text}");
        } else {
            node.signal(Signal::HUP)?;
        }
        eventually("the reload is in force", SOON, || generation().is_ok_and(|g| g > before))?;
        std::thread::sleep(MS(500));
    }
    // Faults: named with their line, and nothing changes.
    let before = generation()?;
    let bad = quiet().replace("fall = 3", "fall = 0");
    node.write_config(&bad)?;
    let (status, answer) = api(&lab, "POST", "/v1/reload")?;
    let error = answer["error"].as_str().unwrap_or_default().to_owned();
    ensure!(
        status == 422 && error.contains("strowger.toml:5") && error.contains("fall = 0, expected 1 to 100"),
        "{error}"
    );
    let cycle = quiet()
        + "[[health.composite]]\nname = \"x\"\ncomposites = [\"y\"]\nmode = \"enforce\"\n[[health.composite]]\nname = \"y\"\ncomposites = [\"x\"]\nmode = \"enforce\"\n";
    node.write_config(&cycle)?;
    let (_, text) = node.cli(&["reload"])?;
    ensure!(text.contains("x -> y -> x"), "{text}");
    node.write_config(&quiet().replace("20000-29999", "20000-28999"))?;
    let (status, answer) = api(&lab, "POST", "/v1/reload")?;
    ensure!(status == 409 && answer["error"].as_str().is_some_and(|e| e.contains("media.ports")), "{answer}");
    node.write_config(&other)?;
    let text = node.tell(&["reload", "--dry"])?;
    ensure!(text.contains("- peer a2") && text.contains("would change"), "{text}");
    ensure!(generation()? == before, "a dry run, and refusals, change nothing");
    let calls = caller.wait(Duration::from_secs(40))?;
    ensure!(calls.placed == 1200 && calls.failed == 0, "{calls:?} {}\n{}", caller.errors(), node.log());
    ensure!(node.counter("calls_answered") == 1200);
    node.check_invariants()
}

#[test]
fn a_change_reaches_busy_workers_within_a_millisecond() -> Result<()> {
    let mut lab = TwoRegions::new(2)?;
    lab.start_all_peers()?;
    // Two workers, and the control thread has to share a core with one of them.
    let pinning = "[pinning]\n[[pinning.worker]]\ncore = 0\nqueues = [\"access:0\", \"core:0\"]\n\
                   [[pinning.worker]]\ncore = 1\nqueues = [\"access:1\", \"core:1\"]\n";
    let one = "[pinning]\ncontrol = 0\n\n[[pinning.worker]]\ncore = 1\nqueues = [\"access:0\", \"core:0\"]";
    let config = quiet();
    let start = config.find("[pinning]").context("a section")?;
    let end = config[start..].find("\n[[listener]]").context("its end")? + start;
    ensure!(config[start..end].starts_with(one), "{}", &config[start..end]);
    lab.start_healthy(&format!("{}{pinning}{}", &config[..start], &config[end..]))?;
    let node = lab.running();
    let mut caller =
        lab.start_caller(&sipp::quiet_call(), 5070, &["-r", "200", "-m", "2000", "-d", "100", "-l", "5000"])?;
    for round in 0..500 {
        let word = if round % 2 == 0 { "drain" } else { "enable" };
        let (status, answer) = api(&lab, "POST", &format!("/v1/peers/b2/{word}"))?;
        ensure!(status == 200, "{answer}");
    }
    let times = node.status()?["publication_us"].clone();
    let calls = caller.wait(Duration::from_secs(40))?;
    ensure!(calls.failed == 0, "{calls:?} {}", caller.errors());
    let p99 = times["p99"].as_f64().unwrap_or(f64::INFINITY);
    println!(
        "500 changes to two workers at 200 calls/s: p50 {} us, p99 {p99} us, longest {} us",
        times["p50"], times["max"]
    );
    ensure!(times["count"].as_u64() >= Some(900) && p99 < 1000.0, "{times}");
    Ok(())
}

#[test]
fn transitions_are_told_to_a_program_that_is_never_waited_for() -> Result<()> {
    // It hangs on everything that is about a peer; what is about the node it writes down.
    let script = "[ $STROWGER_KIND = peer ] && sleep 60; echo $STROWGER_KIND $STROWGER_NAME $STROWGER_TO >> @dir@/told";
    let health = format!("[health]\ncommand = [\"sh\", \"-c\", \"{script}\"]\ncommand_timeout_ms = 500\n");
    let mut lab = healthy(&format!("{}\n{health}", quiet()))?;
    let told = lab.running().config_file().with_file_name("told");
    lab.running().tell(&["drain", "node"])?;
    eventually("the program was told", SOON, || {
        std::fs::read_to_string(&told).is_ok_and(|text| text == "operator edge1 draining\n")
    })?;
    // Hanging programs hold up nothing, and end.
    lab.kill_peer("a1");
    lab.running().wait_for("a1", "UNHEALTHY", SOON)?;
    let mut caller = lab.start_caller(&sipp::quiet_call(), 5070, &["-r", "50", "-m", "100", "-d", "100"])?;
    ensure!(caller.wait(SOON)?.successful == 100, "{}", caller.errors());
    eventually("the hanging ones are killed", SOON, || {
        lab.running().log().contains("the command took too long")
    })?;
    ensure!(!std::fs::read_to_string(&told)?.contains("peer"), "they were killed");
    Ok(())
}

#[test]
fn the_api_answers_as_it_says_and_only_who_may_ask() -> Result<()> {
    let lab = healthy(&format!("{}\n[admin]\nhttp = \"127.0.0.1:8060\"\n", two_regions::CONFIG))?;
    let mut caller = lab.start_caller(&sipp::quiet_call(), 5070, &["-m", "3", "-d", "100"])?;
    ensure!(caller.wait(SOON)?.successful == 3);
    let (status, description) = api(&lab, "GET", "/openapi.json")?;
    ensure!(
        status == 200 && description["openapi"].as_str().is_some_and(|v| v.starts_with("3.")),
        "{description}"
    );
    let paths = description["paths"].as_object().context("paths")?.clone();
    ensure!(paths.len() >= 15, "{} paths", paths.len());
    // Every path that can be read is there, and answers with what is described.
    for (path, verbs) in paths.iter().filter(|(_, v)| v["get"].is_object()) {
        let path = path.replace("{name}", "a1");
        let (status, body) = lab.running().http("GET", &path)?;
        ensure!(
            verbs["get"]["responses"][status.to_string()].is_object() && status == 200,
            "{path}: {status} {body}"
        );
    }
    // All of what the API shows, the command line shows.
    for verb in ["status", "peers", "regions", "health", "names", "events", "explain"] {
        let text = lab.running().tell(&[verb, "--json"])?;
        serde_json::from_str::<Value>(&text).with_context(|| format!("{verb}: {text}"))?;
        ensure!(!lab.running().tell(&[verb])?.trim().is_empty(), "{verb}");
    }
    for (method, path, expected) in [
        ("GET", "/v1/peers/nobody", 404),
        ("GET", "/v1/nothing", 404),
        ("GET", "/v1/calls?last=x", 400),
        ("GET", "/v1/events?first=1", 400),
        ("POST", "/v1/peers/nobody/drain", 404),
        ("POST", "/v1/peers/a1/explode", 404),
        ("POST", "/v1/composites/none/release", 404),
        ("POST", "/v1/status", 405),
        ("GET", "/v1/reload", 405),
    ] {
        let (status, answer) = api(&lab, method, path)?;
        ensure!(status == expected && answer["error"].is_string(), "{method} {path}: {status} {answer}");
    }
    // A drained node says so to whoever asks, and goes on taking calls.
    ensure!(api(&lab, "GET", "/readyz")?.0 == 200 && api(&lab, "GET", "/healthz")?.0 == 200);
    lab.running().tell(&["drain", "node"])?;
    let (status, ready) = api(&lab, "GET", "/readyz")?;
    ensure!(status == 503 && ready["reasons"][0] == "the node is drained", "{ready}");
    let mut caller = lab.start_caller(&sipp::quiet_call(), 5071, &["-m", "3", "-d", "100"])?;
    ensure!(caller.wait(SOON)?.successful == 3);
    lab.running().tell(&["enable", "node"])?;
    // The loopback port reads only, and under its own name only.
    let over_tcp = |request: &str| -> Result<String> {
        use std::io::{Read as _, Write as _};
        lab.node_space.enter(|| {
            let mut stream = std::net::TcpStream::connect("127.0.0.1:8060")?;
            stream.write_all(request.as_bytes())?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer.lines().next().unwrap_or_default().to_owned())
        })?
    };
    for (request, expected) in [
        ("GET /v1/status HTTP/1.0\r\nHost: 127.0.0.1:8060\r\n\r\n", "200"),
        ("GET / HTTP/1.0\r\nHost: localhost:8060\r\n\r\n", "200"),
        ("GET /v1/status HTTP/1.0\r\nHost: rebound.example.com\r\n\r\n", "403"),
        ("POST /v1/node/drain HTTP/1.0\r\nHost: localhost\r\n\r\n", "404"),
        ("POST /v1/reload HTTP/1.0\r\nHost: localhost\r\n\r\n", "404"),
    ] {
        let answer = over_tcp(request)?;
        ensure!(answer.contains(expected), "{request:?}: {answer}");
    }
    // Metrics: conventional names, help for each, counters that only rise.
    let metrics = lab.running().http("GET", "/metrics")?.1;
    for line in [
        "# TYPE strowger_calls counter",
        "# HELP strowger_calls New calls: INVITEs outside a dialog.",
        "strowger_calls_total 6",
        "strowger_peer_state{peer=\"a1\",service=\"voice\",region=\"A\"} 1",
        "strowger_xdp_packets_total{interface=\"access\",verdict=\"steer_sip\"}",
        "strowger_ready 1",
        "# EOF",
    ] {
        ensure!(metrics.contains(line), "no {line:?} in\n{metrics}");
    }
    for line in metrics.lines().filter(|l| l.starts_with("# TYPE ")) {
        let (name, kind) = line["# TYPE ".len()..].split_once(' ').context("a type")?;
        ensure!(metrics.contains(&format!("# HELP {name} ")), "{name} has no help");
        let sample = metrics.lines().find(|l| l.starts_with(name)).unwrap_or_default();
        ensure!(
            kind != "counter" || sample.starts_with(&format!("{name}_total")) || sample.is_empty(),
            "{name}: {sample}"
        );
    }
    Ok(())
}

/// Lets a loopback port lead to the node's socket, for a client that knows no sockets.
fn lead_to_socket(lab: &TwoRegions, port: u16) -> Result<()> {
    let listener = lab.node_space.enter(|| TcpListener::bind(("127.0.0.1", port)))??;
    let socket = lab.running().config_file().with_file_name("status.sock");
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(node) = UnixStream::connect(&socket) else { return };
            let ends = client.try_clone().and_then(|c| Ok((c, node.try_clone()?)));
            let Ok((mut client_in, mut node_in)) = ends else { return };
            let (mut client_out, mut node_out) = (client, node);
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut client_in, &mut node_out);
                let _ = node_out.shutdown(std::net::Shutdown::Write);
            });
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut node_in, &mut client_out);
                let _ = client_out.shutdown(std::net::Shutdown::Both);
            });
        }
    });
    Ok(())
}

#[test]
fn the_api_bears_whatever_its_description_allows() -> Result<()> {
    let tool = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/schemathesis/bin/schemathesis");
    let lab = healthy(two_regions::CONFIG)?;
    lead_to_socket(&lab, 8061)?;
    // Commands may drain the node: that it then says 503 is right.
    for selection in [&["--include-method", "GET"][..], &["--exclude-path", "/readyz"][..]] {
        let mut command = lab.node_space.command(tool.to_str().context("a path")?);
        command
            .args([
                "run",
                "http://127.0.0.1:8061/openapi.json",
                "--max-examples",
                "40",
                "--seed",
                "1",
                "--no-color",
            ])
            .args(selection)
            .current_dir(lab.scratch.path());
        let output = command.output().context("schemathesis; `cargo xtask setup` installs it")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(
            output.status.success(),
            "{text}\n{}\n{}",
            String::from_utf8_lossy(&output.stderr),
            lab.running().log()
        );
        ensure!(text.contains("generated"), "{text}");
    }
    // It lives, and takes calls.
    lab.running().tell(&["enable", "region", "A"])?;
    let mut caller = lab.start_caller(&sipp::quiet_call(), 5070, &["-m", "3", "-d", "100"])?;
    ensure!(caller.wait(SOON)?.successful == 3, "{}", caller.errors());
    Ok(())
}

/// Fifty services with twenty peers each: addresses behind region A's router, in one file.
fn thousand(weight: u32) -> String {
    let mut config = quiet();
    for service in 0..50 {
        config += &format!(
            "\n[[service]]\nname = \"s{service}\"\nlistener = \"core\"\n[service.probe]\ninterval_ms = 5000\ntimeout_ms = 1000\n"
        );
        for peer in 0..20 {
            let n = service * 20 + peer;
            let (host, port) = (n % 250 + 1, 17_000 + n / 250);
            config += &format!(
                "[[service.peer]]\nname = \"p{n}\"\naddress = \"198.18.1.{host}:{port}\"\nregion = \"A\"\nweight = {weight}\n"
            );
        }
    }
    config + "\n[[allow]]\nprefix = \"198.18.0.0/15\"\n"
}

/// Answers OPTIONS for all thousand, and remembers when each was asked.
struct Crowd {
    stop: Arc<AtomicBool>,
    asked: Arc<Mutex<HashMap<String, Vec<Instant>>>>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Crowd {
    fn start(lab: &TwoRegions) -> Result<Self> {
        // Any address of the net is this host's own.
        lab.region('A').ip(&["route", "add", "local", "198.18.1.0/24", "dev", "lo"])?;
        lab.router.route("198.18.1.0/24", "198.51.100.11")?;
        let (stop, asked) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let mut crowd = Self { stop, asked, threads: Vec::new() };
        for port in 17_000..17_004 {
            let socket = raw::socket(lab.region('A'), &format!("0.0.0.0:{port}"))?;
            let (stop, asked) = (Arc::clone(&crowd.stop), Arc::clone(&crowd.asked));
            crowd.threads.push(std::thread::spawn(move || answer_probes(&socket, &stop, &asked)));
        }
        Ok(crowd)
    }

    fn asked(&self) -> HashMap<String, Vec<Instant>> {
        self.asked.lock().expect("the memory").clone()
    }
}

fn answer_probes(socket: &UdpSocket, stop: &AtomicBool, asked: &Mutex<HashMap<String, Vec<Instant>>>) {
    let mut buffer = [0; 4096];
    while !stop.load(Ordering::Relaxed) {
        let Ok((n, from)) = socket.recv_from(&mut buffer) else { continue };
        let message = &buffer[..n];
        let uri = message.split(|b| *b == b' ').nth(1).unwrap_or_default();
        asked
            .lock()
            .expect("the memory")
            .entry(String::from_utf8_lossy(uri).into_owned())
            .or_default()
            .push(Instant::now());
        if let Some(answer) = raw::respond(message, from, 200) {
            let _ = socket.send_to(&answer, from);
        }
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|t| drop(t.join()));
    }
}

#[test]
fn a_thousand_peers_are_reloaded_at_once_and_probed_on_time_under_full_load() -> Result<()> {
    let mut lab = TwoRegions::new(1)?;
    lab.start_all_peers()?;
    let crowd = Crowd::start(&lab)?;
    lab.start_node(&quiet())?;
    let node = lab.running();
    let mut slowest = Duration::ZERO;
    for weight in 1..=5 {
        node.write_config(&thousand(weight))?;
        let start = Instant::now();
        let (status, answer) = api(&lab, "POST", "/v1/reload")?;
        slowest = slowest.max(start.elapsed());
        ensure!(status == 200 && answer["applied"] == true, "{answer}");
    }
    println!("reload of 1,000 peers and 50 services: {} ms at most", slowest.as_millis());
    ensure!(slowest < MS(100), "a reload took {slowest:?}");
    let all_healthy = || {
        let status = node.status().unwrap_or_default();
        let healthy =
            status["peers"].as_array().into_iter().flatten().filter(|p| p["state"] == "HEALTHY").count();
        healthy == 1000 + PEERS.len()
    };
    eventually("all are found healthy", SOON, all_healthy).with_context(|| node.log())?;
    // The worker gets far more than it can do, for as long as three probes of each peer.
    let flood = lab.carrier.enter(|| UdpSocket::bind("192.0.2.10:5099"))??;
    let to: SocketAddr = two_regions::NODE.parse()?;
    let start = Instant::now();
    let request = b"INVITE sip:1@192.0.2.1 SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.10:5099;branch=z9hG4bKflood\r\nMax-Forwards: 0\r\nFrom: <sip:a@b>;tag=1\r\nTo: <sip:c@d>\r\nCall-ID: flood\r\nCSeq: 1 INVITE\r\nContent-Length: 0\r\n\r\n";
    let busy = node.busy_while(|| {
        while start.elapsed() < Duration::from_secs(17) {
            for _ in 0..64 {
                let _ = flood.send_to(request, to);
            }
        }
        Ok(())
    })?;
    let asked = crowd.asked();
    ensure!(asked.len() == 1000, "{} peers were probed", asked.len());
    let mut longest = Duration::ZERO;
    for (peer, times) in &asked {
        let during: Vec<_> = times.iter().filter(|t| **t >= start).collect();
        ensure!(during.len() >= 2, "{peer} was probed {} times in 17 s", during.len());
        for pair in during.windows(2) {
            longest = longest.max(*pair[1] - *pair[0]);
        }
    }
    println!(
        "1,000 peers, worker {:.0} % busy: longest time between two probes {} ms (6,000 planned at most)",
        busy * 100.0,
        longest.as_millis()
    );
    ensure!(longest < MS(6500), "a peer waited {longest:?} for its probe");
    ensure!(all_healthy(), "nobody is held dead for the load");
    Ok(())
}
