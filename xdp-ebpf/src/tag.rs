//! The tag in XDP metadata: what a worker need not find out again.

use crate::classify::Packet;
use aya_ebpf::{
    helpers::{bpf_ktime_get_ns, bpf_xdp_adjust_meta},
    programs::XdpContext,
};
use xdp_abi::{AllowValue, TAG_LEN, TAG_MAGIC, Tag, Verdict};

/// Writes the tag directly before the frame. Packet references are invalid afterwards.
#[inline(always)]
pub fn write(ctx: &XdpContext, packet: &Packet, source: &AllowValue, epoch: u32) -> Result<(), Verdict> {
    // SAFETY: ctx.ctx is the context the kernel called us with.
    if unsafe { bpf_xdp_adjust_meta(ctx.ctx, -(TAG_LEN as i32)) } != 0 {
        return Err(Verdict::PassNoMetadata);
    }
    let start = ctx.metadata();
    if start + TAG_LEN > ctx.metadata_end() {
        return Err(Verdict::PassNoMetadata);
    }
    let tag = Tag {
        magic: TAG_MAGIC,
        class: packet.class,
        health: source.health,
        epoch,
        // SAFETY: the helper takes no argument and has no side effect.
        seen_at: unsafe { bpf_ktime_get_ns() } as u32,
        peer: source.peer,
        region: source.region,
        reserved: 0,
    };
    // SAFETY: the metadata area holds TAG_LEN bytes (just compared) and is 4-byte aligned by the kernel.
    unsafe { (start as *mut Tag).write(tag) };
    Ok(())
}
