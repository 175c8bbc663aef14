#![no_main]
use std::{cell::RefCell, time::Duration};

thread_local!(static WORKER: RefCell<hostile::Bench> = RefCell::new(hostile::Bench::new()));

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| WORKER.with_borrow_mut(|worker| {
    let before = worker.counted();
    let local = hostile::ACCESS.parse().expect("an address");
    worker.receive(local, "203.0.113.5:5060".parse().expect("an address"), bytes);
    assert!(worker.counted() > before, "a datagram vanished");
    worker.pass(Duration::from_millis(3));
    // Full of calls that never end it would refuse everything.
    if worker.engine().transactions() > 100 {
        *worker = hostile::Bench::new();
    }
}));
