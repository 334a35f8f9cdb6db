//! Who takes part, and how each is started.

use std::path::{Path, PathBuf};

/// One program that speaks the protocol.
pub struct Contestant {
    pub name: &'static str,
    /// The program and its first arguments; the flags of an order follow.
    pub command: Vec<String>,
    /// What must be there, besides the program.
    needs: Vec<PathBuf>,
    /// The program that marks nodes as fresh, where they must be before the contestant can use them.
    pub init: Option<PathBuf>,
    /// Whether it has no quorum of independent nodes.
    pub one_node: bool,
    /// How many seconds it warms up at least: a virtual machine compiles while it runs.
    pub least_warmup: f64,
}

impl Contestant {
    /// Why it cannot run here; `None` if it can.
    pub fn missing(&self) -> Option<String> {
        let program = &self.command[0];
        if !is_program(program) {
            return Some(format!("there is no {program} here"));
        }
        let missing = self.needs.iter().find(|path| !path.exists())?;
        Some(format!("{} is missing; peers/setup could not prepare it", missing.display()))
    }
}

/// The name of quorlock at another commit.
pub const BASELINE: &str = "baseline";

/// All contestants. The baseline takes part if `peers/run` has built one.
pub fn all() -> Vec<Contestant> {
    let mut all = vec![
        rust("quorlock"),
        rust("quorlock-plain"),
        sidecar(),
        rust("rslock"),
        go("redsync", &["--library", "redsync"]),
        go("redsync-failfast", &["--library", "redsync", "--fail-fast"]),
        Contestant { one_node: true, ..go("rueidislock", &["--library", "rueidislock"]) },
        node("node-redlock", "node_redlock", "redlock"),
        node("redis-semaphore", "redis_semaphore", "redis-semaphore"),
        python("redlock-py"),
        python("pottery"),
        java(),
        rust("redis-crate"),
        rust("floor"),
        rust("floor-split"),
        rust("floor-quorum"),
        rust("floor-fenced"),
        rust("floor-async"),
        rust("floor-http"),
        rust("mutex"),
        one_thread("quorlock-one-thread", "quorlock"),
        one_thread("rslock-one-thread", "rslock"),
    ];
    all.extend(baseline());
    all
}

/// quorlock as it was at another commit.
fn baseline() -> Option<Contestant> {
    let program = PathBuf::from(std::env::var_os("PEERS_BASELINE")?);
    let command = vec![text(&program), "quorlock".to_owned()];
    Some(Contestant { init: Some(program), ..plain(BASELINE, command, vec![]) })
}

pub fn names() -> Vec<&'static str> {
    all().iter().map(|contestant| contestant.name).collect()
}

/// The program with the contestants that are written in Rust. It is built together with this one.
fn rust_program() -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    own.with_file_name("contestant")
}

fn rust(name: &'static str) -> Contestant {
    let command = vec![text(&rust_program()), name.to_owned()];
    let init = (name == "quorlock").then(rust_program);
    Contestant { init, ..plain(name, command, vec![]) }
}

/// The contestant `which` on a runtime with a single thread.
fn one_thread(name: &'static str, which: &'static str) -> Contestant {
    let mut contestant = rust(which);
    contestant.command.splice(..0, ["env", "PEERS_RUNTIME=ct"].map(str::to_owned));
    Contestant { name, ..contestant }
}

fn sidecar() -> Contestant {
    let program = here().join("../target/release/quorlock");
    Contestant { init: Some(rust_program()), needs: vec![program], ..rust("quorlock-serve") }
}

fn go(name: &'static str, flags: &[&str]) -> Contestant {
    let mut command = vec![text(&here().join(".deps/go-contestant"))];
    command.extend(flags.iter().map(|&flag| flag.to_owned()));
    plain(name, command, vec![])
}

fn node(name: &'static str, module: &str, package: &str) -> Contestant {
    let command = vec!["node".to_owned(), text(&here().join("node/contestant.js")), module.to_owned()];
    plain(name, command, vec![here().join("node/node_modules").join(package)])
}

fn python(name: &'static str) -> Contestant {
    let program = here().join(".deps/venv/bin/python");
    plain(name, vec![text(&program), text(&here().join("python/contestant.py")), name.to_owned()], vec![])
}

fn java() -> Contestant {
    let classes = here().join("java/target/classes");
    let path = format!("{}:{}/*", classes.display(), here().join("java/target/dependency").display());
    let command = ["java", "-cp", &path, "Contestant"].map(str::to_owned).to_vec();
    Contestant { least_warmup: 4.0, ..plain("redisson", command, vec![classes.join("Contestant.class")]) }
}

fn plain(name: &'static str, command: Vec<String>, needs: Vec<PathBuf>) -> Contestant {
    Contestant { name, command, needs, init: None, one_node: false, least_warmup: 0.0 }
}

/// The directory `peers`.
pub fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn is_program(name: &str) -> bool {
    if name.contains('/') {
        return Path::new(name).is_file();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(name).is_file())
}

fn text(path: &Path) -> String {
    path.display().to_string()
}
