//! `strowger explain`: why recent calls went where they went.

use crate::{show::text, talk::Where};
use anyhow::{Result, bail};
use serde_json::Value;

pub(crate) fn explain(call_id: Option<&str>, last: usize, node: &Where, json: bool) -> Result<()> {
    let answer = node.get_calls("/v1/calls", call_id, &format!("last={last}"))?;
    let calls = answer["calls"].as_array().cloned().unwrap_or_default();
    if json {
        println!("{answer}");
    } else {
        calls.iter().for_each(print_call);
        if call_id.is_some() {
            let media = node.get_calls("/v1/media", call_id, "")?;
            let stories = media["calls"].as_array().into_iter().flatten();
            stories.for_each(|call| print!("{}", crate::calls::story(call)));
        }
    }
    match call_id {
        Some(call_id) if calls.is_empty() => bail!(
            "no call with Call-ID {call_id} is remembered; each worker remembers its latest {}",
            answer["remembered"]
        ),
        _ => Ok(()),
    }
}

fn print_call(call: &Value) {
    let ms = |v: &Value| v.as_f64().map_or_else(|| "-".to_owned(), |ms| format!("{ms:.1} ms"));
    println!(
        "call {}\n  from {} at listener {}, worker {}, {}",
        text(&call["call_id"]),
        text(&call["from"]),
        text(&call["listener"]),
        call["worker"],
        call["at_unix_ms"]
    );
    for (n, a) in (1..).zip(call["attempts"].as_array().into_iter().flatten()) {
        let first = match &a["first_response"] {
            Value::Array(pair) => format!(", first response {} after {}", pair[0], ms(&pair[1])),
            _ => String::new(),
        };
        println!(
            "  {n}. after {:>9}  {} (region {}), chosen: {}\n{:>21}{} after {}{first}",
            ms(&a["after_ms"]),
            text(&a["peer"]),
            text(&a["region"]),
            text(&a["why"]),
            "-> ",
            text(&a["result"]),
            ms(&a["took_ms"]),
        );
    }
    match call["outcome"].as_str() {
        Some(outcome) => println!("  outcome: {outcome}, after {}\n", ms(&call["took_ms"])),
        None => println!("  no outcome yet\n"),
    }
}
