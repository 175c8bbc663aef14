//! A thread as the system under test, on the core that is the system's.

use crate::rig::SYSTEM_CORE;
use anyhow::{Context as _, Result};
use dataplane::pin;
use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread::JoinHandle,
    time::Duration,
};

/// A running one; stopped when dropped.
pub struct Thread {
    done: Arc<AtomicBool>,
    /// Its directory in /proc.
    task: PathBuf,
    thread: Option<JoinHandle<()>>,
}

impl Thread {
    /// Has a turn repeated until the end.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn start(name: &str, mut turn: impl FnMut() + Send + 'static) -> Result<Self> {
        let done = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&done);
        let (tell, told) = mpsc::channel();
        let work = move || {
            pin::pin(SYSTEM_CORE);
            let _ = tell.send(std::fs::read_link("/proc/thread-self"));
            while !stop.load(Ordering::Relaxed) {
                turn();
            }
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work).context("a thread")?;
        let task = PathBuf::from("/proc").join(told.recv()??);
        Ok(Self { done, task, thread: Some(thread) })
    }

    /// Its processor time so far.
    ///
    /// # Errors
    /// It has ended.
    pub fn time(&self) -> Result<Duration> {
        lab::process::thread_time(&self.task)
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
