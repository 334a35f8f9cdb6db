//! `quorlock choose`: the selection guide, as questions or as flags.

mod engine;
mod guide;

use crate::args::Choose;
use crate::output::exit_code::Exit;
use crate::output::failure::Failure;
use crate::output::{Output, is_interactive};
use engine::Engine;
use guide::Question;
use serde_json::{Map, Value, json};
use std::io::{self, BufRead, Write};

/// How often a question is repeated after an answer that is neither yes nor no.
const MAX_TRIES: usize = 5;

/// Finds the engine that suits, and prints its description.
pub(crate) fn choose(args: &Choose, output: Output) -> Result<Exit, Failure> {
    let is_given = Question::ALL.iter().any(|question| flag(args, *question).is_some());
    if !is_given && !is_interactive() {
        return Err(Failure::usage("there is no terminal to ask on")
            .help("answer with flags, for instance --performance --edge-cases-ok; see choose --help"));
    }
    let mut answers = Map::new();
    let engine = guide::decide(&mut |question| {
        let yes = if is_given { flag(args, question).unwrap_or(false) } else { ask(question)? };
        answers.insert(question.key().to_owned(), yes.into());
        Ok::<_, Failure>(yes)
    })?;
    print(engine, answers, output)?;
    Ok(Exit::Success)
}

fn flag(args: &Choose, question: Question) -> Option<bool> {
    match question {
        Question::OneMachine => args.one_machine,
        Question::Postgres => args.postgres,
        Question::StrongConsistency => args.strong_consistency,
        Question::Kubernetes => args.kubernetes,
        Question::Performance => args.performance,
        Question::EdgeCasesOk => args.edge_cases_ok,
    }
}

fn ask(question: Question) -> Result<bool, Failure> {
    for _ in 0..MAX_TRIES {
        let _ = write!(anstream::stderr(), "{} [y/n] ", question.text());
        let mut line = String::new();
        let read = io::stdin().lock().read_line(&mut line);
        if !matches!(read, Ok(1..)) {
            break;
        }
        match line.trim().to_lowercase().as_str() {
            "y" | "yes" => return Ok(true),
            "n" | "no" => return Ok(false),
            _ => {}
        }
    }
    Err(Failure::usage("the question was not answered").help("answer y or n, or give flags"))
}

fn print(engine: Engine, answers: Map<String, Value>, output: Output) -> Result<(), Failure> {
    let description = engine.description();
    let object = json!({
        "engine": description.key,
        "name": description.name,
        "is_quorlock": description.is_quorlock,
        "why": description.why,
        "know": description.know,
        "begin": description.begin,
        "answers": answers,
    });
    output.print(&object, || {
        let by =
            if description.is_quorlock { "quorlock does this" } else { "not quorlock, but another tool" };
        let begin: String = description.begin.iter().map(|line| format!("\n  {line}")).collect();
        format!(
            "{} ({by})\n\nwhy:   {}\nknow:  {}\nbegin:{begin}",
            description.name,
            indent(description.why),
            indent(description.know)
        )
    })
}

/// Indents the second and further lines as the first.
fn indent(text: &str) -> String {
    text.replace('\n', "\n       ")
}
