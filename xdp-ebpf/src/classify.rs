//! What a frame is: Ethernet, at most one VLAN tag, IPv4 or IPv6, UDP, one of our services.
//!
//! User space reads the same frame again in `packet::frame`; the tests in `tests/ebpf` hold both to
//! the same verdicts.

use crate::{
    bounds,
    maps::{MEDIA, SERVICES},
};
use aya_ebpf::programs::XdpContext;
use xdp_abi::{CLASS_MEDIA, CLASS_SIP, ServiceKey, Verdict};

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPE_VLAN: u16 = 0x8100;
const ETHERTYPE_QINQ: u16 = 0x88a8;
const PROTOCOL_UDP: u8 = 17;
const ETHERNET_LEN: usize = 14;
const VLAN_LEN: usize = 4;
const IPV4_LEN: usize = 20;
const IPV6_LEN: usize = 40;

/// A packet for one of our services.
pub struct Packet {
    /// Where it comes from.
    pub source: Source,
    /// `CLASS_SIP` or `CLASS_MEDIA`.
    pub class: u8,
}

/// Source address, by family: an IPv4-mapped IPv6 address is not the IPv4 address.
#[derive(Clone, Copy)]
pub enum Source {
    /// IPv4.
    V4([u8; 4]),
    /// IPv6.
    V6([u8; 16]),
}

/// Finds out whether the frame is for us; the error says why not.
#[inline(always)]
pub fn classify(ctx: &XdpContext, vlan: u16) -> Result<Packet, Verdict> {
    let (ethertype, ip) = ethernet(ctx, vlan)?;
    match ethertype {
        ETHERTYPE_IPV4 => ipv4(ctx, ip),
        ETHERTYPE_IPV6 => ipv6(ctx, ip),
        _ => Err(Verdict::PassNotIp),
    }
}

#[inline(always)]
fn ethernet(ctx: &XdpContext, vlan: u16) -> Result<(u16, usize), Verdict> {
    let ethertype = u16::from_be_bytes(*bounds::at(ctx, 12)?);
    if ethertype != ETHERTYPE_VLAN {
        return if ethertype == ETHERTYPE_QINQ || vlan != 0 {
            Err(Verdict::PassOtherVlan)
        } else {
            Ok((ethertype, ETHERNET_LEN))
        };
    }
    let tci = u16::from_be_bytes(*bounds::at(ctx, ETHERNET_LEN)?);
    let inner = u16::from_be_bytes(*bounds::at(ctx, ETHERNET_LEN + 2)?);
    if vlan == 0 || tci & 0x0fff != vlan || inner == ETHERTYPE_VLAN || inner == ETHERTYPE_QINQ {
        return Err(Verdict::PassOtherVlan);
    }
    Ok((inner, ETHERNET_LEN + VLAN_LEN))
}

#[inline(always)]
fn ipv4(ctx: &XdpContext, at: usize) -> Result<Packet, Verdict> {
    let header: &[u8; IPV4_LEN] = bounds::at(ctx, at)?;
    if header[0] != 0x45 {
        return Err(Verdict::PassIpOptions);
    }
    if header[9] != PROTOCOL_UDP {
        return Err(Verdict::PassNotUdp);
    }
    // More-fragments bit or an offset: the first and every later fragment.
    if u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0 {
        return Err(Verdict::PassFragment);
    }
    let total = u16::from_be_bytes([header[2], header[3]]) as usize;
    let udp = udp(ctx, at + IPV4_LEN, total.wrapping_sub(IPV4_LEN))?;
    let mut local = [0; 16];
    local[10] = 0xff;
    local[11] = 0xff;
    local[12..].copy_from_slice(&[header[16], header[17], header[18], header[19]]);
    let class = service(&local, udp)?;
    let source = Source::V4([header[12], header[13], header[14], header[15]]);
    Ok(Packet { source, class })
}

#[inline(always)]
fn ipv6(ctx: &XdpContext, at: usize) -> Result<Packet, Verdict> {
    let header: &[u8; IPV6_LEN] = bounds::at(ctx, at)?;
    if header[0] >> 4 != 6 {
        return Err(Verdict::PassNotIp);
    }
    const FRAGMENT_HEADER: u8 = 44;
    if header[6] == FRAGMENT_HEADER {
        return Err(Verdict::PassFragment);
    }
    if header[6] != PROTOCOL_UDP {
        return Err(Verdict::PassNotUdp);
    }
    let length = u16::from_be_bytes([header[4], header[5]]) as usize;
    let udp = udp(ctx, at + IPV6_LEN, length)?;
    let local: &[u8; 16] = bounds::at(ctx, at + 24)?;
    let source: &[u8; 16] = bounds::at(ctx, at + 8)?;
    // An IPv4-mapped source or destination on the wire is never legitimate (RFC 4038 4.2).
    if mapped(local) || mapped(source) {
        return Err(Verdict::PassNoService);
    }
    let class = service(local, udp)?;
    Ok(Packet { source: Source::V6(*source), class })
}

#[inline(always)]
fn mapped(a: &[u8; 16]) -> bool {
    let zero = a[0] | a[1] | a[2] | a[3] | a[4] | a[5] | a[6] | a[7] | a[8] | a[9];
    zero == 0 && a[10] == 0xff && a[11] == 0xff
}

/// Destination port of the UDP header, after checking it against what IP says is there.
#[inline(always)]
fn udp(ctx: &XdpContext, at: usize, available: usize) -> Result<[u8; 2], Verdict> {
    let header: &[u8; 8] = bounds::at(ctx, at)?;
    let length = u16::from_be_bytes([header[4], header[5]]) as usize;
    let on_wire = (ctx.data_end() - ctx.data()).wrapping_sub(at);
    if length < 8 || length > available || available > 0xffff || available > on_wire {
        return Err(Verdict::PassTruncated);
    }
    Ok([header[2], header[3]])
}

#[inline(always)]
fn service(local: &[u8; 16], port: [u8; 2]) -> Result<u8, Verdict> {
    let key = ServiceKey { addr: *local, port, pad: [0; 2] };
    if SERVICES.get_ptr(&key).is_some() {
        return Ok(CLASS_SIP);
    }
    if let Some(range) = MEDIA.get_ptr(local) {
        // SAFETY: a non-null map value stays valid for the run of the program.
        let range = unsafe { *range };
        let port = u16::from_be_bytes(port);
        if (range.first..=range.last).contains(&port) {
            return Ok(CLASS_MEDIA);
        }
    }
    Err(Verdict::PassNoService)
}
