//! `quorlock`: run anything under a lock, on one machine or on five nodes.

mod args;
mod bench;
mod choose;
mod commands;
mod dev;
mod doctor;
mod duration;
mod exit;
mod failure;
mod group;
mod init;
mod log;
mod run;
mod runtime;
mod screen;
mod serve;
mod settings;
mod shell;
mod signals;
mod since;
mod table;
mod text;
mod tie;
mod treatment;
mod view;
mod waiting;

#[cfg(not(target_os = "linux"))]
compile_error!("the command line tool needs Linux, whose kernel ends a command together with us");

use args::{Cli, Command};
use clap::Parser;
use clap::error::ErrorKind;
use exit::Exit;
use failure::Failure;
use log::Log;
use screen::Screen;
use std::env;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return misunderstood(&error).into(),
    };
    let global = &cli.global;
    let screen = Screen { json: global.json, quiet: global.quiet, verbose: global.verbose };
    let log = Log::start(level(&cli), screen.json);
    let done = log.as_ref().map_err(Failure::clone).and_then(|_| dispatch(&cli, screen));
    let exit = done.unwrap_or_else(|failure| {
        match &cli.command {
            Command::Run(_) => run::fail(&failure, screen),
            _ => screen.fail(&failure),
        }
        failure.exit
    });
    if let Ok(log) = &log {
        log.flush();
    }
    exit.into()
}

/// The level of the log, unless the user has another filter. Only the sidecar has one.
fn level(cli: &Cli) -> Option<&'static str> {
    match &cli.command {
        Command::Serve(_) if cli.global.quiet => Some("warn"),
        Command::Serve(_) if cli.global.verbose => Some("debug"),
        Command::Serve(_) => Some("info"),
        _ => None,
    }
}

fn dispatch(cli: &Cli, screen: Screen) -> Result<Exit, Failure> {
    let collect = || settings::Settings::collect(&cli.global, screen);
    let settings = || collect().and_then(|settings| settings.has_required_nodes().map(|()| settings));
    match &cli.command {
        Command::Run(args) => run::run(args, settings()?, screen),
        Command::Acquire(args) => commands::acquire::acquire(args, settings()?, screen),
        Command::Extend(args) => commands::extend::extend(args, settings()?, screen),
        Command::Release(args) => commands::release::release(args, &settings()?, screen),
        Command::Status(args) => commands::status::status(args, &settings()?, screen),
        Command::Watch(args) => commands::watch::watch(args, &settings()?, screen),
        Command::ForceRelease(args) => commands::force_release::force_release(args, &settings()?, screen),
        Command::Config(args::Config::Show) => commands::config::show(&collect()?, screen),
        Command::Doctor(args) => doctor::doctor(args, &settings()?, screen),
        Command::Init(args) => init::init(args, &settings()?, screen),
        Command::Serve(args) => serve::serve(args, settings()?, screen),
        Command::Dev(args) => dev::dev(args, screen),
        Command::Bench(args) => bench::bench(args, &settings()?, screen),
        Command::Choose(args) => choose::choose(args, screen),
        Command::Completions(args) => commands::papers::completions(args, screen),
        Command::Man(args) => commands::papers::man(args, screen),
    }
}

/// Help and version are answers; anything else is a mistake, which programs get as JSON.
fn misunderstood(error: &clap::Error) -> Exit {
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
        let screen = Screen { json: true, quiet: false, verbose: false };
        screen.fail(&Failure::usage(message));
    } else {
        let _ = error.print();
    }
    Exit::Usage
}
