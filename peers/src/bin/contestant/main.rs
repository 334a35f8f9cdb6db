//! The contestants that are written in Rust, one subcommand each.

mod drive;
mod empty_server;
mod floor;
mod http_client;
mod ledger;
mod mutex;
mod quorlock_lock;
mod quorlock_primitives;
mod redis_crate;
mod rslock_lock;
mod sidecar;
mod usage;
mod versions;

use anyhow::Result;
use clap::Parser;
use peers::protocol::{Order, Outcome, Workload};
use sidecar::Server;
use std::future::Future;
use std::io::{self, Write};

#[global_allocator]
static ALLOCATOR: usage::Counting = usage::Counting;

#[derive(Parser)]
enum Contestant {
    /// quorlock as it comes: fence and restart guard.
    Quorlock(Order),
    /// quorlock without fence and restart guard.
    QuorlockPlain(Order),
    /// quorlock through its sidecar, over a unix socket.
    QuorlockServe(Order),
    /// The exchanges of `quorlock-serve` with a server that answers at once, without a lock.
    FloorHttp(Order),
    /// That server.
    EmptyServer(empty_server::Where),
    /// The rslock crate.
    Rslock(Order),
    /// A plain Redlock on the redis crate, without retries.
    RedisCrate(Order),
    /// Blocking sockets: one batch of all clients per round trip, releases merged into one script call.
    Floor(Order),
    /// The same with a script call for each release.
    FloorSplit(Order),
    /// The same, where a majority of answers is enough.
    FloorQuorum(Order),
    /// Blocking sockets that send the votes of quorlock, with fence and restart guard, and wait for a majority.
    FloorFenced(Order),
    /// The same in one task of tokio.
    FloorAsync(Order),
    /// A mutex in memory, without any server.
    Mutex(Order),
    /// Marks the nodes as fresh, so that quorlock lets them vote at once.
    InitNodes(Order),
}

fn main() -> Result<()> {
    match Contestant::parse() {
        Contestant::Quorlock(order) => on_tokio(quorlock_lock::run(order, quorlock_lock::Mode::Default)),
        Contestant::QuorlockPlain(order) => on_tokio(quorlock_lock::run(order, quorlock_lock::Mode::Plain)),
        Contestant::QuorlockServe(order) => on_tokio(sidecar::run(order, Server::Sidecar)),
        Contestant::FloorHttp(order) => on_tokio(sidecar::run(order, Server::Empty)),
        Contestant::EmptyServer(at) => on_tokio(empty_server::run(at)),
        Contestant::Rslock(order) => on_tokio(rslock_lock::run(order)),
        Contestant::RedisCrate(order) => on_tokio(redis_crate::run(order)),
        Contestant::Floor(order) => on_tokio(floor::run(order, floor::Kind::Merged)),
        Contestant::FloorSplit(order) => on_tokio(floor::run(order, floor::Kind::Split)),
        Contestant::FloorQuorum(order) => on_tokio(floor::run(order, floor::Kind::Quorum)),
        Contestant::FloorFenced(order) => on_tokio(floor::run(order, floor::Kind::Fenced)),
        Contestant::FloorAsync(order) => on_tokio(floor::run(order, floor::Kind::Async)),
        Contestant::Mutex(order) => on_tokio(mutex::run(order)),
        Contestant::InitNodes(order) => on_tokio(quorlock_lock::init(order)),
    }
}

/// What `#[tokio::main]` gives, or one thread if the environment says `PEERS_RUNTIME=ct`.
fn on_tokio(contest: impl Future<Output = Result<()>>) -> Result<()> {
    let mut builder = match std::env::var("PEERS_RUNTIME").as_deref() {
        Ok("ct") => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    builder.enable_all().build()?.block_on(contest)
}

/// Says that all is prepared and waits for the word to begin.
fn told() -> Result<()> {
    println!("ready");
    io::stdin().read_line(&mut String::new())?;
    Ok(())
}

fn answer(outcome: &Outcome) -> Result<()> {
    println!("{}", serde_json::to_string(outcome)?);
    io::stdout().flush()?;
    // Tasks that still run have nothing more to report.
    std::process::exit(0)
}

fn refuse_others(order: &Order) -> Result<()> {
    let has_it = matches!(order.workload, Workload::Own | Workload::One);
    anyhow::ensure!(has_it, "has no such lock, or keeps none alive");
    Ok(())
}
