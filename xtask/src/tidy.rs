//! Rules of the source tree that no compiler checks: length of files, where unsafe may be, which way
//! the arrows between crates point, what sans-IO crates may use.

use crate::root;
use anyhow::{Context as _, Result, bail};
use std::{
    fs,
    path::{Path, PathBuf},
};

const MAX_LINES: usize = 600;
/// Crates that may contain unsafe code.
const UNSAFE_ROOMS: [&str; 2] = ["userspace/dataplane", "xdp-ebpf"];
/// Crates without IO, clock or thread.
const SANS_IO: [&str; 7] = ["packet", "sip", "media", "health", "routing", "proxy", "xdp-abi"];
/// A crate and those it must not name.
const ARROWS: [(&str, &[&str]); 4] = [
    ("control", &["dataplane"]),
    ("dataplane", &["control"]),
    ("exchange", &["control", "dataplane"]),
    ("proxy", &["exchange", "control", "dataplane"]),
];

/// Checks all rules.
pub(crate) fn tidy() -> Result<()> {
    let root = root();
    let mut faults = Vec::new();
    for file in sources(&root)? {
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let name = file.strip_prefix(&root).unwrap_or(&file).display().to_string();
        if text.lines().count() > MAX_LINES {
            faults.push(format!("{name}: {} lines, at most {MAX_LINES} are wanted", text.lines().count()));
        }
        let crate_root =
            name.ends_with("/src/lib.rs") || name.ends_with("/src/main.rs") || name == "tests/lab/lib.rs";
        let may = UNSAFE_ROOMS.iter().any(|room| name.starts_with(room));
        if crate_root && !may && !text.contains("#![forbid(unsafe_code)]") {
            faults.push(format!("{name}: #![forbid(unsafe_code)] is missing"));
        }
    }
    for name in SANS_IO {
        let file = root.join("userspace").join(name).join("src/lib.rs");
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        if !text.contains("#![no_std]") || text.contains("extern crate std") {
            faults.push(format!("userspace/{name}: must be no_std"));
        }
    }
    for (name, forbidden) in ARROWS {
        let file = root.join("userspace").join(name).join("Cargo.toml");
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        for other in forbidden {
            if text.lines().any(|l| l.starts_with(&format!("{other}."))) {
                faults.push(format!("userspace/{name}: must not depend on {other}"));
            }
        }
    }
    faults.extend(unknown_tests(&root)?);
    if !faults.is_empty() {
        bail!("{}", faults.join("\n"));
    }
    Ok(())
}

/// Tests that docs/architecture.md names but no source has. Their names are told by their length.
fn unknown_tests(root: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(root.join("docs/architecture.md"))?;
    let is_test = |word: &&str| {
        word.matches('_').count() >= 4 && word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    let named: Vec<_> = text.split('`').filter(is_test).collect();
    let mut known = String::new();
    for file in sources(root)? {
        known += &fs::read_to_string(&file)?;
    }
    let missing = named.iter().filter(|name| !known.contains(&format!("fn {name}(")));
    Ok(missing.map(|name| format!("docs/architecture.md: there is no test {name}")).collect())
}

/// All Rust files of the project.
fn sources(root: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                directories.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                files.push(path);
            }
        }
    }
    Ok(files)
}
