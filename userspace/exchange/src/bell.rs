//! Wakes a sleeping worker, and costs an awake one nothing.

use rustix::event::{EventfdFlags, eventfd};
use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::atomic::{AtomicBool, Ordering},
};

/// An event descriptor with a note whether anybody sleeps on it.
#[derive(Debug)]
pub struct Bell {
    fd: OwnedFd,
    asleep: AtomicBool,
}

impl Bell {
    /// A bell nobody sleeps on.
    ///
    /// # Errors
    /// The kernel gave no event descriptor.
    pub fn new() -> io::Result<Self> {
        let fd = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self { fd, asleep: AtomicBool::new(false) })
    }

    /// Rings after something was queued: a system call only if the other side sleeps.
    pub fn ring(&self) {
        if self.asleep.swap(false, Ordering::SeqCst) {
            // A full counter means that it rings already.
            let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
        }
    }

    /// Announces sleep. Look at all queues once more after this and before sleeping.
    pub fn lie_down(&self) {
        self.asleep.store(true, Ordering::SeqCst);
    }

    /// Awake again: takes back the announcement and silences the descriptor.
    pub fn get_up(&self) {
        if !self.asleep.swap(false, Ordering::SeqCst) {
            let mut count = [0; 8];
            let _ = rustix::io::read(&self.fd, &mut count);
        }
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
