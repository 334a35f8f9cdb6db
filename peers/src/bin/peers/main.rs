//! Compares quorlock with other lock clients: starts servers, runs the contestants in turn, prints medians.

mod args;
mod baseline;
mod chart;
mod contest;
mod contestants;
mod engines;
mod faults;
mod figures;
mod goals;
mod page;
mod plan;
mod plots;
mod process;
mod publish;
mod row;
mod server;
mod server_program;
mod stage;
mod table;
mod trial;

use anyhow::{Context, Result};
use args::Args;
use clap::Parser;
use row::Report;
use std::fs;

fn main() -> Result<()> {
    let args = Args::parse();
    let report = match &args.from_json {
        Some(file) => {
            serde_json::from_str(&fs::read_to_string(file)?).context("no report of this version")?
        }
        None => contest::run(&args)?,
    };
    print(&report);
    if let Some(file) = &args.json {
        fs::write(file, serde_json::to_string_pretty(&report)? + "\n")?;
    }
    if let Some(directory) = &args.plots {
        fs::create_dir_all(directory)?;
        plots::draw(&report.rows, directory)?;
    }
    if args.publish {
        publish::run(&args, &report)?;
    }
    Ok(())
}

fn print(report: &Report) {
    table::print(report);
    goals::print(report);
    baseline::print(&report.comparisons);
}
