//! Long commands with one line of progress.

use anyhow::{Context as _, Result, bail};
use std::{
    io::{IsTerminal as _, Write as _},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// What a command printed, and how it ended.
pub(crate) struct Outcome {
    pub(crate) success: bool,
    pub(crate) output: String,
    pub(crate) took: Duration,
}

/// Runs a command while a line says what is being done and for how long.
pub(crate) fn watch(what: &str, command: &mut Command) -> Result<Outcome> {
    let start = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {command:?}"))?;
    let mut stdout = child.stdout.take().context("stdout")?;
    let mut stderr = child.stderr.take().context("stderr")?;
    let out = thread::spawn(move || read_all(&mut stdout));
    let err = thread::spawn(move || read_all(&mut stderr));
    let tty = std::io::stdout().is_terminal();
    if !tty {
        println!("  {what} ...");
    }
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if tty {
            print!("\r  {what} ... {} s ", start.elapsed().as_secs());
            std::io::stdout().flush()?;
        }
        thread::sleep(Duration::from_millis(100));
    };
    if tty {
        print!("\r\x1b[K");
    }
    let mut output = out.join().unwrap_or_default();
    output += &err.join().unwrap_or_default();
    Ok(Outcome { success: status.success(), output, took: start.elapsed() })
}

/// As [`watch`], but a failure is an error with the end of the output.
pub(crate) fn must(what: &str, command: &mut Command) -> Result<String> {
    let outcome = watch(what, command)?;
    if !outcome.success {
        let lines: Vec<_> = outcome.output.lines().collect();
        let tail = lines[lines.len().saturating_sub(40)..].join("\n");
        bail!("{what} failed: {command:?}\n{tail}");
    }
    println!("  {what}: {:.1} s", outcome.took.as_secs_f64());
    Ok(outcome.output)
}

fn read_all(from: &mut impl std::io::Read) -> String {
    let mut bytes = Vec::new();
    let _ = from.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}
