use super::*;

const INVITE: &[u8] = b"INVITE sip:bob@192.0.2.9 SIP/2.0\r\nv: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bKa\r\n\
Subject : folded\r\n  twice\r\n\tand again\r\nFROM:<sip:a@b>;tag=1\r\nl:4\r\n\r\nbodytrailing";

#[test]
fn indexes_compact_folded_and_spaced_headers_and_cuts_the_body() {
    let m = Message::parse(INVITE).unwrap();
    assert_eq!(m.defect, None);
    assert_eq!(m.method(), Some(Method::Invite));
    assert_eq!(m.value(HeaderName::Via), Some(&b"SIP/2.0/UDP 192.0.2.1;branch=z9hG4bKa"[..]));
    assert_eq!(m.text(m.headers[1].value()), b"folded\r\n  twice\r\n\tand again");
    assert_eq!(m.value(HeaderName::From), Some(&b"<sip:a@b>;tag=1"[..]));
    assert_eq!(m.body(), b"body");
    assert!(m.bytes.ends_with(b"body"));
}

#[test]
fn status_lines() {
    let status = |line: &[u8]| match Message::parse(line) {
        Ok(Message { start: StartLine::Response { status }, .. }) => Some(status),
        _ => None,
    };
    assert_eq!(status(b"SIP/2.0 200 OK\r\n\r\n"), Some(200));
    assert_eq!(status(b"SIP/2.0 200\r\n\r\n"), Some(200));
    assert_eq!(status(b"sip/2.0 180 Ringing\n\n"), Some(180));
    for bad in [
        &b"SIP/2.0 99 x\r\n\r\n"[..],
        b"SIP/2.0 700 x\r\n\r\n",
        b"SIP/2.0 20x OK\r\n\r\n",
        b"SIP/2.0 2000 OK\r\n\r\n",
    ] {
        assert_eq!(status(bad), None);
    }
}

#[test]
fn what_is_no_sip_is_told_apart() {
    assert_eq!(Message::parse(b"").unwrap_err(), ParseError::KeepAlive);
    assert_eq!(Message::parse(b"\r\n\r\n").unwrap_err(), ParseError::KeepAlive);
    assert_eq!(Message::parse(&[0, 0, 0, 0]).unwrap_err(), ParseError::KeepAlive);
    assert_eq!(Message::parse(b"GET / HTTP/1.1\r\n\r\n").unwrap_err(), ParseError::NotSip);
    assert_eq!(Message::parse(b"\x80\x08\x00\x01binary").unwrap_err(), ParseError::NotSip);
}

#[test]
fn defects_are_noted_not_fatal() {
    let defect = |rest: &str| {
        let text = alloc::format!("OPTIONS sip:a@b SIP/2.0\r\n{rest}");
        Message::parse(text.as_bytes()).unwrap().defect
    };
    assert_eq!(defect("no colon here\r\n\r\n"), Some(Defect::BadHeaderLine));
    assert_eq!(defect("To: x\r\n"), Some(Defect::Unterminated));
    assert_eq!(defect("l: 9999999999\r\n\r\n"), Some(Defect::BadContentLength));
    assert_eq!(defect("l: 1\r\nl: 2\r\n\r\nab"), Some(Defect::BadContentLength));
    assert_eq!(defect("l: -1\r\n\r\n"), Some(Defect::BadContentLength));
    assert_eq!(defect("l: 3\r\n\r\nab"), Some(Defect::BodyTruncated));
    assert_eq!(defect(&"X: y\r\n".repeat(MAX_HEADERS + 1)), Some(Defect::TooManyHeaders));
}
