//! The XDP program: bounds → classify → admit → tag → steer.
//!
//! It sends to a worker only what it understood completely and what is meant for this node; every
//! other packet goes to the kernel untouched. It drops one thing only: a packet to one of our
//! services from a source outside the allow-list.
#![no_std]
#![no_main]

mod admit;
mod bounds;
mod classify;
mod maps;
mod steer;
mod tag;

use aya_ebpf::{bindings::xdp_action, macros::xdp, programs::XdpContext};
use xdp_abi::Verdict;

/// Layout of the maps and the tag, compared by the loader.
#[unsafe(link_section = "layout")]
#[unsafe(no_mangle)]
static LAYOUT: [u8; xdp_abi::LAYOUT_MARKER.len()] = xdp_abi::LAYOUT_MARKER;

/// Entry point, attached to an interface.
#[xdp]
pub fn strowger(ctx: XdpContext) -> u32 {
    let (action, verdict) = match handle(&ctx) {
        Ok(steered) => steered,
        Err(verdict) => (action_of(verdict), verdict),
    };
    maps::count(verdict);
    action
}

/// The way of a packet; the error is the verdict of the step that stopped it.
#[inline(always)]
fn handle(ctx: &XdpContext) -> Result<(u32, Verdict), Verdict> {
    let settings = maps::settings();
    let packet = classify::classify(ctx, settings.vlan)?;
    let source = admit::admit(&packet)?;
    tag::write(ctx, &packet, &source, settings.epoch)?;
    Ok(steer::to_worker(ctx, packet.class))
}

/// What the kernel does with a packet that is not steered.
#[inline(always)]
fn action_of(verdict: Verdict) -> u32 {
    match verdict {
        Verdict::DropNotAllowed => xdp_action::XDP_DROP,
        _ => xdp_action::XDP_PASS,
    }
}

#[cfg(not(test))]
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo) -> ! {
    loop {}
}

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
