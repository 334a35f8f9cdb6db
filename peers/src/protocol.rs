//! What a contestant gets, as flags, and what it answers, as one line of JSON. See README.md.

use crate::histogram::Histogram;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// What the clients of a contestant do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Workload {
    /// Every client takes and frees a name of its own.
    Own,
    /// All clients take and free one name.
    One,
    /// Every client takes and frees many names of its own, one after the other.
    Many,
    /// Every client holds a name of its own all the time.
    Held,
    /// Every client shares a name of its own.
    SharedOwn,
    /// All clients share one name.
    SharedOne,
    /// Every client takes several names of its own together.
    Names,
    /// Every client takes a permit of a semaphore of its own.
    PermitsOwn,
    /// All clients take permits of one semaphore.
    PermitsOne,
}

impl Workload {
    /// Whether all clients use one name.
    pub fn is_one_name(self) -> bool {
        matches!(self, Workload::One | Workload::SharedOne | Workload::PermitsOne)
    }
}

/// The flags of a contestant.
#[derive(Clone, Debug, clap::Args)]
pub struct Order {
    /// URLs of the nodes.
    #[arg(long, value_delimiter = ',', required = true)]
    pub nodes: Vec<String>,
    #[arg(long, default_value_t = 1)]
    pub clients: usize,
    /// How long to measure.
    #[arg(long, default_value_t = 1.0)]
    pub seconds: f64,
    /// How long to do the same before that, without measuring.
    #[arg(long, default_value_t = 0.0)]
    pub warmup: f64,
    #[arg(long, value_enum, default_value = "own")]
    pub workload: Workload,
    /// How many names are taken together, in `names`; how many all clients have, in `many`.
    #[arg(long, default_value_t = 1)]
    pub names: usize,
    /// How many slots a semaphore has, in `permits-own` and `permits-one`.
    #[arg(long, default_value_t = 1)]
    pub slots: u32,
    /// How long the owner and the reason are that are stored with a lock, both together.
    #[arg(long, default_value_t = 0)]
    pub label_bytes: usize,
    /// How long a lock is held.
    #[arg(long, default_value_t = 0)]
    pub hold_us: u64,
    /// What names start with.
    #[arg(long, default_value = "p")]
    pub prefix: String,
    #[arg(long, default_value_t = 10_000)]
    pub ttl_ms: u64,
    /// How long one node may take to answer, where the library lets us say so. Without it: the library's default.
    #[arg(long)]
    pub node_timeout_ms: Option<u64>,
    /// A file that the holder of the lock signs, so that handoffs are counted.
    #[arg(long)]
    pub ledger: Option<PathBuf>,
}

impl Order {
    /// The flags that give this order.
    pub fn flags(&self) -> Vec<String> {
        let workload = match self.workload {
            Workload::Own => "own",
            Workload::One => "one",
            Workload::Many => "many",
            Workload::Held => "held",
            Workload::SharedOwn => "shared-own",
            Workload::SharedOne => "shared-one",
            Workload::Names => "names",
            Workload::PermitsOwn => "permits-own",
            Workload::PermitsOne => "permits-one",
        };
        let mut flags = vec![
            ("--nodes", self.nodes.join(",")),
            ("--clients", self.clients.to_string()),
            ("--seconds", self.seconds.to_string()),
            ("--warmup", self.warmup.to_string()),
            ("--workload", workload.to_owned()),
            ("--hold-us", self.hold_us.to_string()),
            ("--prefix", self.prefix.clone()),
            ("--ttl-ms", self.ttl_ms.to_string()),
        ];
        // Contestants of other languages, and of earlier commits, know only what they take part in.
        let has_names = matches!(self.workload, Workload::Names | Workload::Many);
        flags.extend(has_names.then(|| ("--names", self.names.to_string())));
        let is_semaphore = matches!(self.workload, Workload::PermitsOwn | Workload::PermitsOne);
        flags.extend(is_semaphore.then(|| ("--slots", self.slots.to_string())));
        flags.extend((self.label_bytes > 0).then(|| ("--label-bytes", self.label_bytes.to_string())));
        flags.extend(self.node_timeout_ms.map(|limit| ("--node-timeout-ms", limit.to_string())));
        flags.extend(self.ledger.as_ref().map(|file| ("--ledger", file.display().to_string())));
        flags.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]).collect()
    }

    /// The name that `client` takes.
    pub fn name(&self, client: usize) -> String {
        match self.workload.is_one_name() {
            true => self.prefix.clone(),
            false => format!("{}:{client}", self.prefix),
        }
    }

    /// How many names each client takes in turn.
    pub fn turns(&self) -> usize {
        match self.workload {
            Workload::Many => (self.names / self.clients.max(1)).max(1),
            _ => 1,
        }
    }

    /// The name that `client` takes in its turn `turn`. Neighbouring turns have distant names.
    pub fn name_in_turn(&self, client: usize, turn: usize) -> String {
        /// Shares no factor with a power of ten, so that each name comes once before one comes again.
        const STRIDE: usize = 7919;
        let turns = self.turns();
        self.name(client + self.clients * ((turn % turns) * STRIDE % turns))
    }

    pub fn hold(&self) -> Duration {
        Duration::from_micros(self.hold_us)
    }

    pub fn ttl(&self) -> Duration {
        Duration::from_millis(self.ttl_ms)
    }
}

/// What a contestant answers.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Outcome {
    pub version: String,
    /// How long was measured.
    pub seconds: f64,
    /// Cycles of acquire and release that ended within that time.
    pub cycles: u64,
    /// Those of them where another client had the lock before; counted only with a ledger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handoffs: Option<u64>,
    /// Acquires that the library gave up and that were asked for again, or locks that were lost.
    pub failed: u64,
    /// Cycles of the client with the fewest.
    pub least: u64,
    /// Cycles of the client with the most.
    pub most: u64,
    /// CPU of the process within the time, user and system.
    pub cpu_us: u64,
    /// Waits from the first call to success, also those that began within the time and ended after it.
    pub acquire: Histogram,
    /// Allocations within the time, where they are counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocs: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[derive(clap::Parser)]
    struct Command {
        #[command(flatten)]
        order: Order,
    }

    #[test]
    fn each_name_comes_once_before_one_comes_again() {
        let flags = "x --nodes n --workload many --clients 10 --names 1000".split(' ');
        let order = <Command as clap::Parser>::parse_from(flags).order;
        let turn = |turn| (0..10).map(move |client| (client, turn));
        let names = |turns: std::ops::Range<usize>| -> HashSet<String> {
            turns.flat_map(turn).map(|(client, turn)| order.name_in_turn(client, turn)).collect()
        };
        assert_eq!(order.turns(), 100);
        assert_eq!(names(0..100).len(), 1000);
        assert_eq!(names(100..200), names(0..100));
    }
}
