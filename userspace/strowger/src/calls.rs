//! `strowger calls`: the calls in progress whose media runs through the node.

use crate::{show::text, talk::Where};
use anyhow::{Result, bail};
use serde_json::Value;
use std::time::{Duration, SystemTime};

pub(crate) fn calls(call_id: Option<&str>, count: usize, node: &Where, json: bool) -> Result<()> {
    let answer = node.get_calls("/v1/media", call_id, &format!("count={count}"))?;
    let calls = answer["calls"].as_array().cloned().unwrap_or_default();
    if json {
        println!("{answer}");
    } else {
        calls.iter().for_each(|call| print!("{}", story(call)));
    }
    match call_id {
        Some(call_id) if calls.is_empty() => {
            bail!(
                "no call with Call-ID {call_id} has media on this node now; `strowger explain` tells what became of it"
            )
        }
        None if calls.is_empty() && !json => {
            println!("no call has media on this node now");
            Ok(())
        }
        _ => Ok(()),
    }
}

/// One call as text.
pub(crate) fn story(call: &Value) -> String {
    let since = Duration::from_millis(call["since_unix_ms"].as_u64().unwrap_or_default());
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let mut story = format!(
        "call {}\n  media {} for {} s, peer {}, worker {}\n",
        text(&call["call_id"]),
        text(&call["state"]),
        now.saturating_sub(since).as_secs(),
        text(&call["peer"]),
        call["worker"],
    );
    for stream in call["streams"].as_array().into_iter().flatten() {
        for side in ["caller", "callee"] {
            story += &leg(&stream["number"], side, &stream[side]);
        }
    }
    story + "\n"
}

fn leg(number: &Value, side: &str, leg: &Value) -> String {
    let float = |key: &str| leg[key].as_f64().unwrap_or_default();
    format!(
        "  stream {number} from {side}  {} -> {} (SDP {})\n      {} packets, {} bytes, {} of {} lost, jitter {:.1} ms, {} refused, latest {:.1} s ago\n",
        text(&leg["source"]),
        text(&leg["local"]),
        text(&leg["signalled"]),
        leg["packets"],
        leg["bytes"],
        leg["lost"],
        leg["expected"],
        float("jitter_ms"),
        leg["refused"],
        float("silent_s"),
    )
}
