//! What the documents say about tests is true.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The names of all functions that are marked as tests below `directory`.
fn tests_below(directory: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            tests_below(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.extend(tests_in(&fs::read_to_string(&path).unwrap()));
        }
    }
}

fn tests_in(source: &str) -> Vec<String> {
    let mut is_test = false;
    let mut names = Vec::new();
    for line in source.lines().map(str::trim) {
        is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        let function = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ");
        if let Some((name, _)) = function.and_then(|function| function.split_once('(')) {
            if is_test {
                names.push(name.to_owned());
            }
            is_test = false;
        }
    }
    names
}

#[test]
fn every_trap_names_tests_that_exist() {
    let mut tests = BTreeSet::new();
    tests_below(&root().join("crates"), &mut tests);
    let page = fs::read_to_string(root().join("docs/traps.md")).unwrap();
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert!(rows.len() > 30, "the table was not found");
    for row in rows {
        let last = row.trim_end_matches('|').rsplit('|').next().unwrap();
        let named: Vec<&str> = last.split('`').skip(1).step_by(2).collect();
        assert!(!named.is_empty(), "no test in: {row}");
        for name in named {
            assert!(tests.contains(name), "there is no test `{name}`");
        }
    }
}
