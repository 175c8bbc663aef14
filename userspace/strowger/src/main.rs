//! The strowger node.
#![forbid(unsafe_code)]

mod args;
mod calls;
mod check;
mod command;
mod explain;
mod machine;
mod run;
mod show;
mod talk;
mod xdp;

use args::{Args, Command};
use clap::Parser as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Args { command, json } = Args::parse();
    let result = match &command {
        Command::Check { file } => check::check(file),
        Command::Run { file, last_good, log } => run::run(file, last_good.as_deref(), *log),
        Command::Xdp { verb } => xdp::run(verb),
        Command::Calls { call_id, count, node } => calls::calls(call_id.as_deref(), *count, node, json),
        Command::Explain { call_id, last, node } => explain::explain(call_id.as_deref(), *last, node, json),
        Command::Status { config, node } => show::status(&node.clone().with_file(config.clone()), json),
        Command::Watch { every, node } => show::watch(node, *every),
        Command::Peers { node } => show::one("/v1/peers", show::peers, node, json),
        Command::Regions { node } => show::one("/v1/regions", show::regions, node, json),
        Command::Health { node } => show::one("/v1/health", show::health, node, json),
        Command::Names { node } => show::one("/v1/names", show::names, node, json),
        Command::Events { last, node } => {
            show::one(&format!("/v1/events?last={last}"), show::events, node, json)
        }
        Command::Drain { target, node } => command::admit("drain", target, node, json),
        Command::Disable { target, node } => command::admit("disable", target, node, json),
        Command::Enable { target, node } => command::admit("enable", target, node, json),
        Command::Release { composite, node } => command::release(composite, node, json),
        Command::Reload { dry, node } => command::reload(*dry, node, json),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("strowger: {error:#}");
            ExitCode::FAILURE
        }
    }
}
