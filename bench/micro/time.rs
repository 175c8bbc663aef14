//! Time of each stage.

use bench::stages;
use divan::{Bencher, black_box};

fn main() {
    divan::main();
}

#[divan::bench(sample_size = 1000)]
fn frame_view_and_rewrite(bencher: Bencher) {
    let mut frame =
        stages::rtp_frame("198.51.100.11:6000".parse().unwrap(), "198.18.0.1:20000".parse().unwrap());
    bencher.bench_local(|| stages::view_and_rewrite(black_box(&mut frame)));
}

#[divan::bench(sample_size = 200)]
fn sip_parse_invite_670(bencher: Bencher) {
    let invite = stages::invite();
    bencher.bench_local(|| stages::parse_sip(black_box(&invite)));
}

#[divan::bench(args = [4, 100, 1000])]
fn table_lookup(bencher: Bencher, peers: u16) {
    let table = stages::table(peers);
    let mut roll = 1u32;
    bencher.bench_local(|| {
        roll = roll.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        stages::table_lookup(black_box(&table), roll)
    });
}

#[divan::bench(sample_size = 1000)]
fn rtp_relay_in_memory(bencher: Bencher) {
    let mut relay = stages::Relay::new();
    bencher.bench_local(|| relay.one());
}

/// Packets of random streams, in batches.
#[divan::bench(args = [100, 1_000, 10_000, 100_000], sample_size = 100, sample_count = 500)]
fn rtp_stream_lookup_batch_of_64(bencher: Bencher, streams: usize) {
    let mut streams = stages::Streams::new(streams);
    bencher.counter(divan::counter::ItemsCount::new(stages::BATCH)).bench_local(|| streams.batch());
}

#[divan::bench(sample_size = 200)]
fn sip_forward_stateless_invite_670(bencher: Bencher) {
    let mut forwarder = stages::Forwarder::invite();
    bencher.bench_local(|| forwarder.one());
}

#[divan::bench(sample_size = 200)]
fn sip_forward_stateless_bye(bencher: Bencher) {
    let mut forwarder = stages::Forwarder::bye();
    bencher.bench_local(|| forwarder.one());
}
