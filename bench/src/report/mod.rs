//! What a run leaves: raw data, a Markdown page and charts.

mod chart;
mod machine;
mod page;

pub use machine::Machine;

use crate::run::{contest::Standing, failover::Failover, memory::Memory, scaling::Series};
use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use std::{fs, path::Path};

/// The raw data.
const DATA: &str = "data.json";

/// All that was measured in one run.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Report {
    /// Where.
    pub machine: Machine,
    /// How, to be run again.
    pub command: String,
    /// Systems side by side.
    pub contests: Vec<Standing>,
    /// More of something.
    pub scaling: Vec<Series>,
    /// A peer dies.
    pub failover: Vec<Failover>,
    /// Memory of calls.
    pub memory: Vec<Memory>,
}

impl Report {
    /// Nothing measured yet.
    ///
    /// # Errors
    /// The machine does not say what it is.
    pub fn new(command: String) -> Result<Self> {
        Ok(Self {
            machine: Machine::look()?,
            command,
            contests: Vec::new(),
            scaling: Vec::new(),
            failover: Vec::new(),
            memory: Vec::new(),
        })
    }

    /// One that was written before.
    ///
    /// # Errors
    /// There is none, or it is of another version.
    pub fn read(directory: &Path) -> Result<Self> {
        let text = fs::read_to_string(directory.join(DATA)).with_context(|| format!("reading {DATA}"))?;
        serde_json::from_str(&text).with_context(|| format!("reading {DATA}"))
    }

    /// Writes all files of it to a directory.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, directory: &Path) -> Result<()> {
        fs::create_dir_all(directory)?;
        put(directory, DATA, serde_json::to_string_pretty(self)? + "\n")?;
        self.draw(directory)
    }

    /// Writes page and charts; the raw data stays as it is.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn draw(&self, directory: &Path) -> Result<()> {
        put(directory, "README.md", page::markdown(self))?;
        put(directory, "rate.svg", chart::rates(self))?;
        put(directory, "latency.svg", chart::latencies(self))?;
        put(directory, "cost.svg", chart::costs(self))
    }
}

fn put(directory: &Path, name: &str, text: String) -> Result<()> {
    fs::write(directory.join(name), text).with_context(|| format!("writing {name}"))
}
