//! `load`, `unload` and `status`: the daemon does them, since it holds the program.

use crate::{build, root};
use anyhow::{Result, bail};
use std::process::Command;

pub(crate) fn run(args: &[&str]) -> Result<()> {
    build::build()?;
    let status = Command::new(root().join("target/release/strowger")).arg("xdp").args(args).status()?;
    if !status.success() {
        bail!("strowger xdp {} failed", args[0]);
    }
    Ok(())
}
