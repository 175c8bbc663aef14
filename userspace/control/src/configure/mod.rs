//! The configuration file: TOML, strictly checked. Every error names the line and what was expected.

mod check;
mod checked;
mod reload;
pub mod route;
pub mod schema;

pub use check::check;
pub use checked::{
    Checked, CompositeConfig, DiscoverConfig, DnsConfig, HealthConfig, InterfaceConfig, ListenerConfig,
    MediaSettings, PeerConfig, ServiceConfig, SourceConfig, WorkerConfig,
};

use std::{fmt, path::Path};

/// A fault of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Line, from 1.
    pub line: usize,
    /// What is wrong and what was expected.
    pub message: String,
}

/// All faults found in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file's name.
    pub file: String,
    /// Faults in the order of their lines.
    pub faults: Vec<Fault>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, fault) in self.faults.iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            match fault.line {
                0 => write!(f, "{}: {}", self.file, fault.message)?,
                line => write!(f, "{}:{line}: {}", self.file, fault.message)?,
            }
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

/// Reads and checks a file.
///
/// # Errors
/// The file cannot be read, is no TOML, has an unknown key or a bad value, or contradicts itself.
pub fn load(path: &Path) -> Result<Checked, ConfigError> {
    let text = read(path)?;
    parse(&path.display().to_string(), &text)
}

/// Reads a file's text.
///
/// # Errors
/// The file cannot be read.
pub fn read(path: &Path) -> Result<String, ConfigError> {
    std::fs::read_to_string(path).map_err(|e| ConfigError {
        file: path.display().to_string(),
        faults: vec![Fault { line: 0, message: format!("cannot read the configuration: {e}") }],
    })
}

/// Checks a file's text.
///
/// # Errors
/// As [`load`].
pub fn parse(file: &str, text: &str) -> Result<Checked, ConfigError> {
    let line = |offset: usize| text[..offset.min(text.len())].matches('\n').count() + 1;
    let raw: schema::File = toml::from_str(text).map_err(|e| ConfigError {
        file: file.to_owned(),
        faults: vec![Fault {
            line: e.span().map_or(0, |s| line(s.start)),
            message: e.message().replace('\n', " "),
        }],
    })?;
    check(&raw, &line).map_err(|mut faults| {
        faults.sort_by_key(|f| f.line);
        ConfigError { file: file.to_owned(), faults }
    })
}

#[cfg(test)]
mod tests;
