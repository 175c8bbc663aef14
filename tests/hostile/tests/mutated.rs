//! Bad input of every kind: mutated frames and messages, and the torture messages of RFC 4475 and 5118.

use hostile::{ACCESS, Bench, Mutator, frame_property, sip_property, stream_property};
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
