//! Every torture message gets its verdict from a worker, and what is forwarded keeps what it must.

use hostile::{
    ACCESS, Bench, forward_property, lines,
    torture::{Verdict, messages},
};
use std::net::SocketAddr;

const SENDER: &str = "203.0.113.5:5060";

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

#[test]
fn every_torture_message_gets_its_verdict() {
    let mut failures = Vec::new();
    for (name, datagram, verdict) in messages() {
        let mut bench = Bench::new();
        let sent = bench.receive(address(ACCESS), address(SENDER), &datagram);
        let forwarded = sent.iter().find(|s| !s.payload.starts_with(b"SIP/2.0"));
        let answer = sent.iter().find_map(|s| {
            let text = String::from_utf8_lossy(&s.payload);
            text.strip_prefix("SIP/2.0 ").and_then(|rest| rest[..3].parse().ok()).filter(|s| *s != 100u16)
        });
        let found = match (forwarded, answer) {
            (Some(_), None) => Verdict::Forward,
            (None, Some(status)) => Verdict::Refuse(status),
            (None, None) => Verdict::Drop,
            (Some(_), Some(_)) => panic!("{name}: forwarded and answered"),
        };
        if found != verdict {
            failures.push(format!("{name}: expected {verdict:?}, found {found:?}"));
        }
        assert!(bench.counted() > 0, "{name}");
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn what_is_forwarded_keeps_every_byte_that_a_proxy_does_not_own() {
    for (name, datagram, verdict) in messages() {
        if verdict != Verdict::Forward {
            continue;
        }
        let sent = Bench::new().receive(address(ACCESS), address(SENDER), &datagram);
        let forwarded = &sent.iter().find(|s| !s.payload.starts_with(b"SIP/2.0")).expect(name).payload;
        forward_property(&datagram, forwarded);
        let (before, after) = (lines(&datagram), lines(forwarded));
        let start = |m: &[u8]| m.split(|b| *b == b'\n').next().map(<[u8]>::to_vec);
        assert_eq!(start(&datagram), start(forwarded), "{name}: the start line stays");
        let hops = |list: &[(String, Vec<u8>)]| -> Option<u32> {
            let (_, value) = list.iter().find(|(n, _)| n == "max-forwards")?;
            String::from_utf8_lossy(value).trim().parse().ok()
        };
        assert_eq!(hops(&after), Some(hops(&before).map_or(70, |n| n - 1)), "{name}");
    }
}
