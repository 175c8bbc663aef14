//! The last known good state, kept in a file: a start works from it when the configuration or DNS is
//! gone (requirement A4).

use crate::discover::{Question, Target};
use serde::{Deserialize, Serialize};
use std::{
    fs, io,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

/// What is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Name of the configuration file.
    pub file: String,
    /// Its text, as last accepted.
    pub text: String,
    /// Servers of every name that was ever resolved.
    pub names: Vec<(Question, Vec<Target>)>,
}

impl Kept {
    /// Reads the file.
    ///
    /// # Errors
    /// It is not there, or is no such state.
    pub fn read(path: &Path) -> io::Result<Self> {
        let text = fs::read(path)?;
        serde_json::from_slice(&text).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
    }

    /// Writes the file whole: a reader, or a start after a crash, sees the old state or the new one.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        let new: PathBuf = path.with_extension("new");
        let mut file =
            fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        io::Write::write_all(&mut file, &serde_json::to_vec_pretty(self)?)?;
        file.sync_all()?;
        fs::rename(&new, path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_garbage_is_refused() {
        let directory = std::env::temp_dir().join(format!("strowger-keep-{}", std::process::id()));
        let path = directory.join("below").join("node.state");
        let question = Question {
            name: "example.com".to_owned(),
            label: Some("_sip._udp".to_owned()),
            naptr: false,
            port: 5060,
            ipv4: true,
        };
        let target = Target {
            host: "a.example.com".to_owned(),
            address: ([192, 0, 2, 1], 5070).into(),
            priority: 1,
            weight: 2,
        };
        let kept = Kept {
            file: "f.toml".to_owned(),
            text: "[node]\n".to_owned(),
            names: vec![(question, vec![target])],
        };
        kept.write(&path).unwrap();
        kept.write(&path).unwrap();
        assert_eq!(Kept::read(&path).unwrap(), kept);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, &text[..text.len() / 2]).unwrap();
        assert_eq!(Kept::read(&path).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(Kept::read(&directory.join("no")).unwrap_err().kind(), io::ErrorKind::NotFound);
        fs::remove_dir_all(directory).unwrap();
    }
}
