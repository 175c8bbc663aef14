//! Threads to cores.

use core_affinity::CoreId;

/// Cores that this process may use.
pub fn cores() -> Vec<usize> {
    core_affinity::get_core_ids().unwrap_or_default().into_iter().map(|core| core.id).collect()
}

/// Pins the calling thread; `false` where the system refuses.
pub fn pin(core: usize) -> bool {
    core_affinity::set_for_current(CoreId { id: core })
}

/// Other hardware threads of a core's physical core.
pub fn siblings(core: usize) -> Vec<usize> {
    let path = format!("/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.trim()
        .split(',')
        .filter_map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            Some(first.parse::<usize>().ok()?..=last.parse().ok()?)
        })
        .flatten()
        .filter(|other| *other != core)
        .collect()
}
