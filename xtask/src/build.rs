//! Both halves: the XDP program and the daemon around it.

use crate::{ebpf, root, say};
use anyhow::Result;
use std::process::Command;

pub(crate) fn build() -> Result<()> {
    if ebpf::is_possible() {
        ebpf::build()?;
    } else {
        println!(
            "  The eBPF toolchain is missing. What is built now has kernel sockets only (backend = \"udp\")."
        );
        println!("  `cargo xtask setup` installs the rest; then build again.");
    }
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--package", "strowger"]).current_dir(root());
    say::must("building strowger", &mut cargo)?;
    println!("built: target/release/strowger");
    Ok(())
}
