//! A system, its load, and what is measured of both.

use super::{
    CLIENT_CORE, Rig, SYSTEM_CORE,
    account::Account,
    generator::{self, Trial},
    load::{Answers, Ends, Load},
    sampler::Sampler,
    search,
    systems::System,
};
use anyhow::{Result, ensure};
use dataplane::{pin, port::Port};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Trials of which the middle one counts.
const TIMES: usize = 5;

/// Starts a system on a rig.
pub type Start<'a> = dyn Fn(&Rig) -> Result<Box<dyn System>> + 'a;
/// Makes the load of a system.
pub type Make<'a> = dyn Fn(&dyn System, Ends) -> Box<dyn Load> + 'a;

/// A system under a load.
pub struct Bout<'a> {
    start: &'a Start<'a>,
    make: &'a Make<'a>,
    /// Dropped before the rig.
    system: Box<dyn System>,
    load: Box<dyn Load>,
    answers: Answers,
    port: Port,
    rig: Rig,
}

/// Loss, order and latency of a trial.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Outcome {
    /// Sent a second.
    pub rate: f64,
    /// How many were sent.
    pub sent: u64,
    /// Of them, how many did not arrive.
    pub lost: u64,
    /// Arrived twice.
    pub repeated: u64,
    /// Arrived behind later ones of their flow.
    pub late: u64,
    /// Latency in microseconds: median.
    pub p50_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// 99.9th percentile.
    pub p999_us: f64,
    /// Longest.
    pub max_us: f64,
}

/// Processor time for one packet, or for whatever the load begins, in nanoseconds.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Cost {
    /// At which rate.
    pub rate: f64,
    /// Of the system's threads, by the scheduler's clock.
    pub threads_ns: f64,
    /// Of the core, where `perf` is there to take samples.
    pub core: Option<Core>,
}

/// What the core did for one packet, in nanoseconds.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Core {
    /// In user space.
    pub user_ns: f64,
    /// In the kernel, system calls and scheduling.
    pub system_ns: f64,
    /// In the kernel, soft interrupts.
    pub softirq_ns: f64,
}

impl From<&Account> for Outcome {
    fn from(account: &Account) -> Self {
        let at = |q| account.latency.value_at_quantile(q) as f64 / 1000.0;
        Self {
            rate: account.rate(),
            sent: account.sent,
            lost: account.lost(),
            repeated: account.repeated,
            late: account.late,
            p50_us: at(0.5),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: at(1.0),
        }
    }
}

impl<'a> Bout<'a> {
    /// Starts a system and warms it up.
    ///
    /// # Errors
    /// It does not start.
    pub fn new(queues: u32, start: &'a Start<'a>, make: &'a Make<'a>) -> Result<Self> {
        let rig = Rig::new(queues)?;
        let port = rig.client_port()?;
        let ends = rig.ends()?;
        let system = start(&rig)?;
        let load = make(&*system, ends);
        let mut bout = Self { start, make, system, load, answers: Answers::new(ends), port, rig };
        bout.trial(Trial::new(1000.0, Duration::from_millis(300)))?;
        Ok(bout)
    }

    /// One go.
    ///
    /// # Errors
    /// A system with memory had losses and does not start again.
    pub fn trial(&mut self, trial: Trial) -> Result<Account> {
        let account = self.go(trial);
        self.mend(&account)?;
        Ok(account)
    }

    fn go(&mut self, trial: Trial) -> Account {
        let Self { port, load, answers, .. } = self;
        pinned(port, &mut **load, answers, trial)
    }

    /// Starts a system with memory again after losses.
    fn mend(&mut self, account: &Account) -> Result<()> {
        if account.lost() > 0 && self.system.has_memory() {
            // The old one holds the addresses of the new one until it is gone.
            self.system = Box::new(Gone);
            self.system = (self.start)(&self.rig)?;
            self.load = (self.make)(&*self.system, self.rig.ends()?);
        }
        Ok(())
    }

    /// One go, and the processor time of the system's threads in it.
    ///
    /// # Errors
    /// As [`Bout::trial`].
    pub fn timed(&mut self, trial: Trial) -> Result<(Account, Duration)> {
        let before = self.system.time()?;
        let account = self.go(trial);
        let time = self.system.time()?.saturating_sub(before);
        self.mend(&account)?;
        Ok((account, time))
    }

    /// The highest rate without loss, searched from one upwards.
    ///
    /// # Errors
    /// As [`Bout::trial`].
    pub fn highest(&mut self, from: f64, length: Duration) -> Result<Option<Account>> {
        search::highest(from, |rate| self.trial(Trial::new(rate, length)))
    }

    /// The middle one of several trials by latency, since a shared machine pauses now and then.
    ///
    /// # Errors
    /// As [`Bout::trial`].
    pub fn usual(&mut self, trial: Trial) -> Result<Account> {
        let mut accounts = (0..TIMES).map(|_| self.trial(trial)).collect::<Result<Vec<_>>>()?;
        accounts.sort_by_key(|account| account.latency.value_at_quantile(0.99));
        Ok(accounts.swap_remove(TIMES / 2))
    }

    /// Nanoseconds of the system's threads for a packet at a rate.
    ///
    /// # Errors
    /// Nothing arrives, or the system is gone.
    pub fn time_of_each(&mut self, trial: Trial) -> Result<f64> {
        let (account, time) = self.timed(trial)?;
        let refusal = self.load.refusal().unwrap_or_default();
        ensure!(account.arrived > 0, "nothing arrives at {} a second {refusal}", trial.rate);
        Ok(time.as_nanos() as f64 / account.arrived as f64)
    }

    /// What a packet costs at a rate.
    ///
    /// # Errors
    /// Nothing arrives, or the system is gone.
    pub fn cost(&mut self, rate: f64, length: Duration) -> Result<Cost> {
        let trial = Trial::new(rate, length);
        let threads_ns = self.time_of_each(trial)?;
        // Once more, since sampling costs time of its own.
        let sampler = Sampler::start(SYSTEM_CORE);
        let sampled = self.trial(trial)?;
        let each_sampled = |time: Duration| time.as_nanos() as f64 / sampled.arrived.max(1) as f64;
        let core = sampler.and_then(Sampler::finish).map(|share| Core {
            user_ns: each_sampled(share.user),
            system_ns: each_sampled(share.system),
            softirq_ns: each_sampled(share.softirq),
        });
        Ok(Cost { rate: sampled.rate(), threads_ns, core })
    }
}

/// In place of a system while it starts again.
struct Gone;

impl System for Gone {
    fn flows(&self) -> Vec<super::Flow> {
        Vec::new()
    }
    fn time(&self) -> Result<Duration> {
        Ok(Duration::ZERO)
    }
}

/// On a thread of its own, so that what is started later is not pinned with it.
pub fn pinned(port: &mut Port, load: &mut dyn Load, answers: &mut Answers, trial: Trial) -> Account {
    std::thread::scope(|scope| {
        let pinned = scope.spawn(|| {
            pin::pin(CLIENT_CORE);
            generator::run(port, load, answers, trial)
        });
        pinned.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
