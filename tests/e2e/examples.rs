//! Every example configuration is accepted by `strowger check`, and bad ones are refused with file, line
//! and expectation by the real binary.

use std::{fs, path::Path, process::Command};

fn strowger(args: &[&str]) -> (bool, String) {
    let output = Command::new(lab::node::binary().expect("the binary")).args(args).output().expect("it runs");
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

fn examples() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples")
}

#[test]
fn all_examples_are_accepted() {
    let mut checked = 0;
    for entry in fs::read_dir(examples()).expect("examples") {
        let path = entry.expect("an entry").path();
        let (success, text) = strowger(&["check", path.to_str().expect("a path")]);
        assert!(success && text.contains("OK"), "{text}");
        assert!(text.contains("a dead peer is noticed within"), "{text}");
        checked += 1;
    }
    assert!(checked >= 3);
}

#[test]
fn a_bad_file_is_refused_by_check_and_by_run() {
    let scratch = lab::node::Scratch::new().expect("a directory");
    let path = scratch.path().join("bad.toml");
    let text = fs::read_to_string(examples().join("udp.toml")).expect("udp.toml");
    fs::write(&path, text.replace("backend = \"udp\"", "backend = \"dpdk\"")).expect("written");
    let file = path.to_str().expect("a path");
    for verb in ["check", "run"] {
        let (success, text) = strowger(&[verb, file]);
        assert!(!success);
        assert!(
            text.contains(&format!(
                "{file}:8: unknown variant `dpdk`, expected one of `auto`, `afxdp`, `udp`"
            )),
            "{text}"
        );
    }
    let (success, text) = strowger(&["run", "/nonexistent.toml"]);
    assert!(!success && text.contains("/nonexistent.toml: cannot read the configuration"), "{text}");
}

#[test]
fn what_the_machine_lacks_is_named() {
    let scratch = lab::node::Scratch::new().expect("a directory");
    let path = scratch.path().join("absent.toml");
    let text = fs::read_to_string(examples().join("lab.toml")).expect("lab.toml");
    let pinning = "[pinning]\n[[pinning.worker]]\ncore = 999\nqueues = [\"lan:0\"]\n\n[[listener]]";
    fs::write(&path, text.replacen("[[listener]]", pinning, 1)).expect("written");
    let (success, text) = strowger(&["run", path.to_str().expect("a path")]);
    assert!(!success);
    assert!(text.contains("core 999 does not exist, this machine offers"), "{text}");
    assert!(text.contains("device \"lan\" does not exist"), "{text}");
}
