//! The strowger node.
#![forbid(unsafe_code)]

mod args;
mod check;
mod explain;
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
        Command::Explain { call_id, last, file, socket, json } => {
            explain::explain(call_id.as_deref(), *last, file.as_deref(), socket.as_deref(), *json)
        }
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
