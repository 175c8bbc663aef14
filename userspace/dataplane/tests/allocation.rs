//! What packets and transactions cost in memory, counted by the allocator.

use bench::stages;
use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

struct Counting;

thread_local! {
    /// Allocations of this thread, and bytes it holds.
    static COUNTED: Cell<(u64, i64)> = const { Cell::new((0, 0)) };
}

fn add(allocations: u64, bytes: i64) {
    // The thread may be ending.
    let _ = COUNTED.try_with(|c| c.set((c.get().0 + allocations, c.get().1 + bytes)));
}

fn allocations() -> u64 {
    COUNTED.get().0
}

fn held() -> i64 {
    COUNTED.get().1
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(1, layout.size() as i64);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        add(0, -(layout.size() as i64));
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(ptr, layout) }
    }
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        add(1, size as i64 - layout.size() as i64);
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(ptr, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_relayed_packet_allocates_nothing() {
    let mut relay = stages::Relay::new();
    assert!(allocations() > 20, "the counter counts");
    relay.one();
    let before = allocations();
    for _ in 0..10_000 {
        relay.one();
    }
    assert_eq!(allocations() - before, 0);
    let relayed = packet::frame::parse(relay.sent()).expect("a whole frame");
    assert_eq!(relayed.destination, "192.0.2.10:4000".parse().expect("an address"));
}

#[test]
fn a_request_forwarded_without_state_allocates_nothing() {
    for mut forwarder in [stages::Forwarder::invite(), stages::Forwarder::bye()] {
        // The journal of calls fills up first.
        (0..3_000).for_each(|_| forwarder.one());
        let before = allocations();
        (0..10_000).for_each(|_| forwarder.one());
        assert_eq!(allocations() - before, 0);
        assert!(forwarder.sent().windows(4).any(|w| w == b"\r\n\r\n"));
    }
}

/// The figure of docs/operating.md.
const BYTES_OF_A_TRANSACTION: i64 = 3_072;

#[test]
fn a_worker_holds_100_000_transactions_in_stated_memory_and_refuses_more() {
    const MANY: usize = 100_000;
    let mut load = stages::Load::new(MANY);
    load.place(0);
    let before = held();
    (1..MANY).for_each(|n| load.place(n));
    let each = (held() - before) / MANY as i64;
    println!("{each} bytes for each INVITE transaction that waits for its answer");
    assert!(each > 500, "something is held: {each}");
    assert!(each <= BYTES_OF_A_TRANSACTION, "{each} bytes for each transaction");
    assert_eq!(load.transactions(), MANY);
    // Beyond the limit new work is refused, and nothing more is held.
    let full = held();
    (MANY..MANY + 1_000).for_each(|n| load.place(n));
    assert_eq!((load.transactions(), load.refused()), (MANY, 1_000));
    assert!(held() - full < 1_000_000, "{} bytes more", held() - full);
    // A new table concerns those only that wait for a peer it calls dead. The least of five: the
    // machine may be busy with something else.
    let took = (0..5).map(|_| load.other_peer_dies()).min().expect("a time");
    assert!(took < std::time::Duration::from_millis(1), "a table that concerns nobody took {took:?}");
    // All of them end by themselves.
    load.pass(std::time::Duration::from_secs(300));
    assert_eq!(load.transactions(), 0);
}
