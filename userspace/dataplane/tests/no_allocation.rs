//! A relayed RTP packet costs no allocation: the whole way from received frame to frame to send, counted
//! by the allocator.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicU64, Ordering},
};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(ptr, layout) }
    }
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(ptr, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_relayed_packet_allocates_nothing() {
    let mut relay = bench::Relay::new();
    let setting_up = ALLOCATIONS.load(Ordering::Relaxed);
    assert!(setting_up > 100, "the counter counts");
    relay.one();
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    for _ in 0..10_000 {
        relay.one();
    }
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed) - before, 0);
    let relayed = packet::frame::parse(relay.sent()).expect("a whole frame");
    assert_eq!(relayed.destination, "192.0.2.10:4000".parse().expect("an address"));
}
