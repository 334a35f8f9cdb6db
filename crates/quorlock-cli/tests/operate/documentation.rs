//! Every finding is explained.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// The quoted words that follow `before` in `source`.
fn quoted(source: &str, before: &str) -> Vec<String> {
    let after = source.split(before).skip(1);
    after.filter_map(|rest| Some(rest.strip_prefix('"')?.split_once('"')?.0.to_owned())).collect()
}

#[test]
fn every_code_of_a_finding_is_in_the_documents_and_no_other() {
    let mut codes = BTreeSet::new();
    for file in ["clocks", "node", "permissions", "persistence", "quorum", "semaphores", "ttl_advice"] {
        let source = read(&format!("src/commands/doctor/{file}.rs"));
        for kind in ["Finding::error(", "Finding::warning(", "Finding::note("] {
            codes.extend(quoted(&source, kind));
        }
    }
    assert!(codes.len() > 15, "{codes:?}");
    // A node that fails has the code of its error.
    let errors = quoted(&read("../quorlock/src/error/node.rs"), "=> ");
    // An examination queues nothing.
    codes.extend(errors.iter().filter(|kind| *kind != "queue_full").map(|kind| kind.replace('_', "-")));
    let page = read("../../docs/doctor.md");
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    let cells = rows.map(|row| row.split('|').nth(1).unwrap());
    let explained: BTreeSet<String> =
        cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect();
    assert_eq!(explained, codes);
}
