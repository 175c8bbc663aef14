//! The one place that turns packet offsets into references.

use aya_ebpf::programs::XdpContext;
use xdp_abi::Verdict;

/// A `T` at `offset` bytes from the start of the frame, or the frame is too short for it.
#[inline(always)]
pub fn at<T>(ctx: &XdpContext, offset: usize) -> Result<&T, Verdict> {
    const { assert!(align_of::<T>() == 1) };
    let start = ctx.data() + offset;
    if start + size_of::<T>() > ctx.data_end() {
        return Err(Verdict::PassTruncated);
    }
    // SAFETY: the range lies between data and data_end (just compared, as the verifier demands),
    // T has alignment 1 and is made of bytes, for which every value is valid.
    Ok(unsafe { &*(start as *const T) })
}
