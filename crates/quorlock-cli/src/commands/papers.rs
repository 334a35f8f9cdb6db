//! `quorlock completions` and `quorlock man`.

use crate::args::{Cli, Completions, Man};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::screen::Screen;
use clap::CommandFactory;
use std::io::{self, Write};

/// Prints a completion script.
pub(crate) fn completions(args: &Completions) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "quorlock", &mut script);
    print(&script, "the script")?;
    Ok(Exit::Success)
}

/// Prints the manual page, or writes one page per command.
pub(crate) fn man(args: &Man, screen: Screen) -> Result<Exit, Failure> {
    let command = Cli::command();
    let Some(dir) = &args.dir else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page).map_err(cannot_write("the manual page"))?;
        print(&page, "the manual page")?;
        return Ok(Exit::Success);
    };
    let shown = dir.display().to_string();
    std::fs::create_dir_all(dir).map_err(cannot_write(&shown))?;
    clap_mangen::generate_to(command, dir).map_err(cannot_write(&shown))?;
    screen.note(format_args!("manual pages written to {shown}"));
    Ok(Exit::Success)
}

/// Prints `what`. A reader that went away (`| head`) is no error.
fn print(paper: &[u8], what: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(paper).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(cannot_write(what)(error)),
        _ => Ok(()),
    }
}

fn cannot_write(what: &str) -> impl Fn(io::Error) -> Failure {
    move |error| Failure::usage(format!("cannot write {what}: {error}"))
}
