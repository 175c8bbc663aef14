//! The strowger node.
#![forbid(unsafe_code)]

mod args;
mod check;
mod machine;
mod run;
mod status;
mod xdp;

use args::{Args, Command};
use clap::Parser as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = Args::parse();
    let result = match &args.command {
        Command::Check { file } => check::check(file),
        Command::Run { file } => run::run(file),
        Command::Xdp { verb } => xdp::run(verb),
        Command::Status { file, socket, json } => status::status(file.as_deref(), socket.as_deref(), *json),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("strowger: {error:#}");
            ExitCode::FAILURE
        }
    }
}
