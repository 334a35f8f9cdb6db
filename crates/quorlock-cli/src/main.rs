//! `quorlock`: run anything under a lock, on one machine or on five nodes.
//!
//! `main` parses the arguments, runs one command, and maps its result to an exit code.
//!
//! # Layout
//! A folder uses only the folders above it; `tests/layout.rs` checks that.
//!
//! - `output/`: what the user sees: answers, errors with advice, tables, durations, exit codes
//! - `process/`: what the operating system gives us: signals, threads, process groups, the log on stderr
//! - `args/`: the command line; its doc comments are the help texts
//! - `settings/`: every setting with where it came from: flag, environment, file, default
//! - `commands/`: one file or folder for each command

mod args;
mod commands;
mod output;
mod process;
mod settings;

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
compile_error!(
    "the command line tool runs on Linux and macOS: `process/platform` has what differs between kernels"
);

use args::{Cli, Command, Config};
use clap::error::ErrorKind;
use commands::{bench, choose, dev, doctor, init, run, serve, watch};
use output::Output;
use output::exit_code::Exit;
use output::failure::Failure;
use process::log::Log;
use settings::Settings;
use std::env;
use std::process::ExitCode;

/// A request to the sidecar makes and drops over a hundred small buffers, and the allocator of musl, which the
/// released programs for Linux would use, is slow.
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = match Cli::from_process_args() {
        Ok(cli) => cli,
        Err(error) => return print_parse_error(&error).into(),
    };
    let global = &cli.global;
    let output = Output { json: global.json, quiet: global.quiet, verbose: global.verbose };
    let log = Log::start(log_level(&cli), output.json);
    let done = log.as_ref().map_err(Failure::clone).and_then(|_| dispatch(&cli, output));
    let exit = done.unwrap_or_else(|failure| {
        match &cli.command {
            Command::Run(_) | Command::Elect(_) => run::print_failure(&failure, output),
            _ => output.error(&failure),
        }
        failure.exit
    });
    if let Ok(log) = &log {
        log.flush();
    }
    exit.into()
}

/// The level of the log, unless `QUORLOCK_LOG` has another filter. By default only the sidecar has
/// a log.
fn log_level(cli: &Cli) -> Option<&'static str> {
    match &cli.command {
        Command::Serve(_) if cli.global.quiet => Some("warn"),
        Command::Serve(_) if cli.global.verbose => Some("debug"),
        Command::Serve(_) => Some("info"),
        _ => None,
    }
}

fn dispatch(cli: &Cli, output: Output) -> Result<Exit, Failure> {
    let collect = || Settings::collect(&cli.global, output);
    let settings = || collect().and_then(|settings| settings.check_required_nodes().map(|()| settings));
    match &cli.command {
        Command::Run(args) => run::run(args, settings()?, output),
        Command::Acquire(args) => commands::acquire::acquire(args, settings()?, output),
        Command::Extend(args) => commands::extend::extend(args, settings()?, output),
        Command::Release(args) => commands::release::release(args, &settings()?, output),
        Command::Elect(args) => run::elect(args, settings()?, output),
        Command::Leader(args) => commands::leader::leader(args, &settings()?, output),
        Command::Status(args) => commands::status::status(args, &settings()?, output),
        Command::Watch(args) => watch::watch(args, &settings()?, output),
        Command::ForceRelease(args) => commands::force_release::force_release(args, &settings()?, output),
        Command::Config(Config::Show) => commands::config::show(&collect()?, output),
        Command::Doctor(args) => doctor::doctor(args, &settings()?, output),
        Command::Init(args) => init::init(args, &settings()?, output),
        Command::Serve(args) => serve::serve(args, settings()?, output),
        Command::Dev(args) => dev::dev(args, output),
        Command::Bench(args) => bench::bench(args, &settings()?, output),
        Command::Choose(args) => choose::choose(args, output),
        Command::Completions(args) => commands::completions_man::completions(args, output),
        Command::Man(args) => commands::completions_man::man(args, output),
    }
}

/// Prints help and version as answers, and anything else as an error, with `--json` as an object.
fn print_parse_error(error: &clap::Error) -> Exit {
    if !error.use_stderr() {
        let _ = error.print();
        return Exit::Success;
    }
    let wants_json = env::args_os().take_while(|arg| arg != "--").any(|arg| arg == "--json");
    if wants_json {
        let text = error.render().to_string();
        let message = match error.kind() {
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => "no subcommand was given",
            _ => text.trim_start_matches("error: ").split("\n\n").next().unwrap_or_default().trim(),
        };
        let output = Output { json: true, quiet: false, verbose: false };
        output.error(&Failure::usage(message));
    } else {
        let _ = error.print();
    }
    Exit::Usage
}
