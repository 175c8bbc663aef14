//! Instructions of each stage, counted by callgrind: the same number on every run.

#![expect(missing_docs, unused_qualifications, reason = "in code that the macros write")]

use gungraun::prelude::*;
use std::hint::black_box;

fn frame() -> Vec<u8> {
    ::bench::stages::rtp_frame("198.51.100.11:6000".parse().unwrap(), "198.18.0.1:20000".parse().unwrap())
}

#[library_benchmark]
#[bench::rtp(setup = frame)]
fn frame_view_and_rewrite(mut frame: Vec<u8>) -> Vec<u8> {
    ::bench::stages::view_and_rewrite(black_box(&mut frame));
    frame
}

#[library_benchmark]
#[bench::invite_670(setup = ::bench::stages::invite)]
fn sip_parse(invite: Vec<u8>) -> (u32, Vec<u8>) {
    (::bench::stages::parse_sip(black_box(&invite)), invite)
}

#[library_benchmark]
#[bench::four(args = (4,), setup = ::bench::stages::table)]
#[bench::thousand(args = (1000,), setup = ::bench::stages::table)]
fn table_lookup(table: routing::Table) -> (Option<(routing::Choice, routing::PeerId)>, routing::Table) {
    (::bench::stages::table_lookup(black_box(&table), 12345), table)
}

/// The source is learned.
fn relay() -> Box<::bench::stages::Relay> {
    let mut relay = Box::new(::bench::stages::Relay::new());
    relay.one();
    relay
}

#[library_benchmark]
#[bench::one(setup = relay)]
fn rtp_relay_in_memory(mut relay: Box<::bench::stages::Relay>) -> Box<::bench::stages::Relay> {
    relay.one();
    relay
}

/// The second one: buffers have grown and caches are warm.
fn warm(mut forwarder: ::bench::stages::Forwarder) -> ::bench::stages::Forwarder {
    forwarder.one();
    forwarder
}

fn forward_invite() -> ::bench::stages::Forwarder {
    warm(::bench::stages::Forwarder::invite())
}

fn forward_bye() -> ::bench::stages::Forwarder {
    warm(::bench::stages::Forwarder::bye())
}

#[library_benchmark]
#[bench::invite_670(setup = forward_invite)]
#[bench::bye(setup = forward_bye)]
fn sip_forward_stateless(mut forwarder: ::bench::stages::Forwarder) -> ::bench::stages::Forwarder {
    forwarder.one();
    forwarder
}

library_benchmark_group!(
    name = stages;
    benchmarks = frame_view_and_rewrite, sip_parse, table_lookup, rtp_relay_in_memory, sip_forward_stateless
);
main!(library_benchmark_groups = stages);
