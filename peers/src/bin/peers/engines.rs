//! Results of the two other programs that the page shows: `peers/run --engines` and `clients/bench/run`.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

/// What `peers/run --engines --json` writes.
#[derive(Debug, Default, Deserialize)]
pub struct Engines {
    pub rows: Vec<EngineRow>,
    /// Lines that begin with the name and version of a server.
    pub versions: Vec<String>,
    pub skipped: Vec<String>,
}

/// A contestant with one load on one engine.
#[derive(Debug, Deserialize)]
pub struct EngineRow {
    pub engine: String,
    pub workload: String,
    pub clients: usize,
    pub contestant: String,
    /// Cycles per second.
    pub rate: f64,
    pub p50_us: f64,
}

/// What `clients/bench/run` prints: how many times as long a cycle of the client takes as one of a plain loop.
#[derive(Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Clients {
    pub python: Option<f64>,
    pub javascript: Option<f64>,
}

impl Clients {
    /// Reads lines like `python: client 900, plain loop 1000 cycles/s; ratio 1.11 (1.05-1.20)`.
    pub fn parse(text: &str) -> Self {
        let ratio = |language: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(language)?.strip_prefix(':'))?;
            line.split_once("ratio ")?.1.split(' ').next()?.parse().ok()
        };
        Self { python: ratio("python"), javascript: ratio("javascript") }
    }
}

impl Engines {
    pub fn find(&self, engine: &str, workload: &str, clients: usize, contestant: &str) -> Option<&EngineRow> {
        self.rows.iter().find(|row| {
            row.engine == engine
                && row.workload == workload
                && row.clients == clients
                && row.contestant == contestant
        })
    }

    /// Engines and their native contestants, in the order of the run.
    pub fn natives(&self) -> Vec<(&str, &str)> {
        let mut pairs = Vec::new();
        for row in self.rows.iter().filter(|row| row.contestant != "quorlock") {
            let pair = (row.engine.as_str(), row.contestant.as_str());
            if !pairs.contains(&pair) {
                pairs.push(pair);
            }
        }
        pairs
    }

    /// Name and version of the server of `engine`, as far as they are known.
    pub fn server<'a>(&'a self, engine: &'a str) -> &'a str {
        let is_of = |line: &&String| line.to_lowercase().starts_with(&engine.to_lowercase());
        let line = self.versions.iter().find(is_of).and_then(|line| line.split(": ").next());
        line.unwrap_or(engine)
    }
}

/// The results in `file`; those of nothing if there is no such file.
pub fn read<T: Default + for<'a> Deserialize<'a>>(file: &Path) -> Result<T> {
    if !file.exists() {
        return Ok(T::default());
    }
    let text = fs::read_to_string(file)?;
    serde_json::from_str(&text).with_context(|| format!("{} is not what was expected", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_of_a_language_is_in_its_line() {
        let text = "python: client 900, plain loop 1000 cycles/s; ratio 1.11 (1.05-1.20), goal <= 1.3: met\n";
        assert_eq!(Clients::parse(text), Clients { python: Some(1.11), javascript: None });
        assert_eq!(Clients::parse(""), Clients::default());
    }

    #[test]
    fn an_engine_is_found_with_its_version() {
        let text = r#"{"rows": [{"engine": "postgres", "workload": "own", "clients": 1, "contestant": "x", "rate": 1, "p50_us": 2}],
            "versions": ["PostgreSQL 15.18: quorlock 0.1.0"], "skipped": []}"#;
        let engines: Engines = serde_json::from_str(text).unwrap();
        assert_eq!(engines.server("postgres"), "PostgreSQL 15.18");
        assert_eq!(engines.server("etcd"), "etcd");
        assert_eq!(engines.natives(), [("postgres", "x")]);
        assert!(engines.find("postgres", "own", 1, "x").is_some());
        assert!(engines.find("postgres", "own", 100, "x").is_none());
    }
}
