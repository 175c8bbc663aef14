//! Bad input of every kind: mutated frames and messages, and the torture messages of RFC 4475 and 5118.

use hostile::{
    ACCESS, Bench, Mutator,
    description::{packet_property, sdp_property},
    frame_property, sip_property, stream_property,
};
use std::{fs, net::SocketAddr, path::Path, time::Duration};

const ROUNDS: usize = 300_000;

/// All files below tests/corpus that hold one datagram.
fn corpus() -> Vec<(String, Vec<u8>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus");
    let mut found = Vec::new();
    let mut directories = vec![root];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).expect("the corpus") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                directories.push(path);
            } else if name != "README.md" {
                found.push((name, fs::read(&path).expect("a file")));
            }
        }
    }
    assert!(found.len() > 100, "{} files", found.len());
    found.sort();
    found
}

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

#[test]
fn frames_keep_their_property_under_mutation() {
    let mut seeds = Vec::new();
    for vlan in [None, Some(7)] {
        for (source, destination) in [("192.0.2.9:5060", ACCESS), ("[2001:db8::9]:1", "[2001:db8::1]:5060")] {
            let headers = packet::Headers {
                destination_mac: packet::ethernet::Mac([1; 6]),
                source_mac: packet::ethernet::Mac([2; 6]),
                vlan,
                source: address(source),
                destination: address(destination),
                tos: 0,
            };
            let payload = b"OPTIONS sip:a@b SIP/2.0\r\n\r\n";
            let start = packet::frame::headers_len(&headers);
            let mut frame = vec![0; start + payload.len()];
            frame[start..].copy_from_slice(payload);
            packet::frame::write(
                &mut frame,
                &headers,
                payload.len(),
                packet::checksum::Sum::new().add_bytes(payload),
            );
            frame_property(&frame);
            assert!(packet::frame::parse(&frame).is_ok());
            seeds.push(frame);
        }
    }
    let mut mutator = Mutator::new(7);
    for i in 0..ROUNDS {
        frame_property(&mutator.mutate(&seeds[i % seeds.len()]));
    }
}

#[test]
fn messages_keep_their_property_under_mutation() {
    let seeds = corpus();
    let mut mutator = Mutator::new(8);
    for (_, seed) in &seeds {
        sip_property(seed);
    }
    for i in 0..ROUNDS {
        sip_property(&mutator.mutate(&seeds[i % seeds.len()].1));
    }
}

/// Descriptions of every kind, and those of the corpus.
fn descriptions() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = [
        "v=0\r\no=- 1 1 IN IP4 192.0.2.9\r\ns=-\r\nc=IN IP4 192.0.2.9\r\nt=0 0\r\nm=audio 4000 RTP/AVP 8 101\r\na=rtpmap:8 PCMA/8000\r\na=sendrecv\r\n",
        "v=0\r\no=- 1 1 IN IP6 2001:db8::9\r\ns=-\r\nt=0 0\r\nm=audio 4000 RTP/SAVP 0\r\ni=title\r\nc=IN IP6 2001:db8::9\r\na=crypto:1 X inline:k\r\na=rtcp:4009 IN IP6 2001:db8::9\r\nm=video 0 RTP/AVP 31\r\nm=message 2855 TCP/MSRP *\r\nc=IN IP4 192.0.2.8\r\n",
        "v=0\no=- 1 1 IN IP4 192.0.2.9\ns=-\nc=IN IP4 0.0.0.0\nt=0 0\nm=audio 4000 RTP/AVP 8\nc=IN IP4 192.0.2.9\nm=image 4000 udptl t38\nm=video 5000 RTP/AVP 31\na=inactive",
        "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\na=group:BUNDLE 0 1\r\na=ice-lite\r\nm=audio 9 UDP/TLS/RTP/SAVPF 111\r\nc=IN IP4 0.0.0.0\r\na=rtcp:9 IN IP4 0.0.0.0\r\na=ice-ufrag:x\r\na=candidate:1 1 udp 1 192.0.2.9 4000 typ host\r\na=rtcp-mux\r\na=fingerprint:sha-256 AB\r\nm=video 0 UDP/TLS/RTP/SAVPF 96\r\na=bundle-only\r\n",
        "v=0\r\nc=IN IP4 host.example.net\r\nm=audio 4000/1 RTP/AVP 0\r\n\r\nm=message 9 TCP/MSRP *\r\nm=audio 4002 RTP/AVP 0",
        "--b\r\nContent-Type: application/sdp\r\nContent-Length: 9\r\n\r\nv=0\r\ns=-\r\n--b\r\n\r\nx\r\n--b--\r\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into();
    for (_, message) in corpus() {
        let body = message.windows(4).position(|w| w == b"\r\n\r\n").map(|at| message[at + 4..].to_vec());
        seeds.extend(body.filter(|b| b.starts_with(b"v=")));
    }
    assert!(seeds.len() > 20, "{} descriptions", seeds.len());
    seeds
}

#[test]
fn sdp_keeps_what_it_does_not_own() {
    let seeds = descriptions();
    seeds.iter().for_each(|seed| sdp_property(seed));
    let mut mutator = Mutator::new(11);
    for i in 0..ROUNDS / 10 {
        sdp_property(&mutator.mutate(&seeds[i % seeds.len()]));
    }
}

#[test]
fn packets_are_told_apart_under_mutation() {
    let mut rtp = vec![0x90, 8, 0, 1, 0, 0, 0, 160, 0, 0, 0, 1, 0xbe, 0xde, 0, 1, 0xf0, 0, 0, 0];
    rtp.extend([7; 160]);
    let mut seeds: Vec<Vec<u8>> = vec![
        rtp,
        vec![
            0x80, 200, 0, 6, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22,
            23, 24,
        ],
        [&[0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42][..], &[9; 12]].concat(),
    ];
    // Minimal inputs of known faults: X26 to X30, B96.
    let known = corpus().into_iter().filter(|(name, _)| name.ends_with(".rtp") || name.ends_with(".rtcp"));
    seeds.extend(known.map(|(_, packet)| packet));
    seeds.iter().for_each(|seed| packet_property(seed));
    let mut mutator = Mutator::new(12);
    for i in 0..ROUNDS / 100 {
        packet_property(&mutator.mutate(&seeds[i % seeds.len()]));
    }
}

#[test]
fn streams_keep_their_property_under_mutation() {
    let seeds = corpus();
    let mut mutator = Mutator::new(10);
    for i in 0..ROUNDS / 4 {
        // Two messages in a row, so that one's damage may reach the other.
        let mut stream = seeds[i % seeds.len()].1.clone();
        stream.extend_from_slice(&seeds[(i * 7 + 1) % seeds.len()].1);
        stream_property(&mutator.mutate(&stream));
    }
}

#[test]
fn a_worker_counts_every_datagram_and_survives_it() {
    let seeds = corpus();
    let mut bench = Bench::new();
    let mut mutator = Mutator::new(9);
    let remote = address("203.0.113.5:5060");
    for i in 0..ROUNDS {
        let datagram = match seeds.get(i) {
            Some((_, seed)) => seed.clone(),
            None => mutator.mutate(&seeds[i % seeds.len()].1),
        };
        let before = bench.counted();
        bench.receive(address(ACCESS), remote, &datagram);
        assert!(bench.counted() > before, "a datagram vanished: {}", String::from_utf8_lossy(&datagram));
        if i % 64 == 0 {
            bench.pass(Duration::from_secs(1));
        }
    }
    assert!(bench.engine().transactions() <= 10_000, "bounded");
    // Everything ends by itself: no transaction or port is left when all timers have run.
    for _ in 0..600 {
        bench.pass(Duration::from_secs(1));
    }
    assert_eq!((bench.engine().transactions(), bench.engine().sessions()), (0, 0));
}
