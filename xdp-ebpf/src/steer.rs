//! To the AF_XDP socket of the receive queue; without one, to the kernel.

use crate::maps::XSKS;
use aya_ebpf::{bindings::xdp_action, programs::XdpContext};
use xdp_abi::{CLASS_SIP, Verdict};

/// Redirects to the queue's worker. The fall-back of the map look-up is XDP_PASS, so that a dead
/// or starting worker makes no black hole: the kernel answers with an ICMP error.
#[inline(always)]
pub fn to_worker(ctx: &XdpContext, class: u8) -> (u32, Verdict) {
    match XSKS.redirect(ctx.rx_queue_index(), xdp_action::XDP_PASS as u64) {
        Ok(action) if class == CLASS_SIP => (action, Verdict::SteerSip),
        Ok(action) => (action, Verdict::SteerMedia),
        Err(_) => (xdp_action::XDP_PASS, Verdict::PassNoSocket),
    }
}
