//! Measures the stages of the packet path.

use anyhow::Result;

pub(crate) fn bench() -> Result<()> {
    anyhow::bail!("not yet")
}
