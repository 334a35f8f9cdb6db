//! What the documents say about tests is true.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What `names_in` finds in the source files below `directory`.
fn search(directory: &Path, found: &mut BTreeSet<String>, names_in: fn(&str) -> Vec<String>) {
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            search(&path, found, names_in);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.extend(names_in(&fs::read_to_string(&path).unwrap()));
        }
    }
}

/// The names of all functions: the checks of a suite are called by its tests.
fn functions_in(source: &str) -> Vec<String> {
    let lines = source.lines().map(str::trim);
    let functions = lines.filter_map(|line| line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn "));
    functions.filter_map(|function| function.split_once('(')).map(|(name, _)| name.to_owned()).collect()
}

/// The names of all functions that are marked as tests.
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
    search(&root().join("crates"), &mut tests, tests_in);
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

/// Names in the text of the evidence that look like tests are tests.
#[test]
fn the_evidence_names_tests_that_exist() {
    let mut known = BTreeSet::new();
    search(&root().join("crates"), &mut known, functions_in);
    let page = fs::read_to_string(root().join("EVIDENCE.md")).unwrap();
    let is_name = |code: &&str| {
        let is_plain = code.chars().all(|c| c == '_' || c.is_ascii_lowercase() || c.is_ascii_digit());
        is_plain && code.matches('_').count() >= 3
    };
    let named: Vec<&str> = page.split('`').filter(is_name).collect();
    assert!(named.len() > 10, "the names were not found");
    for name in named {
        assert!(known.contains(name), "there is no test `{name}`");
    }
}
