//! Our reading of messages against that of another parser (rsip), on generated and mutated ones.

use hostile::Mutator;
use rsip::{message::HeadersExt as _, prelude::*};
use sip::{HeaderName, Message, Request, scan};

/// What both parsers say of a request.
#[derive(Debug, PartialEq, Eq)]
struct Reading {
    method: String,
    uri: String,
    call_id: String,
    cseq: u32,
    from_tag: Option<String>,
    to_tag: Option<String>,
    via_host: String,
    via_port: Option<u16>,
    branch: Option<String>,
    max_forwards: Option<u32>,
    body: Vec<u8>,
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn ours(bytes: &[u8]) -> Result<Reading, String> {
    let m = Message::parse(bytes).map_err(|e| format!("{e:?}"))?;
    let via = m.value(HeaderName::Via).and_then(scan::Via::parse).ok_or("Unusable Via")?;
    let r = Request::read(&m, via).map_err(|f| f.reason.to_owned())?;
    Ok(Reading {
        method: text(r.method_name),
        uri: text(r.uri_text),
        call_id: text(r.call_id),
        cseq: r.cseq,
        from_tag: r.from_tag.map(text),
        to_tag: r.to_tag.map(text),
        via_host: text(via.host),
        via_port: via.port,
        branch: via.branch.map(text),
        max_forwards: r.max_forwards,
        body: m.body().to_vec(),
    })
}

fn theirs(bytes: &[u8]) -> Result<Reading, String> {
    let error = |e: rsip::Error| e.to_string();
    let r = rsip::Request::try_from(bytes).map_err(error)?;
    let via = r.via_header().map_err(error)?.typed().map_err(error)?;
    let cseq = r.cseq_header().map_err(error)?.typed().map_err(error)?;
    let tag = |params: Option<rsip::param::Tag>| params.map(|t| t.value().to_owned());
    let max_forwards = r.max_forwards_header().ok().map(|h| h.num().map_err(error)).transpose()?;
    Ok(Reading {
        method: r.method.to_string(),
        uri: r.uri.to_string(),
        call_id: r.call_id_header().map_err(error)?.value().to_owned(),
        cseq: cseq.seq,
        from_tag: tag(r.from_header().map_err(error)?.typed().map_err(error)?.tag().cloned()),
        to_tag: tag(r.to_header().map_err(error)?.typed().map_err(error)?.tag().cloned()),
        via_host: via.uri.host_with_port.host.to_string(),
        via_port: via.uri.host_with_port.port.map(u16::from),
        branch: via.branch().map(|b| b.value().to_owned()),
        max_forwards,
        body: r.body.clone(),
    })
}

fn is_token(text: &str) -> bool {
    text.bytes().all(sip::message::is_token)
}

/// Why both may read a request differently; `None`: one of them is wrong.
fn explained(bytes: &[u8], ours: &Reading, theirs: &Reading) -> Option<&'static str> {
    let mut why = "the same";
    if has_lone_newline(bytes) {
        // RFC 3261 7: CRLF; a LF alone is taken for it, as most do, and lines differ from there on.
        return Some("rsip wants CR before LF");
    }
    if ours.body != theirs.body {
        // RFC 3261 18.3: what follows in the datagram is discarded.
        why = theirs.body.starts_with(&ours.body).then_some("rsip keeps what follows Content-Length")?;
    }
    if ours.uri != theirs.uri {
        // Other case, no zeros before a port.
        let bare = |uri: &str| uri.to_ascii_lowercase().replace('0', "");
        why = (bare(&ours.uri) == bare(&theirs.uri)).then_some("rsip writes a URI its own way")?;
    }
    // rsip keeps blanks behind a host.
    if (ours.via_host.as_str(), ours.via_port) != (theirs.via_host.trim(), theirs.via_port) {
        let lost = theirs.branch.is_none() || ours.via_host.contains(':');
        why = lost.then_some("rsip stops in a Via at an IPv6 reference, and at a blank before the port")?;
    }
    if ours.branch != theirs.branch {
        let branch = ours.branch.as_deref().unwrap_or_default();
        let lost = theirs.branch.as_deref().unwrap_or_default().is_empty();
        let odd = lost || !is_token(branch) || ours.via_host.contains(':');
        why = odd.then_some("rsip cuts a branch at what is no part of a token, blanks included")?;
    }
    for (ours, theirs) in [(&ours.from_tag, &theirs.from_tag), (&ours.to_tag, &theirs.to_tag)] {
        if ours != theirs {
            let lost = theirs.as_deref().unwrap_or_default().is_empty();
            let odd = lost || !is_token(ours.as_deref().unwrap_or_default());
            why = odd.then_some("rsip stops at a parameter that is no token, and keeps an empty tag")?;
        }
    }
    let rest = |r: &Reading| (r.method.clone(), r.call_id.clone(), r.cseq, r.max_forwards);
    (rest(ours) == rest(theirs)).then_some(why)
}

fn has_lone_newline(bytes: &[u8]) -> bool {
    text(bytes).replace("\r\n", "").contains('\n')
}

/// Why rsip refuses what we accept.
fn stricter(bytes: &[u8], error: &str) -> Option<&'static str> {
    let message = text(bytes);
    let compact = ["v:", "f:", "t:", "i:"].iter().any(|n| message.contains(&format!("\r\n{n}")));
    [
        (compact && error.contains("missing header"), "rsip does not know compact names"),
        (message.contains("[2001:db8::9]"), "rsip cannot read an IPv6 reference in Via"),
        (error.contains("utf8"), "rsip takes UTF-8 only"),
        (has_lone_newline(bytes), "rsip wants CR before LF"),
        (error.contains("transport"), "rsip has a fixed list of transports"),
        (
            error.contains("version") || error.contains("method"),
            "rsip has fixed versions and methods in Via and CSeq",
        ),
        (error.contains("okenize"), "rsip judges URI and header parameters that a proxy does not read"),
        (error.contains("missing header"), "rsip does not skip white space before the colon"),
        (error.contains("integer") || error.contains("digit"), "rsip reads ports in From and To"),
    ]
    .into_iter()
    .find_map(|(holds, why)| holds.then_some(why))
}

/// Rules of ours that rsip does not have, by the reason phrase of the refusal.
const OUR_RULES: &[&str] = &[
    // The grammar of what a proxy reads (RFC 3261 25.1); rsip takes values apart more loosely.
    "Unusable Via",
    "Bad Via",
    "Bad From",
    "Bad To",
    "Bad Contact",
    "Bad CSeq",
    "Bad Request-URI",
    "Bad Header Line",
    "Bad Request Line",
    "NotSip",
    // RFC 3261 16.3, 18.3, 19.1.1, 20.16 and RFC 4475 3.3.8, 3.3.9.
    "Bad Content-Length",
    "Bad Max-Forwards",
    "Too Many Hops",
    "Body Shorter Than Content-Length",
    "CSeq Method Differs From Request Line",
    "Headers In Request-URI",
    "Repeated From",
    "Repeated To",
    "Repeated Call-ID",
    "Repeated CSeq",
    "Repeated Max-Forwards",
    "Unsupported URI Scheme",
    "Version Not Supported",
    "Missing Call-ID",
];

const ROUNDS: usize = 200_000;

#[test]
fn every_disagreement_with_another_parser_is_explained() {
    let mut random = Mutator::new(3);
    let (mut agreed, mut mutated_agreed) = (0, 0);
    for i in 0..ROUNDS {
        let sound = generated(&mut random);
        let is_sound = i % 2 == 0;
        let bytes = if is_sound { sound } else { random.mutate(&sound) };
        let fail =
            |what: &str| panic!("{what}:\n{}\n{:#?}\n{:#?}", text(&bytes), ours(&bytes), theirs(&bytes));
        match (ours(&bytes), theirs(&bytes)) {
            (Ok(a), Ok(b)) => match explained(&bytes, &a, &b) {
                Some(_) if is_sound => agreed += 1,
                Some(_) => mutated_agreed += 1,
                None => fail("read differently"),
            },
            (Err(_), _) if is_sound => fail("we refuse a sound request"),
            (Err(_), Err(_)) => {}
            (Ok(_), Err(error)) if stricter(&bytes, &error).is_some() => {}
            (Ok(_), Err(_)) => fail("rsip refuses it"),
            (Err(reason), Ok(_)) if OUR_RULES.contains(&reason.as_str()) => {}
            // Where a LF ends a line, headers differ.
            (Err(_), Ok(_)) if has_lone_newline(&bytes) => {}
            (Err(_), Ok(_)) => fail("we refuse it"),
        }
    }
    assert!(agreed > ROUNDS / 10 && mutated_agreed > ROUNDS / 50, "{agreed} {mutated_agreed}");
}

/// A sound request, different every time.
fn generated(random: &mut Mutator) -> Vec<u8> {
    let mut pick = |of: &[&str]| of[random.below(of.len())].to_owned();
    let method = pick(&[
        "INVITE",
        "BYE",
        "OPTIONS",
        "MESSAGE",
        "REGISTER",
        "INFO",
        "SUBSCRIBE",
        "NOTIFY",
        "UPDATE",
        "PRACK",
        "REFER",
        "PUBLISH",
    ]);
    let uri = pick(&[
        "sip:bob@example.com",
        "sip:bob@192.0.2.7:5070;transport=udp",
        "sips:alice%20b@example.org",
        "sip:[2001:db8::1]",
        "sip:+4930;phone-context=x@gw.example.net;user=phone",
    ]);
    let via = pick(&[
        "SIP/2.0/UDP 192.0.2.1:5060",
        "SIP/2.0/UDP pc33.example.com",
        "SIP/2.0/TCP [2001:db8::9]:5090",
        "SIP/2.0/UDP host-1.example.net:1",
    ]);
    let branch = pick(&["z9hG4bK1", "z9hG4bK-abc.DEF_9", "z9hG4bKnashds8", "1"]);
    let rport = pick(&["", ";rport", ";received=192.0.2.77", ";ttl=1;x=y"]);
    let from = pick(&[
        "<sip:a@b.example>",
        "\"A, \\\"B\\\" C\" <sip:a@b.example;x=y>",
        "Alice <sip:alice@192.0.2.9:5062>",
        "sip:plain@example.com",
    ]);
    let to = pick(&["<sip:c@d.example>", "\"\" <sip:c@d.example>", "Bob B <sip:bob@example.com;user=phone>"]);
    let to_tag = pick(&["", ";tag=xyz", ";tag=a-b.c"]);
    let call_id = pick(&["1@192.0.2.1", "abc", "f81d4fae-7dec-11d0-a765-00a0c91e6bf6@foo.bar.example"]);
    let number = pick(&["1", "4711", "2147483647"]);
    let hops = pick(&["70", "1", "255"]);
    let extra = pick(&[
        "",
        "User-Agent: x/1.0 (y; z)\r\n",
        "Subject: hello, world\r\nContact: <sip:me@192.0.2.1>\r\n",
        "Route: <sip:192.0.2.250;lr>\r\nAllow: INVITE, BYE\r\n",
        "X-Foo:bar\r\n",
    ]);
    let body = pick(&["", "v=0\r\n", "hello\r\n\r\nworld"]);
    let names: [&str; 4] =
        if random.below(4) == 0 { ["v", "f", "t", "i"] } else { ["Via", "From", "To", "Call-ID"] };
    format!(
        "{method} {uri} SIP/2.0\r\n{v}: {via};branch={branch}{rport}\r\n{f}: {from};tag=f1\r\n{t}: {to}{to_tag}\r\n{i}: {call_id}\r\n\
         CSeq: {number} {method}\r\nMax-Forwards: {hops}\r\n{extra}Content-Length: {}\r\n\r\n{body}",
        body.len(), v = names[0], f = names[1], t = names[2], i = names[3]
    )
    .into_bytes()
}
