//! The console blocks of the README and of the page on the command line do what they show.
#![allow(clippy::unwrap_used)]

mod harness;

use harness::{Home, program};
use std::path::Path;
use std::process::Command;

/// A command and what it should print.
#[derive(Debug)]
struct Step {
    command: String,
    shown: Vec<String>,
}

/// The pages, and how many journeys each has.
const PAGES: [(&str, usize); 2] = [("README.md", 6), ("docs/command-line.md", 4)];

#[test]
fn the_journeys_of_each_page_work_as_shown() {
    let blocks: Vec<Vec<Step>> = PAGES.into_iter().flat_map(journeys).collect();
    std::thread::scope(|scope| {
        for block in &blocks {
            scope.spawn(move || walk(block));
        }
    });
}

/// Goal: readers paste one journey after the other into the same shell, in any order and again, and
/// none disturbs the next.
#[test]
fn the_journeys_of_each_page_work_one_after_the_other_in_one_shell() {
    for page in PAGES {
        let all = journeys(page).into_iter().chain(journeys(page).into_iter().rev());
        walk(&all.flatten().collect::<Vec<_>>());
    }
}

fn journeys((page, count): (&str, usize)) -> Vec<Vec<Step>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let blocks = blocks(&std::fs::read_to_string(root.join(page)).unwrap());
    assert_eq!(blocks.len(), count, "journeys of {page}");
    blocks
}

/// The steps of every console block.
fn blocks(text: &str) -> Vec<Vec<Step>> {
    let blocks = text.split("```console\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks.map(steps).collect()
}

fn steps(block: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in block.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            steps.push(Step { command: command.to_owned(), shown: Vec::new() });
        } else if let Some(more) = line.strip_prefix("> ") {
            let command = &mut steps.last_mut().unwrap().command;
            *command = format!("{command}\n{more}");
        } else {
            steps.last_mut().unwrap().shown.push(line.to_owned());
        }
    }
    steps
}

/// Takes the steps in one shell and compares what each prints.
fn walk(steps: &[Step]) {
    const MARK: &str = "-- end of step --";
    let home = Home::new();
    let script: String = steps.iter().map(|step| format!("{}\necho '{MARK}'\n", step.command)).collect();
    let path = format!("{}:{}", program().parent().unwrap().display(), std::env::var("PATH").unwrap());
    let ours = home.command(&[]);
    let output = Command::new("bash")
        .args(["-c", &format!("exec 2>&1\n{script}")])
        .current_dir(home.path())
        .envs(ours.get_envs().filter_map(|(key, value)| Some((key, value?))))
        .env("PATH", path)
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let printed: Vec<&str> = printed.split(&format!("{MARK}\n")).collect();
    assert!(printed.len() > steps.len(), "the shell ended early: {printed:?}");
    for (step, printed) in steps.iter().zip(printed) {
        let lines: Vec<&str> = printed.lines().collect();
        assert!(
            is_shown(&step.shown, &lines),
            "{}\nprinted: {lines:#?}\nshown: {:#?}",
            step.command,
            step.shown
        );
    }
}

/// Whether `lines` are as `shown`, where `...` means any lines.
fn is_shown(shown: &[String], lines: &[&str]) -> bool {
    match shown.split_first() {
        None => lines.is_empty(),
        Some((any, rest)) if any == "..." => (0..=lines.len()).any(|skip| is_shown(rest, &lines[skip..])),
        Some((first, rest)) => {
            lines.split_first().is_some_and(|(line, lines)| fits(first, line) && is_shown(rest, lines))
        }
    }
}

/// Whether `line` is as `shown`, but for what differs from run to run.
fn fits(shown: &str, line: &str) -> bool {
    mask(shown) == mask(line)
}

/// `line` with long numbers, times, tokens and owners replaced, and single blanks.
fn mask(line: &str) -> String {
    let words = line
        .split_whitespace()
        .map(|word| if word.contains('@') { "who".to_owned() } else { mask_word(word) });
    words.collect::<Vec<_>>().join(" ")
}

fn mask_word(word: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == ':';
    let mut masked = String::new();
    let mut rest = word;
    while let Some(first) = rest.chars().next() {
        let length = rest.find(|c| is_part(c) != is_part(first)).unwrap_or(rest.len());
        let (run, after) = rest.split_at(length);
        let digits = run.chars().filter(char::is_ascii_digit).count();
        let is_span = digits > 0 && run.len() < 8 && run.trim_end_matches(':').ends_with('s');
        masked.push_str(if digits > 2 || is_span { "#" } else { run });
        rest = after;
    }
    masked
}

#[test]
fn only_what_differs_from_run_to_run_is_overlooked() {
    assert!(fits("ann@web1 (pid 4711)  12:30:15 (1s ago)", "root@vm (pid 9923) 00:01:02 (0s ago)"));
    assert!(fits(
        "{\"remaining_ms\":19797,\"token\":\"797416f3a4\"}",
        "{\"remaining_ms\":2000,\"token\":\"0a1b2c9\"}"
    ));
    assert!(!fits("9|1", "9|0") && !fits("exit code 79", "exit code 75") && !fits("starting", "migrating"));
    assert!(is_shown(&["a".into(), "...".into(), "d".into()], &["a", "b", "c", "d"]));
    assert!(!is_shown(&["a".into()], &[]) && !is_shown(&[], &["a"]));
}
