//! The documents agree with the sidecar.

use std::collections::BTreeSet;

#[test]
fn every_problem_is_in_the_documents_with_its_status_and_no_other() {
    let page = include_str!("../../../../docs/sidecar.md");
    let section = page.split("## Problems").nth(1).unwrap().split("## Limits").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let explained: BTreeSet<(String, u16)> = rows
        .map(|row| row.split('|').map(|cell| cell.trim().trim_matches('`')).collect::<Vec<_>>())
        .map(|cells| (cells[1].to_owned(), cells[2].parse().unwrap()))
        .collect();
    let reported: BTreeSet<(String, u16)> =
        quorlock_serve::problem_codes().into_iter().map(|(code, status)| (code.to_owned(), status)).collect();
    assert_eq!(explained, reported);
}
