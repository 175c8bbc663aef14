//! The status page in a real browser: it shows what the node knows, follows it, and says when the node is
//! gone.

use anyhow::{Context as _, Result, ensure};
use lab::{TwoRegions, browser::Browser, sipp, two_regions};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(15);

/// A check that the page's text holds something.
fn says(text: &str) -> String {
    format!("document.body.innerText.includes({text:?})")
}

#[test]
fn the_status_page_follows_the_node_in_a_browser() -> Result<()> {
    let composites = "[[health.source]]\nname = \"voice-a\"\nservice = \"voice\"\nregion = \"A\"\n\
                      [[health.composite]]\nname = \"region-a\"\nsources = [\"voice-a\"]\nregion = \"A\"\nmode = \"enforce\"\n";
    let config = format!("{}\n[admin]\nhttp = \"127.0.0.1:8060\"\n{composites}", two_regions::CONFIG);
    let mut lab = TwoRegions::new(1)?;
    lab.start_all_peers()?;
    lab.start_healthy(&config)?;
    let mut caller = lab.start_caller(&sipp::quiet_call(), 5070, &["-r", "20", "-m", "600", "-d", "200"])?;
    let mut browser = Browser::open(&lab.node_space, lab.scratch.path(), "http://127.0.0.1:8060/")?;
    browser.wait_until("document.title === 'edge1 – strowger'", SOON)?;
    for part in [
        "198.51.100.11:5060",
        "2 of 2 peers available",
        "voice-a",
        "region-a",
        "UNKNOWN → HEALTHY",
        "send calls",
    ] {
        browser.wait_until(&says(part), SOON)?;
    }
    browser.wait_until("document.querySelector('#ready').innerText === 'ready'", SOON)?;
    // The charts move, and the rate of calls is right.
    browser.wait_until("document.querySelectorAll('polyline')[0]?.points.length > 4", SOON)?;
    let rate = browser.evaluate("Number(document.querySelector('#charts b').innerText)")?;
    let rate = rate.as_f64().context("a rate")?;
    ensure!((12.0..=28.0).contains(&rate), "{rate} calls per second are shown, 20 are placed");
    // A peer dies, its region is left.
    lab.kill_peer("a1");
    browser.wait_until(&says("new calls of voice avoid it"), SOON)?;
    for part in ["UNHEALTHY", "1 of 2 peers available", "failed in a row", "in use → avoided"] {
        browser.wait_until(&says(part), SOON)?;
    }
    ensure!(caller.wait(Duration::from_secs(60))?.failed == 0, "{}", caller.errors());
    // Until here nothing went wrong in the page. Then the node is gone, and it says so.
    ensure!(browser.complaints.is_empty(), "the browser complains: {:?}", browser.complaints);
    lab.node.as_mut().context("a node")?.stop()?;
    browser.wait_until(&says("No answer from the node since"), SOON).map(drop)
}
