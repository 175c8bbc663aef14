//! Memory for what every packet needs: fetched before it is needed, and in large pages.

use rustix::mm::{Advice, madvise};

/// Size of a large page.
const LARGE: usize = 2 << 20;

/// Asks for large pages where a table will lie, so that its look-ups do not miss the core's page table
/// cache. Where the system gives none, the table works as well, only slower.
pub fn large_pages(start: *const u8, len: usize) {
    let skip = start.align_offset(LARGE);
    let Some(len) = len.checked_sub(skip).map(|rest| rest & !(LARGE - 1)).filter(|len| *len > 0) else {
        return;
    };
    let start = start.wrapping_add(skip).cast_mut().cast();
    // SAFETY: this advice changes no contents; the range lies within an allocation of the caller.
    let _ = unsafe { madvise(start, len, Advice::LinuxHugepage) };
}

/// Has the cache lines of what relays a packet fetched: a batch's streams come all at once, not one after
/// the other, so that a hundred thousand of them cost as little as a hundred.
#[inline]
pub fn fetch(place: *const u8) {
    fetch_lines(place, LEG_LINES);
}

/// Has the record of the next call fetched: the ring of records is larger than the nearest cache.
#[inline]
pub(crate) fn fetch_record(place: *const u8) {
    fetch_lines(place, proxy::journal::RECORD_HEAD.div_ceil(64));
}

/// Has a received frame fetched, and the tag before it: the kernel wrote them on another core, or long ago.
#[inline]
pub(crate) fn fetch_frame(frame: &[u8]) {
    fetch_lines(frame.as_ptr().wrapping_sub(xdp_abi::TAG_LEN), frame.len().div_ceil(64).min(FRAME_LINES));
}

/// Has the rest of a longer frame fetched, shortly before its turn: all of a whole batch would not fit in the
/// nearest cache.
#[inline]
pub(crate) fn fetch_rest(frame: &[u8]) {
    let skip = FRAME_LINES * 64 - xdp_abi::TAG_LEN;
    if let Some(rest) = frame.get(skip..) {
        fetch_lines(rest.as_ptr(), rest.len().div_ceil(64).min(REST_LINES));
    }
}

#[inline]
fn fetch_lines(place: *const u8, lines: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in 0..lines {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch of whatever address reads nothing and never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.wrapping_add(line * 64).cast()) };
    }
    // Elsewhere the core's own foresight has to do.
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (place, lines);
}

/// Cache lines of a stream's leg that an RTP packet needs.
const LEG_LINES: usize = 2;
/// And of each frame of a batch, at most: one of G.711 has four.
const FRAME_LINES: usize = 4;
/// And of the rest of the next one, at most: to the end of a frame of 1,500 bytes.
const REST_LINES: usize = 20;
