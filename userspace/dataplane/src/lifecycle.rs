//! Starting and stopping a node.
//!
//! Start: load and attach the XDP program with an empty socket map (packets pass to the kernel), bind
//! sockets with filled rings, start workers, and fill the socket map last. Stop in reverse.

use crate::{
    backend::{Backend, afxdp::AfXdp, udp::Udp},
    pin,
    plan::{BackendKind, InterfacePlan, NodePlan, PortSlices, XdpMode},
    privileges,
    program::{Attached, Program, ProgramError},
    queue::{CopyMode, Link, Queue, QueueError},
    slow_path::SlowPath,
    worker::{self, Desk},
};
use exchange::{Exchange, errands::Errand};
use media::relay::Settings;
use proxy::Engine;
use std::{
    collections::hash_map::RandomState,
    hash::BuildHasher,
    io,
    net::SocketAddr,
    ops::RangeInclusive,
    sync::Arc,
    thread::{Builder, JoinHandle},
    time::Duration,
};
use xdp::nic::NicIndex;

/// Why a node did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The XDP program.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// An AF_XDP socket could not be set up.
    #[error("interface {device}, queue {queue}: {source}")]
    Queue {
        /// Device name.
        device: String,
        /// Receive queue.
        queue: u32,
        /// What failed.
        source: QueueError,
    },
    /// A listener's address could not be bound.
    #[error("cannot bind {address}: {source}")]
    Bind {
        /// Address of the listener.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// A worker could not be started.
    #[error("worker {worker}: {source}")]
    Worker {
        /// Index of the worker.
        worker: usize,
        /// The system's error.
        source: io::Error,
    },
}

/// A running node.
pub struct Node {
    workers: Vec<JoinHandle<()>>,
    /// XDP program of each interface; empty for kernel sockets.
    pub programs: Vec<Program>,
    sockets: Vec<(usize, u32)>,
    exchange: Arc<Exchange>,
}

impl Node {
    /// Starts everything. `prepare` fills the programs' maps before any socket is bound.
    ///
    /// # Errors
    /// What could not be started; everything started before it is stopped again.
    pub fn start(
        plan: &NodePlan,
        exchange: &Arc<Exchange>,
        prepare: impl FnOnce(&mut [Program]) -> Result<(), ProgramError>,
    ) -> Result<Self, StartError> {
        let mut node = Self {
            workers: Vec::new(),
            programs: Vec::new(),
            sockets: Vec::new(),
            exchange: Arc::clone(exchange),
        };
        match plan.backend {
            BackendKind::AfXdp => node.start_afxdp(plan, prepare)?,
            BackendKind::Udp => node.start_udp(plan)?,
        }
        Ok(node)
    }

    fn start_afxdp(
        &mut self,
        plan: &NodePlan,
        prepare: impl FnOnce(&mut [Program]) -> Result<(), ProgramError>,
    ) -> Result<(), StartError> {
        for interface in &plan.interfaces {
            let mut program = Program::load()?;
            program.attach(&interface.device, interface.mode)?;
            self.programs.push(program);
        }
        prepare(&mut self.programs)?;
        let slow_path = Arc::new(open_slow_path(&plan.listeners)?);
        let slices = PortSlices::new(&plan.media.config.settings.ports, plan.workers.len());
        let seeds = seeds();
        for (index, worker) in plan.workers.iter().enumerate() {
            let mut queues = Vec::new();
            for (interface, queue) in &worker.queues {
                let opened = self.open_queue(plan, *interface, *queue)?;
                self.sockets.push((*interface, *queue));
                self.programs[*interface].set_socket(*queue, opened.raw_fd())?;
                queues.push((*interface, opened));
            }
            let backend = AfXdp::new(
                queues,
                plan.interfaces.len(),
                Arc::clone(&self.exchange),
                Arc::clone(&slow_path),
                index == 0,
            );
            self.spawn(plan, index, engine(plan, index, seeds, &slices), backend, &slices)?;
        }
        Ok(())
    }

    fn open_queue(&self, plan: &NodePlan, interface: usize, queue: u32) -> Result<Queue, StartError> {
        let InterfacePlan { device, index, mac, mtu, vlan, mode } = &plan.interfaces[interface];
        let nic = NicIndex::new(*index);
        let link = Link { mac: *mac, vlan: *vlan, mtu: *mtu };
        let native = self.programs[interface].attached == Attached::Native;
        let capable = || nic.query_capabilities().is_ok_and(|c| c.zero_copy.is_available());
        let first = match mode {
            XdpMode::ZeroCopy => CopyMode::ZeroCopy,
            XdpMode::Auto if native && capable() => CopyMode::ZeroCopy,
            _ => CopyMode::Copy,
        };
        let open = |copy| Queue::open(nic, queue, plan.ring_size, copy, link);
        let (opened, copy) = match (open(first), mode) {
            (Err(error), XdpMode::Auto) if first == CopyMode::ZeroCopy => {
                tracing::warn!(device, queue, %error, "zero-copy refused, copying instead");
                (open(CopyMode::Copy), CopyMode::Copy)
            }
            (opened, _) => (opened, first),
        };
        let xdp = self.programs[interface].attached.label();
        tracing::info!(device, queue, xdp, copy = copy == CopyMode::Copy, "AF_XDP socket bound");
        opened.map_err(|source| StartError::Queue { device: device.clone(), queue, source })
    }

    fn start_udp(&mut self, plan: &NodePlan) -> Result<(), StartError> {
        let slices = PortSlices::new(&plan.media.config.settings.ports, plan.workers.len());
        let seeds = seeds();
        for index in 0..plan.workers.len() {
            let backend = open_udp(&plan.listeners)?;
            self.spawn(plan, index, engine(plan, index, seeds, &slices), backend, &slices)?;
        }
        Ok(())
    }

    fn spawn<B: Backend + Send + 'static>(
        &mut self,
        plan: &NodePlan,
        index: usize,
        engine: Engine,
        backend: B,
        slices: &PortSlices,
    ) -> Result<(), StartError> {
        let core = plan.workers[index].core;
        let spin = if plan.backend == BackendKind::AfXdp { plan.spin } else { Duration::ZERO };
        let exchange = Arc::clone(&self.exchange);
        let desk = Desk::new(index, engine, Arc::clone(&exchange), slices.clone(), plan.media.dscp);
        let work = move || {
            if let Some(core) = core
                && !pin::pin(core)
            {
                tracing::error!(worker = index, core, "cannot pin the worker to its core");
            }
            if let Err(error) = privileges::keep_only(privileges::WORKER) {
                tracing::warn!(worker = index, %error, "cannot give up privileges");
            }
            if let Err(error) = worker::run(index, desk, backend, &exchange, spin) {
                tracing::error!(worker = index, %error, "worker ended");
            }
        };
        let thread = Builder::new().name(format!("worker-{index}")).spawn(work);
        self.workers.push(thread.map_err(|source| StartError::Worker { worker: index, source })?);
        Ok(())
    }

    /// Whether all workers run.
    pub fn is_running(&self) -> bool {
        self.workers.iter().all(|w| !w.is_finished())
    }

    /// Stops in reverse order of the start: first the kernel gets the packets back.
    pub fn stop(mut self) {
        self.stop_all();
    }

    fn stop_all(&mut self) {
        for (interface, queue) in self.sockets.drain(..) {
            if let Err(error) = self.programs[interface].unset_socket(queue) {
                tracing::warn!(%error, "while stopping");
            }
        }
        for errands in &self.exchange.errands {
            errands.send(Errand::Stop);
        }
        for worker in self.workers.drain(..) {
            if worker.join().is_err() {
                tracing::error!("a worker panicked");
            }
        }
        self.programs.clear();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stop_all();
    }
}

fn engine(plan: &NodePlan, index: usize, seeds: [u64; 4], slices: &PortSlices) -> Engine {
    Engine::new(proxy::Config {
        worker: index as u8,
        workers: plan.workers.len() as u8,
        seeds,
        token_key: plan.token_key,
        rng_seed: random(),
        timers: proxy::Timers::default(),
        max_transactions: plan.max_transactions,
        media: worker_media(&plan.media.config, slices.of(index)),
    })
}

/// Media of a worker: its slice of the ports, used in an order of its own.
fn worker_media(config: &proxy::MediaConfig, ports: RangeInclusive<u16>) -> proxy::MediaConfig {
    let settings = Settings { ports, seed: random(), ..config.settings.clone() };
    proxy::MediaConfig { settings, ..config.clone() }
}

fn seeds() -> [u64; 4] {
    std::array::from_fn(|_| random())
}

/// A random number from the operating system, by way of the standard library's hash keys.
fn random() -> u64 {
    RandomState::new().hash_one(0u8)
}

fn open_slow_path(listeners: &[SocketAddr]) -> Result<SlowPath, StartError> {
    SlowPath::open(listeners).map_err(|source| bind_error(listeners, source))
}

fn open_udp(listeners: &[SocketAddr]) -> Result<Udp, StartError> {
    Udp::open(listeners).map_err(|source| bind_error(listeners, source))
}

/// Names the listener that cannot be bound.
fn bind_error(listeners: &[SocketAddr], source: io::Error) -> StartError {
    let refused = |a: &&SocketAddr| crate::slow_path::bind(**a).is_err();
    let address = listeners.iter().find(refused).or(listeners.first());
    StartError::Bind {
        address: address.copied().unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0))),
        source,
    }
}
