//! The clients of the sidecar, in other languages, against this program and real servers.
#![allow(clippy::unwrap_used)]

mod harness;

use harness::{Home, program};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

#[test]
fn the_python_client_keeps_its_promises() {
    let tests = root().join("clients/python/tests");
    passes(Command::new("python3").args(["-m", "unittest", "discover", "-s"]).arg(tests));
}

#[test]
fn the_javascript_client_keeps_its_promises() {
    let tests = root().join("clients/javascript/tests");
    let files = ["quorlock.test.js", "pauses.test.js", "package.test.js"].map(|file| tests.join(file));
    passes(Command::new("node").arg("--test").args(files));
}

#[test]
fn the_go_client_keeps_its_promises() {
    let client = root().join("clients/go");
    passes(Command::new("go").args(["vet", "./..."]).current_dir(&client));
    passes(Command::new("go").args(["test", "-count=1", "./..."]).current_dir(&client));
    if let Ok(said) = Command::new("gofmt").args(["-l", "."]).current_dir(&client).output() {
        assert_eq!(String::from_utf8_lossy(&said.stdout), "", "not formatted");
    }
}

#[test]
fn the_java_client_keeps_its_promises() {
    if !root().join("interop/.deps/java-client.stamp").exists() {
        eprintln!("skipped: scripts/setup-tests did not prepare the Java client");
        return;
    }
    let client = root().join("clients/java");
    passes(Command::new("mvn").args(["--offline", "-q", "-B", "test"]).current_dir(client));
}

#[test]
fn the_python_example_of_the_docs_runs() {
    let example = Example::new("python", "example.py");
    let module = root().join("clients/python");
    example.pays(Command::new("python3").arg("example.py").env("PYTHONPATH", module));
}

#[test]
fn the_javascript_example_of_the_docs_runs() {
    let example = Example::new("js", "example.mjs");
    let modules = example.dir.path().join("node_modules");
    fs::create_dir(&modules).unwrap();
    std::os::unix::fs::symlink(root().join("clients/javascript"), modules.join("quorlock-sidecar")).unwrap();
    example.pays(Command::new("node").arg("example.mjs"));
}

#[test]
fn the_go_example_of_the_docs_runs() {
    let example = Example::new("go", "main.go");
    let client = "github.com/quorlock/quorlock/clients/go";
    let at = root().canonicalize().unwrap().join("clients/go");
    let module = format!(
        "module example\n\ngo 1.23\n\nrequire {client} v0.0.0\n\nreplace {client} => {}\n",
        at.display()
    );
    fs::write(example.dir.path().join("go.mod"), module).unwrap();
    example.pays(Command::new("go").args(["run", "."]).env("GOFLAGS", "-mod=mod -buildvcs=false"));
}

#[test]
fn the_java_example_of_the_docs_runs() {
    let example = Example::new("java", "Example.java");
    let sources = root().join("clients/java/src/main/java/io/quorlock");
    let sources = fs::read_dir(sources).unwrap().map(|file| file.unwrap().path());
    let classes = example.dir.path().join("classes");
    passes(Command::new("javac").arg("-d").arg(&classes).args(sources));
    example.pays(Command::new("java").arg("-cp").arg(classes).arg("Example.java"));
}

/// A program out of `docs/sidecar.md`, in a directory of its own.
struct Example {
    dir: TempDir,
}

impl Example {
    /// The one block in that language, as a file.
    fn new(language: &str, file: &str) -> Self {
        let page = fs::read_to_string(root().join("docs/sidecar.md")).unwrap();
        let (_, rest) = page.split_once(&format!("\n```{language}\n")).unwrap();
        let (code, rest) = rest.split_once("\n```").unwrap();
        assert!(!rest.contains(&format!("\n```{language}\n")), "more than one block in {language}");
        let dir = TempDir::with_prefix("quorlock-example-").unwrap();
        fs::write(dir.path().join(file), format!("{code}\n")).unwrap();
        Self { dir }
    }

    /// That `command` runs it, with a real sidecar, and it pays.
    fn pays(&self, command: &mut Command) {
        let home = Home::new();
        let address = format!("unix:{}", home.file("s.sock").display());
        let mut sidecar = home.start(&["serve", "--quiet", "--listen", &address]);
        sidecar.answers("s.sock\n");
        if let Some(said) = passes(command.current_dir(self.dir.path()).env("QUORLOCK_SIDECAR", address)) {
            assert!(said.contains("paid with fence "), "{said}");
        }
    }
}

/// Runs a program of another language, and gives what it said. Without the language there is nothing to test.
fn passes(command: &mut Command) -> Option<String> {
    let language = command.get_program().to_owned();
    let mut version = Command::new(&language);
    if version.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
        eprintln!("skipped: there is no {}", language.display());
        return None;
    }
    let output =
        command.env("QUORLOCK_PROGRAM", program()).env("PYTHONDONTWRITEBYTECODE", "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    Some(said.into_owned())
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
