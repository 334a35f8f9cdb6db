//! `quorlock completions` and `quorlock man`.

use crate::args::{Cli, Completions, Man};
use crate::output::Output;
use crate::output::exit_code::Exit;
use crate::output::failure::Failure;
use clap::CommandFactory;
use serde_json::json;
use std::io;

/// Prints a completion script.
pub(crate) fn completions(args: &Completions, output: Output) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "quorlock", &mut script);
    print("script", &script, output)
}

/// Prints the manual page, or writes one page per command.
pub(crate) fn man(args: &Man, output: Output) -> Result<Exit, Failure> {
    let command = Cli::command();
    let Some(dir) = &args.dir else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page).map_err(cannot_write("the manual page"))?;
        return print("page", &page, output);
    };
    let shown = dir.display().to_string();
    std::fs::create_dir_all(dir).map_err(cannot_write(&shown))?;
    clap_mangen::generate_to(command, dir).map_err(cannot_write(&shown))?;
    if output.json {
        output.print(&json!({ "directory": shown }), String::new)?;
    }
    output.info(format_args!("manual pages written to {shown}"));
    Ok(Exit::Success)
}

fn print(key: &str, document: &[u8], output: Output) -> Result<Exit, Failure> {
    let document = String::from_utf8_lossy(document);
    output.print(&json!({ key: document }), || document.to_string())?;
    Ok(Exit::Success)
}

fn cannot_write(what: &str) -> impl Fn(io::Error) -> Failure {
    move |error| Failure::usage(format!("cannot write {what}: {error}"))
}
