//! `quorlock doctor`: the operations checklist as a tool.

mod clocks;
mod finding;
mod group;
mod look;
mod memory;
mod node;
mod permissions;
mod report;
mod state;
mod trouble;

pub(crate) use state::{State, guard};

use crate::args::Doctor;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::runtime;
use crate::screen::Screen;
use crate::settings::Settings;
use group::TtlAdvice;
use look::Look;
use report::Report;

/// Examines the nodes and says what is wrong with them.
pub(crate) fn doctor(args: &Doctor, settings: &Settings, screen: Screen) -> Result<Exit, Failure> {
    let locker = settings.build(settings.looking_builder())?;
    if let Some(span) = args.clocks {
        screen.remark(format_args!("watching the clocks for {}", crate::duration::show(span)));
    }
    let look = runtime::start()?.block_on(Look::at(&locker, settings, args.clocks));
    let report = judge(look, args);
    screen.answer(&report.to_json(args.strict), || report.to_text())?;
    Ok(report.exit(args.strict))
}

fn judge<'a>(look: Look<'a>, args: &Doctor) -> Report<'a> {
    let mut found: Vec<_> = look.nodes.iter().flat_map(|seen| node::findings(&look, seen)).collect();
    found.extend(clocks::findings(&look));
    found.extend(group::findings(&look));
    let ttl = TtlAdvice::new(&look, args.work);
    found.extend(ttl.finding());
    Report { findings: finding::arrange(found), ttl, look }
}
