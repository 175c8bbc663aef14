//! Who may send: the longest allow-listed prefix that holds the source.

use crate::{
    classify::{Packet, Source},
    maps::{ALLOW_V4, ALLOW_V6},
};
use aya_ebpf::maps::lpm_trie::Key;
use xdp_abi::{AllowValue, Verdict};

/// The allow-list entry of the packet's source, or the verdict to drop it.
#[inline(always)]
pub fn admit(packet: &Packet) -> Result<AllowValue, Verdict> {
    let entry = match packet.source {
        Source::V4(addr) => ALLOW_V4.get(Key::new(32, addr)),
        Source::V6(addr) => ALLOW_V6.get(Key::new(128, addr)),
    };
    entry.copied().ok_or(Verdict::DropNotAllowed)
}
