//! Runs other ways to lock and reports what each breaks.

use quorlock_testkit::schemes::{self, Check, Finding, Promotion, Scheme};
use std::process::ExitCode;
use std::time::Instant;

const USAGE: &str = "\
Runs ten ways to lock in seeded simulations and reports what each breaks.

usage: lab [--acquisitions N] [--seed N] [--explain SCHEME] [--list]

  --acquisitions N  at least this many per scheme (default 10000)
  --seed N          the seed of the first run (default 1)
  --explain SCHEME  the shortest trace of what goes wrong with it
  --list            the schemes";

/// How many runs are searched for a short trace.
const RUNS_SEARCHED: u64 = 100;

struct Options {
    acquisitions: u64,
    seed: u64,
    explain: Option<Scheme>,
}

fn main() -> ExitCode {
    match parse(std::env::args().skip(1)) {
        Ok(Some(Options { seed, explain: Some(scheme), .. })) => explain(scheme, seed),
        Ok(Some(options)) => measure(&options),
        Ok(None) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("lab: {problem}\n\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Option<Options>, String> {
    let mut options = Options { acquisitions: 10_000, seed: 1, explain: None };
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--acquisitions" => options.acquisitions = number(&value()?)?,
            "--seed" => options.seed = number(&value()?)?,
            "--explain" => options.explain = Some(value()?.parse()?),
            "--list" => {
                Scheme::ALL.iter().for_each(|scheme| println!("{scheme:<17} {}", scheme.about()));
                return Ok(None);
            }
            "--help" | "-h" => {
                println!("{USAGE}");
                return Ok(None);
            }
            other => return Err(format!("unknown argument `{other}`")),
        }
    }
    if options.acquisitions == 0 || options.acquisitions > 10_000_000 {
        return Err("give 1 to 10 million acquisitions".to_owned());
    }
    Ok(Some(options))
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("`{text}` is not a number"))
}

fn explain(scheme: Scheme, seed: u64) -> ExitCode {
    println!("{scheme}: {}", scheme.about());
    match schemes::explain(scheme, seed, RUNS_SEARCHED) {
        Some(trace) => trace.iter().for_each(|line| println!("{line}")),
        None => {
            println!("nothing to show: no {:?} in {RUNS_SEARCHED} runs from seed {seed} on", scheme.flaw())
        }
    }
    ExitCode::SUCCESS
}

fn measure(options: &Options) -> ExitCode {
    let start = Instant::now();
    let findings = schemes::measure(options.seed, options.acquisitions);
    let promotions = schemes::measure_promotion(options.seed, options.acquisitions);
    println!("per 10 000 acquisitions, of at least {} each:\n", options.acquisitions);
    schemes::result_table(&findings).iter().for_each(|line| println!("{line}"));
    print_notes(&findings);
    println!("\nDoes delayed promotion help when a master fails over to its replica?\n");
    schemes::promotion_table(&promotions).iter().for_each(|line| println!("{line}"));
    print_answer(&findings, &promotions);
    eprintln!("took {:?}", start.elapsed());
    close(&schemes::checks(&findings, &promotions))
}

fn print_notes(findings: &[Finding]) {
    println!(
        "\n- means that the scheme has no hold or no fence. A hold counts until its ttl is over, from before the"
    );
    println!("request: lost updates without a double hold come from pauses and late writes.");
    let quorlock = findings.iter().find(|finding| finding.scheme == Scheme::Quorlock);
    if let Some(Finding { tally, .. }) = quorlock {
        println!(
            "With quorlock's fences checked at the write but not at the read, {} of {} acquisitions lost an update.",
            tally.lost_when_writes_are_fenced, tally.acquisitions
        );
    }
}

/// The documents leave it open whether delayed promotion helps.
fn print_answer(findings: &[Finding], promotions: &[Promotion]) {
    let (late, early): (Vec<_>, Vec<_>) =
        promotions.iter().partition(|promotion| promotion.delay >= schemes::TTL);
    let double_holds =
        |of: &[&Promotion]| of.iter().map(|promotion| promotion.tally.double_holds).sum::<u64>();
    println!(
        "\n{} double holds with delays below the longest ttl, {} from there on. The price is that",
        double_holds(&early),
        double_holds(&late)
    );
    println!("time without a lock at every failover (here one in 8 to 20 s, far more often than in life).");
    if let Some(delayed) = findings.iter().find(|finding| finding.scheme == Scheme::DelayedFailover) {
        println!(
            "It does not help against pauses: {} updates were still lost.\n",
            delayed.tally.lost_updates
        );
    }
}

fn close(checks: &[Check]) -> ExitCode {
    let failed: Vec<&Check> = checks.iter().filter(|check| !check.holds).collect();
    failed.iter().for_each(|check| println!("not seen: {}", check.claim));
    println!("{} passed, {} failed", checks.len() - failed.len(), failed.len());
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
