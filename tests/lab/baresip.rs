//! baresip as a phone: it sends a sound file and keeps what it hears.

use crate::{Namespace, Process, node::Scratch, process::eventually};
use anyhow::{Context as _, Result, ensure};
use std::{
    fs::{self, File},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

/// A running baresip.
#[derive(Debug)]
pub struct Baresip {
    process: Process,
    directory: PathBuf,
}

impl Baresip {
    /// Starts one at an address; it answers every call, or calls somebody. It ends after so many seconds.
    ///
    /// # Errors
    /// baresip is missing.
    pub fn start(
        namespace: &Namespace,
        scratch: &Scratch,
        own: SocketAddr,
        (sound, call, seconds): (&Path, Option<&str>, u32),
    ) -> Result<Self> {
        let directory = scratch.path().join(format!("baresip-{}", own.ip()));
        fs::create_dir_all(&directory)?;
        let config = format!(
            "sip_listen {own}\naudio_source aufile,{}\naudio_player aubridge,none\naudio_alert aubridge,none\nausrc_srate 8000\nauplay_srate 8000\n\
             ausrc_channels 1\nauplay_channels 1\njitter_buffer_type fixed\njitter_buffer_delay 5-10\nmodule_path /usr/lib/baresip/modules\n\
             module stdio.so\nmodule g711.so\nmodule aufile.so\nmodule sndfile.so\nmodule aubridge.so\nsnd_path {}\nmodule_app account.so\nmodule_app menu.so\n",
            sound.display(),
            directory.display()
        );
        fs::write(directory.join("config"), config)?;
        let account = format!("<sip:phone@{own}>;regint=0;answermode=auto;audio_codecs=pcma\n");
        fs::write(directory.join("accounts"), account)?;
        fs::write(directory.join("contacts"), "")?;
        let mut command = namespace.command("baresip");
        command.arg("-f").arg(&directory).args(["-t", &seconds.to_string()]);
        if let Some(target) = call {
            command.args(["-e", &format!("/dial {target}")]);
        }
        let log = File::create(directory.join("log"))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        Ok(Self { process: Process::start("baresip", &mut command)?, directory })
    }

    /// What it heard, as samples, once it has ended.
    ///
    /// # Errors
    /// It does not end, or has heard nothing.
    pub fn heard(&mut self, limit: Duration) -> Result<Vec<i16>> {
        eventually("baresip ends", limit, || self.process.ended().is_some())?;
        let files = fs::read_dir(&self.directory)?.flatten().map(|f| f.path());
        let recorded = files.into_iter().find(|p| p.to_string_lossy().ends_with("-dec.wav"));
        let recorded = recorded.with_context(|| format!("nothing recorded: {}", self.log()))?;
        read_wav(&recorded)
    }

    /// What it said about itself.
    pub fn log(&self) -> String {
        fs::read_to_string(self.directory.join("log")).unwrap_or_default()
    }
}

/// Bytes of a canonical WAV header.
const HEADER: usize = 44;

/// Writes samples of 8 kHz mono.
///
/// # Errors
/// The file cannot be written.
pub fn write_wav(path: &Path, samples: &[i16]) -> Result<()> {
    let len = samples.len() as u32 * 2;
    let mut file = b"RIFF".to_vec();
    file.extend_from_slice(&(len + 36).to_le_bytes());
    file.extend_from_slice(b"WAVEfmt ");
    for (value, size) in [(16u32, 4), (1, 2), (1, 2), (8000, 4), (16_000, 4), (2, 2), (16, 2)] {
        file.extend_from_slice(&value.to_le_bytes()[..size]);
    }
    file.extend_from_slice(b"data");
    file.extend_from_slice(&len.to_le_bytes());
    samples.iter().for_each(|s| file.extend_from_slice(&s.to_le_bytes()));
    fs::write(path, file).with_context(|| format!("writing {}", path.display()))
}

fn read_wav(path: &Path) -> Result<Vec<i16>> {
    let file = fs::read(path)?;
    ensure!(file.starts_with(b"RIFF") && file.len() > HEADER, "{} is no sound", path.display());
    Ok(file[HEADER..].as_chunks::<2>().0.iter().map(|b| i16::from_le_bytes(*b)).collect())
}

/// Noise of values that G.711 A-law carries without loss, so that what is heard can be compared exactly.
pub fn noise(seed: u32, samples: usize) -> Vec<i16> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..samples).map(|_| a_law(next())).collect()
}

/// The value of a code (ITU-T G.711, table 1).
fn a_law(code: u8) -> i16 {
    let code = code ^ 0x55;
    let (mantissa, segment) = (i16::from(code & 0x0f) << 4, (code & 0x70) >> 4);
    let value = match segment {
        0 => mantissa + 8,
        n => (mantissa + 0x108) << (n - 1),
    };
    if code & 0x80 != 0 { value } else { -value }
}

/// Samples of `said` that are in `heard`, in pieces of at least one packet. Noise is nowhere alike by chance.
pub fn common(said: &[i16], heard: &[i16]) -> usize {
    const MARK: usize = 40;
    const PACKET: usize = 160;
    let run = |a: usize, b: usize| said[a..].iter().zip(&heard[b..]).take_while(|(x, y)| x == y).count();
    let (mut common, mut start) = (0, 0);
    while start + MARK <= said.len() {
        let mark = &said[start..start + MARK];
        let found = heard.windows(MARK).position(|w| w == mark).map_or(0, |at| run(start, at));
        common += if found >= PACKET { found } else { 0 };
        start += found.max(PACKET);
    }
    common
}
