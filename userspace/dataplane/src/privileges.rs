//! Capabilities given up once everything is open. They belong to threads, so each gives up its own.

use caps::{CapSet, Capability, CapsHashSet};

/// What the control thread goes on needing: BPF maps, and neighbours by netlink.
pub const CONTROL: &[Capability] = &[Capability::CAP_BPF, Capability::CAP_NET_ADMIN];
/// What a worker goes on needing: its sockets are open.
pub const WORKER: &[Capability] = &[];

/// Keeps only some capabilities of the calling thread, for good.
///
/// # Errors
/// The kernel refuses.
pub fn keep_only(wanted: &[Capability]) -> Result<(), caps::errors::CapsError> {
    let had = caps::read(None, CapSet::Permitted)?;
    let kept: CapsHashSet = wanted.iter().copied().filter(|c| had.contains(c)).collect();
    caps::clear(None, CapSet::Ambient)?;
    if caps::has_cap(None, CapSet::Effective, Capability::CAP_SETPCAP)? {
        for capability in caps::all().into_iter().filter(|c| !kept.contains(c)) {
            // One that this kernel does not know cannot be had either.
            let _ = caps::drop(None, CapSet::Bounding, capability);
        }
    }
    caps::clear(None, CapSet::Inheritable)?;
    caps::set(None, CapSet::Effective, &kept)?;
    caps::set(None, CapSet::Permitted, &kept)
}
