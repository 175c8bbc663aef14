//! What a core does, by samples that `perf` takes of it. The kernel's own account by ticks misses threads that
//! sleep between them.

use std::{
    env, fs,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

/// Time between two samples: no multiple of the time between two packets. An idle core gives none.
const PERIOD: Duration = Duration::from_nanos(193_939);

/// Samples being taken; without `perf` there are none.
pub(super) struct Sampler {
    perf: Child,
    file: PathBuf,
}

/// What the core was busy with.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Share {
    pub(super) user: Duration,
    pub(super) system: Duration,
    pub(super) softirq: Duration,
}

impl Sampler {
    pub(super) fn start(core: usize) -> Option<Self> {
        let file = env::temp_dir().join(format!("strowger-rig-{}.perf", std::process::id()));
        let mut perf = Command::new("perf");
        perf.args([
            "record",
            "--quiet",
            "--event",
            "cpu-clock",
            "--call-graph",
            "fp",
            "--count",
            &PERIOD.as_nanos().to_string(),
            "--cpu",
        ]);
        perf.arg(core.to_string()).arg("--output").arg(&file);
        perf.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let perf = perf.spawn().ok()?;
        // It takes a moment to begin.
        std::thread::sleep(Duration::from_millis(300));
        Some(Self { perf, file })
    }

    pub(super) fn finish(mut self) -> Option<Share> {
        let pid = rustix::process::Pid::from_child(&self.perf);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).ok()?;
        self.perf.wait().ok()?;
        let mut script = Command::new("perf");
        script.args(["script", "--fields", "comm,ip,sym", "--input"]).arg(&self.file).stderr(Stdio::null());
        let text = script.output().ok()?.stdout;
        let _ = fs::remove_file(&self.file);
        Some(share(&String::from_utf8_lossy(&text)))
    }
}

/// From the samples' text: a line with the command, then a line for each frame, innermost first, then an empty one.
fn share(text: &str) -> Share {
    let mut share = Share::default();
    for sample in text.split("\n\n") {
        let Some((command, frames)) = sample.trim_start_matches('\n').split_once('\n') else { continue };
        let within = |name: &str| frames.lines().any(|frame| frame.ends_with(name));
        // Kernel addresses are the upper half.
        let in_kernel = frames.trim_start().starts_with("ffff");
        if within("handle_softirqs") || within("__do_softirq") {
            share.softirq += PERIOD;
        } else if within("do_idle") || command.starts_with("perf") {
            // Nothing, or the measurement itself.
        } else if in_kernel {
            share.system += PERIOD;
        } else {
            share.user += PERIOD;
        }
    }
    share
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_told_apart() {
        let text = "worker-0 \n\t    55d0c1 strowger::relay\n\t    55d0c0 main\n\n\
                    worker-0 \n\tffffffff81a0 veth_poll\n\tffffffff81b0 handle_softirqs\n\t    55d0c0 main\n\n\
                    worker-0 \n\tffffffff81c0 xsk_sendmsg\n\t    55d0c0 main\n\n\
                    worker-0 \n\tffffffff81c0 xsk_sendmsg\n\n\
                    perf \n\tffffffff81c0 poll\n\n\
                    swapper \n\tffffffff81d0 pv_native_safe_halt\n\tffffffff81e0 do_idle\n\n";
        assert_eq!(share(text), Share { user: PERIOD, system: PERIOD * 2, softirq: PERIOD });
    }
}
