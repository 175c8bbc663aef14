//! The maps: written by the control thread, read here; counters the other way.

use aya_ebpf::{
    macros::map,
    maps::{Array, HashMap, LpmTrie, PerCpuArray, XskMap},
};
use xdp_abi::{
    AllowValue, MAX_PREFIXES, MAX_QUEUES, MAX_SERVICES, MediaRange, ServiceKey, Settings, VERDICT_COUNT,
    Verdict,
};

/// SIP listeners.
#[map]
pub static SERVICES: HashMap<ServiceKey, u32> = HashMap::with_max_entries(MAX_SERVICES, 0);
/// Media ports by local address.
#[map]
pub static MEDIA: HashMap<[u8; 16], MediaRange> = HashMap::with_max_entries(MAX_SERVICES, 0);
/// IPv4 sources that may send.
#[map]
pub static ALLOW_V4: LpmTrie<[u8; 4], AllowValue> = LpmTrie::with_max_entries(MAX_PREFIXES, 0);
/// IPv6 sources that may send.
#[map]
pub static ALLOW_V6: LpmTrie<[u8; 16], AllowValue> = LpmTrie::with_max_entries(MAX_PREFIXES, 0);
/// AF_XDP socket of each receive queue.
#[map]
pub static XSKS: XskMap = XskMap::with_max_entries(MAX_QUEUES, 0);
#[map]
static SETTINGS: Array<Settings> = Array::with_max_entries(1, 0);
#[map]
static VERDICTS: PerCpuArray<u64> = PerCpuArray::with_max_entries(VERDICT_COUNT, 0);

/// The settings of this interface.
#[inline(always)]
pub fn settings() -> Settings {
    SETTINGS.get(0).copied().unwrap_or(Settings { epoch: 0, vlan: 0, pad: 0 })
}

/// Adds one to the counter of a verdict.
#[inline(always)]
pub fn count(verdict: Verdict) {
    if let Some(counter) = VERDICTS.get_ptr_mut(verdict as u32) {
        // SAFETY: the slot belongs to this CPU, and XDP programs are not preempted by themselves.
        unsafe { *counter += 1 };
    }
}
