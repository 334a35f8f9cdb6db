//! porcupine, a checker by other people, accepts the histories of the simulator and of storms, and refuses
//! those of injected bugs.
#![allow(clippy::unwrap_used)]

use quorlock_testkit::simulator::{History, WorldKind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The exit codes of the checker, as its README says.
const ORDERED: Option<i32> = Some(0);
const UNORDERED: Option<i32> = Some(1);

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("porcupine")
}

/// The program that runs porcupine, built once. `None`, with a note on stderr, where it cannot be had.
fn checker() -> Option<&'static Path> {
    static CHECKER: OnceLock<Option<PathBuf>> = OnceLock::new();
    CHECKER.get_or_init(build).as_deref()
}

fn build() -> Option<PathBuf> {
    let go = |arguments: &[&str]| Command::new("go").args(arguments).current_dir(source()).output();
    let Ok(downloaded) = go(&["mod", "download"]) else {
        eprintln!("skipped: porcupine needs go");
        return None;
    };
    if !downloaded.status.success() {
        eprintln!("skipped: cannot fetch porcupine: {}", String::from_utf8_lossy(&downloaded.stderr));
        return None;
    }
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("porcupine-check");
    let built = go(&["build", "-buildvcs=false", "-o", program.to_str().unwrap(), "."]).unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    Some(program)
}

/// What the checker says to a history: its exit code and its output.
fn check(checker: &Path, history: &Path) -> (Option<i32>, String) {
    let output = Command::new(checker).args(["-limit", "30s"]).arg(history).output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

/// Runs simulated worlds and returns the file with their history.
fn simulate(name: &str, arguments: &[&str]) -> PathBuf {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.jsonl"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_sim"));
    let status = command.args(arguments).arg("--export").arg(&file).stdout(Stdio::null()).status().unwrap();
    assert!(status.success(), "sim {arguments:?}");
    file
}

#[test]
fn porcupine_finds_an_order_for_tame_and_wild_worlds() {
    let Some(checker) = checker() else { return };
    let seeds_of = |kind, count| (1..).filter(move |seed| History::kind_of(*seed) == kind).take(count);
    for seed in seeds_of(WorldKind::Tame, 2).chain(seeds_of(WorldKind::Wild, 1)) {
        let seed = seed.to_string();
        let (code, output) = check(checker, &simulate("world", &["--seed", &seed]));
        assert_eq!(code, ORDERED, "seed {seed}: {output}");
    }
}

/// Goal: what a storm exports of readers, sets of names and permits is a history that has an order.
#[test]
fn porcupine_finds_an_order_for_a_storm() {
    let Some(checker) = checker() else { return };
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("storm.jsonl");
    let mut command = Command::new(env!("CARGO_BIN_EXE_nemesis"));
    command.args(["--seconds", "5", "--nodes", "3", "--seed", "7", "--export"]).arg(&file);
    let storm = command.output().unwrap();
    assert!(storm.status.success(), "{}", String::from_utf8_lossy(&storm.stdout));
    let history = std::fs::read_to_string(&file).unwrap();
    for kind in [r#""shared":true"#, "shared-read", "quorlock:slot:"] {
        assert!(history.contains(kind), "no {kind} in the history");
    }
    let (code, output) = check(checker, &file);
    assert_eq!(code, ORDERED, "{output}");
}

/// Goal: the check is not blind, neither to exclusion nor to fences.
#[test]
fn porcupine_refuses_worlds_with_injected_bugs() {
    let Some(checker) = checker() else { return };
    for bug in ["blind-delete", "loose-raise"] {
        // The run ends with the first world in which the simulator's own checker finds the bug.
        let history = simulate(bug, &["--plain", "--seeds", "9", "--inject-bug", bug]);
        let (code, output) = check(checker, &history);
        assert_eq!(code, UNORDERED, "{bug}: {output}");
        assert!(output.contains("cannot follow: client"), "{bug}: {output}");
    }
}

#[test]
fn porcupine_accepts_good_examples_and_refuses_broken_ones() {
    let Some(checker) = checker() else { return };
    let mut count = (0, 0);
    for example in std::fs::read_dir(source().join("examples")).unwrap().map(Result::unwrap) {
        let is_good = example.file_name().to_string_lossy().starts_with("good-");
        let (code, output) = check(checker, &example.path());
        assert_eq!(code, if is_good { ORDERED } else { UNORDERED }, "{:?}: {output}", example.path());
        count = (count.0 + u32::from(is_good), count.1 + u32::from(!is_good));
    }
    assert!(count.0 >= 5 && count.1 >= 5, "only {count:?} examples");
}

/// Goal: a file that is cut short, or is no history, is not a success.
#[test]
fn porcupine_checks_no_file_without_a_history() {
    let Some(checker) = checker() else { return };
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("no-history.jsonl");
    for text in ["", "{\"world\":1,\"op\":\"acq"] {
        std::fs::write(&file, text).unwrap();
        let (code, output) = check(checker, &file);
        assert_eq!(code, Some(2), "{output}");
    }
}
