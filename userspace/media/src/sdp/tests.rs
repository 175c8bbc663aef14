use super::*;
use crate::ports::PortPair;
use alloc::{format, string::String, vec::Vec};
use core::{fmt, ops::Range};

struct Changes(Vec<(Range<usize>, String)>);

impl Sink for Changes {
    fn replace(&mut self, range: Range<usize>, text: fmt::Arguments<'_>) {
        self.0.push((range, format!("{text}")));
    }
}

/// The body with all streams that can be relayed shown at ports 20000, 20002 and so on.
fn anchored_at(ip: &str, body: &str) -> String {
    let sdp = scan(body.as_bytes()).unwrap();
    let shown = |(i, s): (usize, &Stream)| {
        let ports = PortPair::new(20_000 + 2 * i as u16);
        if s.is_relayed() { Shown::At { ip: ip.parse().unwrap(), ports } } else { Shown::Untouched }
    };
    let shown: Vec<_> = sdp.streams.iter().enumerate().map(shown).collect();
    written(body, &sdp, &shown)
}

fn written(body: &str, sdp: &Sdp, shown: &[Shown]) -> String {
    let mut changes = Changes(Vec::new());
    rewrite(body.as_bytes(), sdp, shown, &mut changes);
    let (mut out, mut at) = (String::new(), 0);
    for (range, text) in changes.0 {
        out += &body[at..range.start];
        out += &text;
        at = range.end;
    }
    out + &body[at..]
}

fn anchored(body: &str) -> String {
    anchored_at("198.51.100.1", body)
}

#[test]
fn one_stream_with_the_address_at_the_session_or_at_the_stream() {
    assert_eq!(
        anchored(
            "v=0\r\no=- 1 1 IN IP4 192.0.2.9\r\ns=-\r\nc=IN IP4 192.0.2.9\r\nt=0 0\r\nm=audio 4000 RTP/AVP 8\r\na=sendrecv\r\n"
        ),
        "v=0\r\no=- 1 1 IN IP4 192.0.2.9\r\ns=-\r\nc=IN IP4 198.51.100.1\r\nt=0 0\r\nm=audio 20000 RTP/AVP 8\r\na=sendrecv\r\n"
    );
    assert_eq!(
        anchored_at("2001:db8::1", "v=0\nm=audio 4000/1 RTP/AVP 8\ni=x\nc=IN IP4 192.0.2.9 \na=rtcp:4005\n"),
        "v=0\nm=audio 20000/1 RTP/AVP 8\ni=x\nc=IN IP6 2001:db8::1 \na=rtcp:20001\n"
    );
}

#[test]
fn every_connection_line_changes_in_step_and_hold_stays_hold() {
    // Known fault B111: session on hold, stream real.
    assert_eq!(
        anchored(
            "v=0\nc=IN IP4 0.0.0.0\nm=audio 4000 RTP/AVP 8\nc=IN IP4 192.0.2.9\nm=video 5000 RTP/AVP 31\n"
        ),
        "v=0\nc=IN IP4 0.0.0.0\nm=audio 20000 RTP/AVP 8\nc=IN IP4 198.51.100.1\nm=video 20002 RTP/AVP 31\n"
    );
    assert_eq!(
        anchored_at("2001:db8::1", "v=0\nc=IN IP4 0.0.0.0\nm=audio 4000 RTP/AVP 8\n"),
        "v=0\nc=IN IP6 ::\nm=audio 20000 RTP/AVP 8\n"
    );
}

#[test]
fn rtcp_attribute_with_and_without_address_and_multiplexed() {
    let rtcp = |attributes: &str| {
        let body = format!("v=0\nc=IN IP4 192.0.2.9\nm=audio 4000 RTP/AVP 8\n{attributes}");
        String::from(anchored(&body).split_once("RTP/AVP 8\n").unwrap().1)
    };
    assert_eq!(rtcp("a=rtcp:4001\n"), "a=rtcp:20001\n");
    assert_eq!(rtcp("a=rtcp:4007 IN IP4 192.0.2.8\r\n"), "a=rtcp:20001 IN IP4 198.51.100.1\r\n");
    assert_eq!(rtcp("a=rtcp:4000\na=rtcp-mux\n"), "a=rtcp:20000\na=rtcp-mux\n");
    assert_eq!(rtcp("a=rtcp-fb:96 nack\na=rtcp:x\n"), "a=rtcp-fb:96 nack\na=rtcp:x\n");
    let sdp = scan(b"v=0\nc=IN IP4 192.0.2.9\nm=audio 4000 RTP/AVP 8\na=rtcp:4007\na=rtcp-mux\n").unwrap();
    assert_eq!((sdp.streams[0].rtcp, sdp.streams[0].rtcp_mux), (Some(4007), true));
}

#[test]
fn declined_bundled_and_foreign_streams_stay_as_they_are() {
    let body = "v=0\nc=IN IP4 192.0.2.9\nm=audio 4000 RTP/AVP 8\nm=video 0 RTP/AVP 31\nm=video 0 RTP/AVP 31\na=bundle-only\n";
    assert_eq!(anchored(body), body.replace("192.0.2.9", "198.51.100.1").replace("4000", "20000"));
    // A stream by TCP needs the session's address; the one that is relayed gets its own.
    assert_eq!(
        anchored(
            "v=0\nc=IN IP4 192.0.2.9\nm=message 2855 TCP/MSRP *\nm=audio 4000 RTP/AVP 8\ni=title\na=x\n"
        ),
        "v=0\nc=IN IP4 192.0.2.9\nm=message 2855 TCP/MSRP *\nm=audio 20002 RTP/AVP 8\ni=title\nc=IN IP4 198.51.100.1\r\na=x\n"
    );
    // On hold it stays there.
    assert_eq!(
        anchored("v=0\nc=IN IP4 0.0.0.0\nm=message 2855 TCP/MSRP *\nm=audio 4000 RTP/AVP 8\n"),
        "v=0\nc=IN IP4 0.0.0.0\nm=message 2855 TCP/MSRP *\nm=audio 20002 RTP/AVP 8\nc=IN IP4 0.0.0.0\r\n"
    );
    // The same at the very end, without a line end.
    assert_eq!(
        anchored("v=0\nc=IN IP4 192.0.2.9\nm=message 2855 TCP/MSRP *\nm=audio 4000 RTP/AVP 8"),
        "v=0\nc=IN IP4 192.0.2.9\nm=message 2855 TCP/MSRP *\nm=audio 20002 RTP/AVP 8\r\nc=IN IP4 198.51.100.1"
    );
    let multicast = "v=0\nc=IN IP4 233.252.0.1/127\nm=audio 4000 RTP/AVP 8\n";
    assert_eq!(anchored(multicast), multicast);
    let nothing = "v=0\nm=audio 0 RTP/AVP 8\na=candidate:1\n";
    assert_eq!(anchored(nothing), nothing);
}

#[test]
fn ice_goes_and_fingerprints_keys_and_unknown_lines_stay() {
    let body = "v=0\r\na=ice-lite\r\na=group:BUNDLE 0\r\na=fingerprint:sha-256 AB:CD\r\nm=audio 4000 UDP/TLS/RTP/SAVPF 111\r\nc=IN IP4 192.0.2.9\r\na=candidate:1 1 UDP 1 192.0.2.9 4000 typ host\r\na=ice-ufrag:x\r\na=ice-pwd:y\r\na=ice-options:trickle\r\na=end-of-candidates\r\na=remote-candidates:1 192.0.2.1 5\r\na=mid:0\r\na=setup:actpass\r\na=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:k\r\na=icecream:1\r\nb=AS:64\r\nz=what\r\n";
    assert_eq!(
        anchored(body),
        "v=0\r\na=group:BUNDLE 0\r\na=fingerprint:sha-256 AB:CD\r\nm=audio 20000 UDP/TLS/RTP/SAVPF 111\r\nc=IN IP4 198.51.100.1\r\na=mid:0\r\na=setup:actpass\r\na=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:k\r\na=icecream:1\r\nb=AS:64\r\nz=what\r\n"
    );
    assert!(scan(body.as_bytes()).unwrap().ice);
}

#[test]
fn blank_lines_are_skipped_and_kept() {
    // Known fault X40.
    assert_eq!(
        anchored("v=0\r\n\r\nc=IN IP4 192.0.2.9\r\n\r\nm=audio 4000 RTP/AVP 8\r\n\r\n\r\n"),
        "v=0\r\n\r\nc=IN IP4 198.51.100.1\r\n\r\nm=audio 20000 RTP/AVP 8\r\n\r\n\r\n"
    );
}

#[test]
fn a_stream_without_port_is_declined() {
    let body = "v=0\nc=IN IP4 192.0.2.9\nm=audio 4000 RTP/AVP 8\nm=video 5000 RTP/AVP 31\n";
    let sdp = scan(body.as_bytes()).unwrap();
    let at = Shown::At { ip: "198.51.100.1".parse().unwrap(), ports: PortPair::new(30_000) };
    assert_eq!(
        written(body, &sdp, &[at, Shown::Declined]),
        "v=0\nc=IN IP4 198.51.100.1\nm=audio 30000 RTP/AVP 8\nm=video 0 RTP/AVP 31\n"
    );
}

#[test]
fn what_a_description_says() {
    let one = |body: &str| scan(format!("v=0\n{body}").as_bytes()).unwrap().streams[0];
    let audio = one(
        "c=IN IP4 192.0.2.9\na=sendonly\nm=audio 4000 RTP/AVP 96 8\na=rtpmap:8 PCMA/8000\na=rtpmap:96 opus/48000/2\n",
    );
    assert_eq!((audio.flows, audio.clock_rate, audio.rtp), (false, 48_000, true));
    assert!(one("c=IN IP4 192.0.2.9\na=sendonly\nm=audio 4000 RTP/AVP 0\na=sendrecv\n").flows);
    let fax = one("m=image 4000 udptl t38\nc=IN IP4 192.0.2.9\n");
    assert_eq!((fax.udp, fax.rtp), (true, false));
    let named = one("m=audio 4000 RTP/AVP 8\nc=IN IP4 media.example.net\n");
    assert_eq!((named.connection, named.address()), (Connection::Name, None));
    let to_come = one("m=audio 9 UDP/TLS/RTP/SAVPF 8\nc=IN IP4 0.0.0.0\n");
    assert_eq!((to_come.connection, to_come.address()), (Connection::Unspecified, None));
}

#[test]
fn what_is_broken() {
    for (body, why) in [
        ("", Broken::NoVersion),
        ("hello", Broken::NoVersion),
        ("v=0\nm=audio 4000 RTP/AVP 8\n", Broken::NoConnection),
        ("v=0\nc=IN IP4 192.0.2\nm=audio 4000 RTP/AVP 8\n", Broken::Connection),
        ("v=0\nc=192.0.2.9\nm=audio 4000 RTP/AVP 8\n", Broken::Connection),
        ("v=0\nc=IN IP4 192.0.2.9\nm=audio 70000 RTP/AVP 8\n", Broken::MediaLine),
        ("v=0\nc=IN IP4 192.0.2.9\nm=audio -1 RTP/AVP 8\n", Broken::MediaLine),
        ("v=0\nc=IN IP4 192.0.2.9\nm=audio 4000\n", Broken::MediaLine),
        ("v=0\nc=IN IP4 192.0.2.9\nm=audio\n", Broken::MediaLine),
        ("v=0\nc=IN IP4 192.0.2.9\nm=audio 4000/x RTP/AVP 8\n", Broken::MediaLine),
        ("v=0\nc=IN IP4 192.0.2.9\nm=video 4000/2 RTP/AVP 31\n", Broken::PortCount),
    ] {
        assert_eq!(scan(body.as_bytes()).unwrap_err(), why, "{body:?}");
    }
    let many = format!("v=0\nc=IN IP4 192.0.2.9\n{}", "m=audio 4 RTP/AVP 8\n".repeat(MAX_STREAMS + 1));
    assert_eq!(scan(many.as_bytes()).unwrap_err(), Broken::TooManyStreams);
    assert!(scan(b"v=0\ns=no media\n").unwrap().streams.is_empty());
}

#[test]
fn bundled_streams_are_found_by_their_address() {
    let sdp = scan(b"v=0\nc=IN IP4 192.0.2.9\nm=audio 4000 RTP/AVP 8\nm=video 4000 RTP/AVP 31\nm=video 5000 RTP/AVP 31\n").unwrap();
    assert_eq!((0..3).map(|i| sdp.bundled_with(i)).collect::<Vec<_>>(), [None, Some(0), None]);
}

#[test]
fn the_part_of_a_body_that_is_sdp() {
    let part = |kind: &str, body: &str| {
        let part = part::find(kind.as_bytes(), body.as_bytes())?;
        let length = part.content_length.map(|r| String::from(&body[r]));
        Some((String::from(&body[part.range]), length))
    };
    assert_eq!(part("application/SDP;x=y", "v=0\n").unwrap().0, "v=0\n");
    assert_eq!(part("application/sdp", ""), None);
    assert_eq!(part("application/pkcs7-mime", "v=0\n"), None);
    let mixed = "preamble --b\r\n--b\r\nContent-Type: application/isup\r\n\r\n\x01\x02--b\r\n--bb\r\n\r\n--b\r\nContent-Type: application/sdp\r\nContent-Length: 5\r\n\r\nv=0\r\ns=-\r\n--b--\r\n";
    assert_eq!(part("multipart/mixed;boundary=b", mixed).unwrap(), ("v=0\r\ns=-".into(), Some("5".into())));
    assert_eq!(part("multipart/mixed; boundary=\"b\"", mixed).unwrap().0, "v=0\r\ns=-");
    assert_eq!(part("multipart/signed;boundary=b", mixed), None);
    assert_eq!(part("multipart/mixed", mixed), None);
    assert_eq!(part("multipart/mixed;boundary=c", mixed), None);
    for header in ["Content-Transfer-Encoding: base64", "Content-Disposition: early-session"] {
        let body = format!("--b\r\nContent-Type: application/sdp\r\n{header}\r\n\r\nv=0\r\n--b--\r\n");
        assert_eq!(part("multipart/mixed;boundary=b", &body), None);
    }
    for cut in 0..mixed.len() {
        let _ = part("multipart/mixed;boundary=b", &mixed[..cut]);
    }
}
