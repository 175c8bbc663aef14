//! Puts the XDP program into the binary, if it has been built (`cargo xtask build` does so first).

use std::{env, fs, path::PathBuf};

fn main() {
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo"));
    let built = manifest.join("../../target/xdp/xdp-ebpf");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo")).join("xdp-ebpf");
    println!("cargo::rerun-if-changed={}", built.display());
    let program = fs::read(&built).unwrap_or_default();
    fs::write(&out, program).expect("OUT_DIR is writable");
}
