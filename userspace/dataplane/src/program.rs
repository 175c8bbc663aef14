//! The XDP program of one interface: loaded, attached, and its maps.

use crate::plan::XdpMode;
use aya::{
    Ebpf, EbpfLoader,
    maps::{Array, HashMap, LpmTrie, MapData, PerCpuArray, XskMap, lpm_trie::Key},
    programs::{TestRun as _, TestRunOptions, Xdp, XdpMode as AttachMode, links::FdLink, xdp::XdpLink},
};
use exchange::sources::Prefix;
use std::{
    net::{IpAddr, SocketAddr},
    os::fd::RawFd,
    path::Path,
};
use xdp_abi::{AllowValue, LAYOUT_MARKER, MediaRange, ServiceKey, Settings, TAG_LEN, Tag, Verdict};

/// The program as built beside this binary; empty where the eBPF toolchain was missing.
static EMBEDDED: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/xdp-ebpf"));

/// Whether this binary holds an XDP program.
pub fn is_embedded() -> bool {
    !EMBEDDED.is_empty()
}

/// What may fail.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// The binary was built without it.
    #[error("this binary holds no XDP program: build it with `cargo xtask build`, or set backend = \"udp\"")]
    NotEmbedded,
    /// Built from other sources.
    #[error(
        "the XDP program has another layout than this binary: build both together with `cargo xtask build`"
    )]
    Layout,
    /// The kernel or its verifier refused it.
    #[error("cannot load the XDP program (kernel {kernel}): {source}")]
    Load {
        /// Kernel release.
        kernel: String,
        /// The library's error, with the verifier's log.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The interface refused it.
    #[error("cannot attach the XDP program to {device} in {mode} mode: {source}")]
    Attach {
        /// Device name.
        device: String,
        /// native or generic
        mode: &'static str,
        /// The library's error.
        source: aya::programs::ProgramError,
    },
    /// A map could not be written or read.
    #[error("map {map} of the XDP program: {source}")]
    Map {
        /// Name of the map.
        map: &'static str,
        /// The library's error.
        source: aya::maps::MapError,
    },
    /// bpffs refused a pin.
    #[error("cannot pin below {path}: {source}")]
    Pin {
        /// Directory.
        path: String,
        /// The library's error.
        source: aya::pin::PinError,
    },
}

/// What came of a test run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestRun {
    /// XDP action: 0 aborted, 1 drop, 2 pass, 3 tx, 4 redirect.
    pub action: u32,
    /// The tag, where one was written.
    pub tag: Option<Tag>,
    /// The frame afterwards.
    pub frame: Vec<u8>,
}

/// How a program is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attached {
    /// By the driver.
    Native,
    /// By the kernel's network stack.
    Generic,
}

impl Attached {
    /// As shown to people.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Generic => "generic",
        }
    }
}

/// The XDP program on one interface. Dropping it detaches the program, and so does the kernel when
/// the process dies: the attachment is a link that lives as long as its descriptor.
pub struct Program {
    ebpf: Ebpf,
    link: Option<XdpLink>,
    /// How it is attached.
    pub attached: Attached,
}

impl Program {
    /// Loads the program without attaching it.
    ///
    /// # Errors
    /// It is missing, from other sources, or the kernel refuses it.
    pub fn load() -> Result<Self, ProgramError> {
        if !is_embedded() {
            return Err(ProgramError::NotEmbedded);
        }
        if !EMBEDDED.windows(LAYOUT_MARKER.len()).any(|w| w == LAYOUT_MARKER) {
            return Err(ProgramError::Layout);
        }
        let mut ebpf = EbpfLoader::new().load(EMBEDDED).map_err(load_error)?;
        let program: &mut Xdp = xdp_program(&mut ebpf)?;
        program.load().map_err(load_error)?;
        Ok(Self { ebpf, link: None, attached: Attached::Native })
    }

    /// Attaches the program; in `Auto` mode natively where the driver can, generically where not.
    ///
    /// # Errors
    /// The interface does not exist, another program is attached, or the mode is not to be had.
    pub fn attach(&mut self, device: &str, mode: XdpMode) -> Result<(), ProgramError> {
        let native = |p: &mut Self| p.attach_as(device, Attached::Native);
        let generic = |p: &mut Self| p.attach_as(device, Attached::Generic);
        match mode {
            XdpMode::Generic => generic(self),
            XdpMode::ZeroCopy | XdpMode::Copy => native(self),
            XdpMode::Auto => native(self).or_else(|error| generic(self).map_err(|_| error)),
        }
    }

    fn attach_as(&mut self, device: &str, attached: Attached) -> Result<(), ProgramError> {
        let flag = match attached {
            Attached::Native => AttachMode::Driver,
            Attached::Generic => AttachMode::Skb,
        };
        let failed =
            |source| ProgramError::Attach { device: device.to_owned(), mode: attached.label(), source };
        let program = xdp_program(&mut self.ebpf)?;
        let id = program.attach(device, flag).map_err(failed)?;
        self.link = Some(program.take_link(id).map_err(failed)?);
        self.attached = attached;
        Ok(())
    }

    /// Has the kernel run the program over one frame, without any interface.
    ///
    /// # Errors
    /// The kernel refuses: frames shorter than an Ethernet header, for instance.
    pub fn test_run(&mut self, frame: &[u8]) -> Result<TestRun, ProgramError> {
        // struct xdp_md: data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex.
        let mut context = [0u8; 24];
        context[4..8].copy_from_slice(&(frame.len() as u32).to_ne_bytes());
        let mut context_out = [0u8; 24];
        let mut out = vec![0; frame.len() + TAG_LEN];
        let options = TestRunOptions {
            data_in: Some(frame),
            data_out: Some(&mut out),
            ctx_in: Some(&context),
            ctx_out: Some(&mut context_out),
            ..TestRunOptions::new()
        };
        let run = xdp_program(&mut self.ebpf)?.test_run(options).map_err(load_error)?;
        // With a context, what comes out starts at the metadata.
        let start =
            u32::from_ne_bytes([context_out[0], context_out[1], context_out[2], context_out[3]]) as usize;
        let tag = out.first_chunk::<TAG_LEN>().filter(|_| start == TAG_LEN).and_then(Tag::from_bytes);
        let end = run.data_size_out as usize;
        Ok(TestRun { action: run.return_value, tag, frame: out.get(start..end).unwrap_or_default().to_vec() })
    }

    /// Keeps the attachment and the counters alive beyond this process, below a directory of bpffs.
    ///
    /// # Errors
    /// The directory is not on bpffs, or holds such pins already.
    pub fn pin(&mut self, directory: &Path) -> Result<(), ProgramError> {
        let failed = |source| ProgramError::Pin { path: directory.display().to_string(), source };
        if let Some(link) = self.link.take() {
            let link: FdLink = link.try_into().map_err(load_error)?;
            link.pin(directory.join("link")).map_err(failed)?;
        }
        if let Some(map) = self.ebpf.map("VERDICTS") {
            map.pin(directory.join("verdicts")).map_err(failed)?;
        }
        Ok(())
    }

    /// Writes the interface's settings.
    ///
    /// # Errors
    /// The map cannot be written.
    pub fn set_settings(&mut self, settings: Settings) -> Result<(), ProgramError> {
        let mut map: Array<&mut MapData, [u8; 8]> = self.map("SETTINGS")?;
        map.set(0, settings.to_bytes(), 0).map_err(map_error("SETTINGS"))
    }

    /// Makes a SIP listener's packets ours.
    ///
    /// # Errors
    /// The map cannot be written.
    pub fn add_service(&mut self, listener: SocketAddr) -> Result<(), ProgramError> {
        let key =
            ServiceKey { addr: mapped(listener.ip()), port: listener.port().to_be_bytes(), pad: [0; 2] };
        let mut map: HashMap<&mut MapData, [u8; 20], u32> = self.map("SERVICES")?;
        map.insert(key.to_bytes(), 1, 0).map_err(map_error("SERVICES"))
    }

    /// Makes the media ports of a local address ours.
    ///
    /// # Errors
    /// The map cannot be written.
    pub fn add_media(&mut self, address: IpAddr, range: MediaRange) -> Result<(), ProgramError> {
        let mut map: HashMap<&mut MapData, [u8; 16], [u8; 4]> = self.map("MEDIA")?;
        map.insert(mapped(address), range.to_bytes(), 0).map_err(map_error("MEDIA"))
    }

    /// Lets a source prefix in.
    ///
    /// # Errors
    /// The map cannot be written.
    pub fn allow(&mut self, prefix: Prefix, value: AllowValue) -> Result<(), ProgramError> {
        let value = value.to_bytes();
        match prefix.address {
            IpAddr::V4(address) => {
                let mut map: LpmTrie<&mut MapData, [u8; 4], [u8; 4]> = self.map("ALLOW_V4")?;
                let key = Key::new(prefix.length.into(), address.octets());
                map.insert(&key, value, 0).map_err(map_error("ALLOW_V4"))
            }
            IpAddr::V6(address) => {
                let mut map: LpmTrie<&mut MapData, [u8; 16], [u8; 4]> = self.map("ALLOW_V6")?;
                let key = Key::new(prefix.length.into(), address.octets());
                map.insert(&key, value, 0).map_err(map_error("ALLOW_V6"))
            }
        }
    }

    /// Keeps a source prefix out; does nothing where it was not let in.
    ///
    /// # Errors
    /// The map cannot be written.
    pub fn forbid(&mut self, prefix: Prefix) -> Result<(), ProgramError> {
        let removed = match prefix.address {
            IpAddr::V4(address) => {
                let mut map: LpmTrie<&mut MapData, [u8; 4], [u8; 4]> = self.map("ALLOW_V4")?;
                map.remove(&Key::new(prefix.length.into(), address.octets()))
            }
            IpAddr::V6(address) => {
                let mut map: LpmTrie<&mut MapData, [u8; 16], [u8; 4]> = self.map("ALLOW_V6")?;
                map.remove(&Key::new(prefix.length.into(), address.octets()))
            }
        };
        match removed {
            Err(aya::maps::MapError::KeyNotFound) => Ok(()),
            other => other.map_err(map_error("ALLOW")),
        }
    }

    /// Steers a receive queue to an AF_XDP socket.
    ///
    /// # Errors
    /// The map cannot be written.
    pub fn set_socket(&mut self, queue: u32, socket: RawFd) -> Result<(), ProgramError> {
        let mut map: XskMap<&mut MapData> = self.map("XSKS")?;
        map.set(queue, socket, 0).map_err(map_error("XSKS"))
    }

    /// Gives a receive queue back to the kernel.
    ///
    /// # Errors
    /// The map cannot be written.
    pub fn unset_socket(&mut self, queue: u32) -> Result<(), ProgramError> {
        let mut map: XskMap<&mut MapData> = self.map("XSKS")?;
        map.unset(queue).map_err(map_error("XSKS"))
    }

    /// Packets by verdict, summed over all CPUs.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn verdicts(&self) -> Result<Vec<(Verdict, u64)>, ProgramError> {
        let map = self.ebpf.map("VERDICTS").ok_or(missing("VERDICTS"))?;
        let map: PerCpuArray<&MapData, u64> = map.try_into().map_err(map_error("VERDICTS"))?;
        Verdict::ALL
            .iter()
            .map(|v| Ok((*v, map.get(&(*v as u32), 0).map_err(map_error("VERDICTS"))?.iter().sum())))
            .collect()
    }

    fn map<'a, M>(&'a mut self, name: &'static str) -> Result<M, ProgramError>
    where
        M: TryFrom<&'a mut aya::maps::Map, Error = aya::maps::MapError>,
    {
        let map = self.ebpf.map_mut(name).ok_or(missing(name))?;
        map.try_into().map_err(map_error(name))
    }
}

/// Packets by verdict from counters pinned below a directory of bpffs.
///
/// # Errors
/// Nothing is pinned there.
pub fn pinned_verdicts(directory: &Path) -> Result<Vec<(Verdict, u64)>, ProgramError> {
    let data = MapData::from_pin(directory.join("verdicts")).map_err(map_error("VERDICTS"))?;
    let map = aya::maps::Map::PerCpuArray(data);
    let map: PerCpuArray<MapData, u64> = map.try_into().map_err(map_error("VERDICTS"))?;
    let sum = |v: &Verdict| map.get(&(*v as u32), 0).map(|cpus| cpus.iter().sum());
    Verdict::ALL.iter().map(|v| Ok((*v, sum(v).map_err(map_error("VERDICTS"))?))).collect()
}

fn xdp_program(ebpf: &mut Ebpf) -> Result<&mut Xdp, ProgramError> {
    let program = ebpf.program_mut("strowger").ok_or(ProgramError::Layout)?;
    program.try_into().map_err(load_error)
}

fn load_error(source: impl std::error::Error + Send + Sync + 'static) -> ProgramError {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    ProgramError::Load { kernel: kernel.trim().to_owned(), source: Box::new(source) }
}

fn map_error(map: &'static str) -> impl Fn(aya::maps::MapError) -> ProgramError {
    move |source| ProgramError::Map { map, source }
}

fn missing(map: &'static str) -> ProgramError {
    map_error(map)(aya::maps::MapError::InvalidName { name: map.to_owned() })
}

/// An address as the program's keys hold it: IPv4 as IPv4-mapped IPv6.
fn mapped(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(a) => a.to_ipv6_mapped().octets(),
        IpAddr::V6(a) => a.octets(),
    }
}
