//! Goal: the dashboard of `quorlock serve` works in a real browser; the claims are in
//! `quorlock-serve/browser`.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;

#[test]
fn the_dashboard_works_in_a_browser() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../quorlock-serve/browser");
    if let Some(missing) = missing(&tests) {
        eprintln!("skipped: {missing}, see scripts/setup-tests");
        return;
    }
    let run = Command::new("node")
        .args(["--test", "--test-concurrency=2", "--test-reporter=spec"])
        .current_dir(&tests)
        .env("QUORLOCK", env!("CARGO_BIN_EXE_quorlock"))
        .output()
        .unwrap();
    println!("{}{}", String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "the tests in {} failed", tests.display());
}

/// What keeps the tests from running here.
fn missing(tests: &Path) -> Option<&'static str> {
    if !tests.join("node_modules/playwright-core").is_dir() {
        return Some("playwright is not installed");
    }
    if node_version().is_none_or(|major| major < 20) {
        return Some("there is no Node.js of version 20 or later");
    }
    let has_browser = ["chromium", "chromium-browser", "google-chrome"].into_iter().any(is_on_path);
    (!has_browser && std::env::var_os("CHROMIUM").is_none()).then_some("there is no Chromium")
}

fn node_version() -> Option<u32> {
    let printed = Command::new("node").arg("--version").output().ok()?;
    let printed = String::from_utf8(printed.stdout).ok()?;
    printed.trim_start_matches('v').split('.').next()?.parse().ok()
}

fn is_on_path(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|place| place.join(program).is_file()))
}
