use super::*;
use alloc::{string::String, vec::Vec};

/// The body with every place marked, and what was learned.
fn marked(body: &str) -> Option<(String, Option<SocketAddr>, Option<u16>)> {
    let audio = scan(body.as_bytes())?;
    let mut places: Vec<_> = audio.places.iter().collect();
    places.sort_by_key(|(range, _)| range.start);
    let mut out = String::new();
    let mut at = 0;
    for (range, place) in places {
        let name = match place {
            Place::Connection => "C",
            Place::NewConnectionLine => "N",
            Place::Port => "P",
            Place::Rtcp { .. } => "R",
        };
        out += &body[at..range.start];
        out += name;
        at = range.end;
    }
    out += &body[at..];
    Some((out, audio.rtp, audio.rtcp_port))
}

fn addr(text: &str) -> Option<SocketAddr> {
    Some(text.parse().unwrap())
}

#[test]
fn one_stream_with_session_or_media_address() {
    assert_eq!(
        marked("v=0\r\nc=IN IP4 192.0.2.1\r\nt=0 0\r\nm=audio 4000 RTP/AVP 8\r\na=sendrecv\r\n").unwrap(),
        (
            "v=0\r\nc=IN C\r\nt=0 0\r\nm=audio P RTP/AVP 8\r\na=sendrecv\r\n".into(),
            addr("192.0.2.1:4000"),
            None
        )
    );
    assert_eq!(
        marked("v=0\nc=IN IP4 192.0.2.1\nm=audio 4000/1 RTP/AVP 8\nc=IN IP6 2001:db8::1\na=rtcp:4005 IN IP6 2001:db8::1").unwrap(),
        ("v=0\nc=IN IP4 192.0.2.1\nm=audio P/1 RTP/AVP 8\nc=IN C\na=rtcp:R".into(), addr("[2001:db8::1]:4000"), Some(4005))
    );
}

#[test]
fn other_streams_keep_the_session_address() {
    let (text, rtp, _) =
        marked("v=0\nc=IN IP4 192.0.2.1\nm=audio 4000 RTP/AVP 8\ni=x\na=y\nm=video 5000 RTP/AVP 31\n")
            .unwrap();
    assert_eq!(text, "v=0\nc=IN IP4 192.0.2.1\nm=audio P RTP/AVP 8\ni=xN\na=y\nm=video 5000 RTP/AVP 31\n");
    assert_eq!(rtp, addr("192.0.2.1:4000"));
}

#[test]
fn hold_and_declined() {
    let (text, rtp, _) = marked("v=0\nc=IN IP4 0.0.0.0\nm=audio 4000 RTP/AVP 8\n").unwrap();
    assert_eq!((text.as_str(), rtp), ("v=0\nc=IN C\nm=audio P RTP/AVP 8\n", None));
    let body = "v=0\nc=IN IP4 192.0.2.1\nm=audio 0 RTP/AVP 8\n";
    let (text, rtp, _) = marked(body).unwrap();
    assert_eq!((text.as_str(), rtp), (body, None));
}

#[test]
fn what_cannot_be_anchored() {
    for body in [
        "",
        "hello",
        "v=0\n",
        "v=0\nm=video 5000 RTP/AVP 31\n",
        "v=0\nm=audio 4000 RTP/AVP 8\n",
        "v=0\nc=IN IP4 host.example\nm=audio 4000 RTP/AVP 8\n",
        "v=0\nc=IN IP4 192.0.2.1\nm=audio 70000 RTP/AVP 8\n",
        "v=0\nc=IN IP4 192.0.2.1\nm=audio 4000/2 RTP/AVP 8\n",
        "v=0\nc=IN IP4 192.0.2.1\nm=audio 4000",
    ] {
        assert_eq!(marked(body), None, "{body:?}");
    }
}
