//! The XDP program as a table of packets: name, frame, verdict. The kernel runs the program over each
//! (BPF_PROG_TEST_RUN); no interface is needed. The worker's own reading of a frame is held to the
//! same verdicts.

use dataplane::program::Program;
use etherparse::PacketBuilder;
use exchange::sources::Prefix;
use hostile::Mutator;
use packet::DropReason;
use xdp_abi::{AllowValue, CLASS_MEDIA, CLASS_SIP, MediaRange, Settings, Verdict};

const PASS: u32 = 2;
const DROP: u32 = 1;
const OURS: [u8; 4] = [192, 0, 2, 1];
const ALLOWED: [u8; 4] = [198, 51, 100, 7];
const OURS6: [u8; 16] = [0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
const ALLOWED6: [u8; 16] = [0x20, 0x01, 0x0d, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];

fn program(vlan: u16) -> Program {
    let mut program = Program::load().expect("the XDP program loads: root, and built by `cargo xtask build`");
    program.add_service((OURS, 5060).into()).unwrap();
    program.add_service((OURS6, 5060).into()).unwrap();
    program.add_media(OURS.into(), MediaRange { first: 20_000, last: 20_999 }).unwrap();
    let prefix = |address: std::net::IpAddr, length| Prefix { address, length };
    program
        .allow(prefix([198, 51, 100, 0].into(), 28), AllowValue { peer: u16::MAX, region: 3, health: 0 })
        .unwrap();
    program.allow(prefix(ALLOWED.into(), 32), AllowValue { peer: 42, region: 3, health: 1 }).unwrap();
    program.allow(prefix(ALLOWED6.into(), 64), AllowValue { peer: 43, region: 4, health: 2 }).unwrap();
    program.set_settings(Settings { epoch: 77, vlan, pad: 0 }).unwrap();
    program
}

fn v4(source: [u8; 4], port: u16) -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2([2; 6], [4; 6])
        .ipv4(source, OURS, 64)
        .udp(5060, port)
        .write(&mut frame, b"payload")
        .unwrap();
    frame
}

fn v6(source: [u8; 16], destination: [u8; 16], port: u16) -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2([2; 6], [4; 6])
        .ipv6(source, destination, 64)
        .udp(5060, port)
        .write(&mut frame, b"payload")
        .unwrap();
    frame
}

fn tagged(id: u16) -> Vec<u8> {
    let mut frame = Vec::new();
    let vlan = id.try_into().unwrap();
    PacketBuilder::ethernet2([2; 6], [4; 6])
        .single_vlan(vlan)
        .ipv4(ALLOWED, OURS, 64)
        .udp(1, 5060)
        .write(&mut frame, b"x")
        .unwrap();
    frame
}

fn edited(mut frame: Vec<u8>, at: usize, bytes: &[u8]) -> Vec<u8> {
    frame[at..at + bytes.len()].copy_from_slice(bytes);
    frame
}

/// Action and the verdict whose counter moved.
fn run(program: &mut Program, frame: &[u8]) -> (u32, Verdict, dataplane::program::TestRun) {
    let before = program.verdicts().unwrap();
    let run = program.test_run(frame).unwrap();
    let after = program.verdicts().unwrap();
    let moved: Vec<_> = before.iter().zip(&after).filter(|(b, a)| a.1 != b.1).map(|(_, a)| a.0).collect();
    assert_eq!(moved.len(), 1, "one packet moves one counter: {moved:?}");
    (run.action, moved[0], run)
}

#[test]
fn every_branch_has_its_verdict() {
    let icmp = {
        let mut frame = Vec::new();
        PacketBuilder::ethernet2([2; 6], [4; 6])
            .ipv4(ALLOWED, OURS, 64)
            .icmpv4_echo_request(1, 2)
            .write(&mut frame, b"ping")
            .unwrap();
        frame
    };
    let tcp = {
        let mut frame = Vec::new();
        PacketBuilder::ethernet2([2; 6], [4; 6])
            .ipv4(ALLOWED, OURS, 64)
            .tcp(1, 5060, 0, 1000)
            .write(&mut frame, b"")
            .unwrap();
        frame
    };
    let good = v4(ALLOWED, 5060);
    let good6 = v6(ALLOWED6, OURS6, 5060);
    let mapped = *std::net::Ipv4Addr::from(ALLOWED).to_ipv6_mapped().octets().first_chunk::<16>().unwrap();
    let arp = edited(vec![0; 60], 12, &[0x08, 0x06]);
    let rows: Vec<(&str, Vec<u8>, u32, Verdict)> = vec![
        // Without a socket in the map a steered packet passes: that is how a dead worker looks.
        ("SIP over IPv4", good.clone(), PASS, Verdict::PassNoSocket),
        ("SIP over IPv6", good6.clone(), PASS, Verdict::PassNoSocket),
        ("media, first port", v4(ALLOWED, 20_000), PASS, Verdict::PassNoSocket),
        ("media, last port", v4(ALLOWED, 20_999), PASS, Verdict::PassNoSocket),
        ("padded to 60 bytes", [good.clone(), vec![0; 11]].concat(), PASS, Verdict::PassNoSocket),
        (
            "a source elsewhere in the allowed range",
            v4([198, 51, 100, 14], 5060),
            PASS,
            Verdict::PassNoSocket,
        ),
        ("one past the range", v4([198, 51, 100, 16], 5060), DROP, Verdict::DropNotAllowed),
        ("media from outside", v4([203, 0, 113, 9], 20_000), DROP, Verdict::DropNotAllowed),
        ("IPv6 from outside", v6([0xfe; 16], OURS6, 5060), DROP, Verdict::DropNotAllowed),
        ("IPv4-mapped IPv6 source", v6(mapped, OURS6, 5060), PASS, Verdict::PassNoService),
        ("port before the media range", v4(ALLOWED, 19_999), PASS, Verdict::PassNoService),
        ("port behind the media range", v4(ALLOWED, 21_000), PASS, Verdict::PassNoService),
        ("another port, from outside", v4([203, 0, 113, 9], 22), PASS, Verdict::PassNoService),
        ("another address", edited(good.clone(), 30, &[192, 0, 2, 2]), PASS, Verdict::PassNoService),
        ("ARP", arp, PASS, Verdict::PassNotIp),
        ("IPv6 ethertype, version 4", edited(good6.clone(), 14, &[0x45]), PASS, Verdict::PassNotIp),
        ("ICMP", icmp, PASS, Verdict::PassNotUdp),
        ("TCP to the SIP port", tcp, PASS, Verdict::PassNotUdp),
        ("IPv6 with a hop-by-hop header", edited(good6.clone(), 20, &[0]), PASS, Verdict::PassNotUdp),
        ("first fragment", edited(good.clone(), 20, &[0x20, 0]), PASS, Verdict::PassFragment),
        ("later fragment", edited(good.clone(), 20, &[0, 0xb9]), PASS, Verdict::PassFragment),
        ("IPv6 fragment header", edited(good6.clone(), 20, &[44]), PASS, Verdict::PassFragment),
        ("don't-fragment is no fragment", edited(good.clone(), 20, &[0x40, 0]), PASS, Verdict::PassNoSocket),
        ("IPv4 options", edited(good.clone(), 14, &[0x46]), PASS, Verdict::PassIpOptions),
        ("IPv4 header length below 20", edited(good.clone(), 14, &[0x44]), PASS, Verdict::PassIpOptions),
        (
            "total length beyond the frame",
            edited(good.clone(), 16, &[0x05, 0xdc]),
            PASS,
            Verdict::PassTruncated,
        ),
        ("total length below the header", edited(good.clone(), 16, &[0, 10]), PASS, Verdict::PassTruncated),
        ("UDP length beyond IP", edited(good.clone(), 38, &[0, 100]), PASS, Verdict::PassTruncated),
        ("UDP length below 8", edited(good.clone(), 38, &[0, 7]), PASS, Verdict::PassTruncated),
        ("cut in the UDP header", good[..38].to_vec(), PASS, Verdict::PassTruncated),
        ("cut in the IPv4 header", good[..30].to_vec(), PASS, Verdict::PassTruncated),
        ("cut in the IPv6 header", good6[..50].to_vec(), PASS, Verdict::PassTruncated),
        ("only an Ethernet header", good[..14].to_vec(), PASS, Verdict::PassTruncated),
        ("VLAN tag on an untagged interface", tagged(7), PASS, Verdict::PassOtherVlan),
        ("802.1ad", edited(good.clone(), 12, &[0x88, 0xa8]), PASS, Verdict::PassOtherVlan),
    ];
    let mut program = program(0);
    let mut failures = Vec::new();
    for (name, frame, action, verdict) in rows {
        let (got_action, got_verdict, run) = run(&mut program, &frame);
        if (got_action, got_verdict) != (action, verdict) {
            failures.push(format!(
                "{name}: action {got_action} verdict {got_verdict:?}, expected {action} {verdict:?}"
            ));
        }
        assert_eq!(run.frame, frame, "{name}: the frame was touched");
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn vlans() {
    let mut program = program(42);
    let double = edited(tagged(42), 16, &[0x81, 0]);
    for (name, frame, verdict) in [
        ("own VLAN", tagged(42), Verdict::PassNoSocket),
        ("another VLAN", tagged(43), Verdict::PassOtherVlan),
        ("untagged", v4(ALLOWED, 5060), Verdict::PassOtherVlan),
        ("two tags", double, Verdict::PassOtherVlan),
        ("cut behind the tag", tagged(42)[..18].to_vec(), Verdict::PassTruncated),
    ] {
        assert_eq!(run(&mut program, &frame).1, verdict, "{name}");
    }
}

#[test]
fn the_tag_says_who_and_what() {
    let mut program = program(0);
    let tag = program.test_run(&v4(ALLOWED, 5060)).unwrap().tag.unwrap();
    assert_eq!((tag.class, tag.peer, tag.region, tag.health, tag.epoch), (CLASS_SIP, 42, 3, 1, 77));
    assert_ne!(tag.seen_at, 0);
    let tag = program.test_run(&v4([198, 51, 100, 2], 20_000)).unwrap().tag.unwrap();
    assert_eq!((tag.class, tag.peer, tag.region, tag.health), (CLASS_MEDIA, u16::MAX, 3, 0));
    let tag = program.test_run(&v6(ALLOWED6, OURS6, 5060)).unwrap().tag.unwrap();
    assert_eq!((tag.peer, tag.region, tag.health), (43, 4, 2));
    assert_eq!(program.test_run(&v4(ALLOWED, 80)).unwrap().tag, None);
}

#[test]
fn the_worker_understands_every_frame_that_is_steered() {
    let mut program = program(0);
    let seeds = [v4(ALLOWED, 5060), v4(ALLOWED, 20_000), v6(ALLOWED6, OURS6, 5060)];
    let mut mutator = Mutator::new(1);
    let mut steered = 0;
    for i in 0..30_000usize {
        let frame = mutator.mutate(&seeds[i % seeds.len()]);
        if frame.len() < 14 {
            continue;
        }
        let Ok(run) = program.test_run(&frame) else { continue };
        if run.tag.is_none() {
            continue;
        }
        steered += 1;
        let parsed = packet::frame::parse(&frame);
        let judged_alike = matches!(parsed, Ok(_) | Err(DropReason::ChecksumIp | DropReason::ChecksumUdp));
        assert!(judged_alike, "steered, but the worker says {parsed:?}: {frame:02x?}");
    }
    assert!(steered > 1000, "only {steered} frames were steered");
}
