//! `strowger calls`: the calls in progress whose media runs through the node.

use crate::talk::Where;
use anyhow::{Result, bail};
use control::admin::client::escape;
use serde_json::Value;
use std::time::{Duration, SystemTime};

pub(crate) fn calls(call_id: Option<&str>, count: usize, node: &Where, json: bool) -> Result<()> {
    let request = match call_id {
        Some(call_id) => format!("/v1/media?call_id={}", escape(call_id)),
        None => format!("/v1/media?count={count}"),
    };
    let answer = node.get(&request)?;
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
    let mut text = format!(
        "call {}\n  media {} for {} s, peer {}, worker {}\n",
        word(&call["call_id"]),
        word(&call["state"]),
        now.saturating_sub(since).as_secs(),
        word(&call["peer"]),
        call["worker"],
    );
    for stream in call["streams"].as_array().into_iter().flatten() {
        for side in ["caller", "callee"] {
            text += &leg(&stream["number"], side, &stream[side]);
        }
    }
    text + "\n"
}

fn leg(number: &Value, side: &str, leg: &Value) -> String {
    let float = |key: &str| leg[key].as_f64().unwrap_or_default();
    format!(
        "  stream {number} from {side}  {} -> {} (SDP {})\n      {} packets, {} bytes, {} of {} lost, jitter {:.1} ms, {} refused, latest {:.1} s ago\n",
        word(&leg["source"]),
        word(&leg["local"]),
        word(&leg["signalled"]),
        leg["packets"],
        leg["bytes"],
        leg["lost"],
        leg["expected"],
        float("jitter_ms"),
        leg["refused"],
        float("silent_s"),
    )
}

fn word(v: &Value) -> String {
    v.as_str().unwrap_or("-").to_owned()
}
