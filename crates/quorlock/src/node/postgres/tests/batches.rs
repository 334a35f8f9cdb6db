//! Commands for many names at once.

use super::*;
use crate::node::{Denied, Done};
use std::collections::BTreeMap;
use tokio::task::JoinSet;

/// Executes all `commands` at once, and returns their results by name.
async fn execute_all(
    engine: &Arc<Postgres>,
    commands: impl IntoIterator<Item = Command>,
) -> BTreeMap<Name, Result<Reply, Failure>> {
    let mut tasks = JoinSet::new();
    for command in commands {
        let engine = engine.clone();
        tasks.spawn(async move { (command.name().clone(), engine.execute(&command).await) });
    }
    tasks.join_all().await.into_iter().collect()
}

fn names(prefix: &str, count: u8) -> impl Iterator<Item = String> + '_ {
    (0..count).map(move |number| format!("{prefix}{number:03}"))
}

fn acquires(prefix: &str, count: u8, holder: u8, proposal: u64) -> Vec<Command> {
    names(prefix, count).map(|name| acquire(&name, holder, proposal, TTL, false)).collect()
}

fn assert_all_done(results: &BTreeMap<Name, Result<Reply, Failure>>) {
    for (name, result) in results {
        assert!(matches!(result, Ok(Reply::Done(_))), "{name}: {result:?}");
    }
}

async fn fresh_engine(server: &Server) -> Arc<Postgres> {
    fresh_node(&server.url()).await;
    Arc::new(bare(&server.url(), SOON))
}

/// How many transactions have changed something.
fn transactions(server: &Server) -> u64 {
    server.sql("SELECT txid_current()").parse().unwrap()
}

/// Goal: many commands at once are few transactions, and each gets its own answer.
#[tokio::test]
async fn commands_for_many_names_go_together_and_are_answered_apart() {
    let server = server_or_skip!();
    let engine = fresh_engine(&server).await;
    assert_all_done(&execute_all(&engine, [acquire("n007", 2, 4, TTL, false)]).await);
    let before = transactions(&server);
    for proposal in [5, 7] {
        let found = execute_all(&engine, acquires("n", 250, 1, proposal)).await;
        for (name, result) in found {
            match name.as_str() {
                "n007" => assert!(matches!(result, Ok(Reply::Denied(Denied::Taken))), "{result:?}"),
                _ => assert!(matches!(result, Ok(Reply::Done(Done::Raised))), "{name}: {result:?}"),
            }
        }
        let found = execute_all(&engine, names("n", 250).map(|name| extend(&name, 1, TTL, false))).await;
        let is_done = |result: &Result<_, _>| matches!(result, Ok(Reply::Done(_)));
        assert_eq!(found.values().filter(|result| is_done(result)).count(), 249);
        let found = execute_all(&engine, names("n", 250).map(|name| release(&name, 1))).await;
        assert!(matches!(found[&name("n007")], Ok(Reply::Denied(Denied::Taken))));
        assert_eq!(found.values().filter(|result| is_done(result)).count(), 249);
    }
    let used = transactions(&server) - before;
    assert!(used < 40, "{used} transactions for 1500 commands");
    assert_eq!(server.sql("SELECT counter FROM quorlock.lock WHERE name = 'n100'"), "7");
}

/// Goal: a release, which does not wait for the disk, never makes an acquire forgettable that runs at the same
/// time.
#[tokio::test]
async fn acquires_wait_for_the_disk_while_other_names_are_released() {
    if !Server::is_here() {
        return eprintln!("skipped: no PostgreSQL here: apt-get install postgresql");
    }
    let mut server = Server::start_set(&["wal_writer_delay=10s"]);
    for round in 1..4 {
        let engine = fresh_engine(&server).await;
        // Both kinds find a row, and the releases come last by name.
        let (held, freed) = (format!("a{round}."), format!("b{round}."));
        for prefix in [&held, &freed] {
            assert_all_done(&execute_all(&engine, acquires(prefix, 30, 1, 5)).await);
        }
        assert_all_done(&execute_all(&engine, names(&held, 30).map(|name| release(&name, 1))).await);
        let releases = names(&freed, 30).map(|name| release(&name, 1));
        let both = acquires(&held, 30, 2, 6).into_iter().chain(releases);
        assert_all_done(&execute_all(&engine, both).await);
        server.restart();
        let kept = format!("SELECT count(*) FROM quorlock.lock WHERE name LIKE '{held}%' AND fence = 6");
        assert_eq!(server.sql(&kept), "30", "round {round}");
    }
}

/// Goal: names that another transaction keeps do not keep the others waiting.
#[tokio::test]
async fn a_name_that_has_to_wait_does_not_delay_the_others() {
    let server = server_or_skip!();
    let engine = fresh_engine(&server).await;
    assert_all_done(&execute_all(&engine, acquires("n", 20, 1, 50)).await);
    assert_all_done(&execute_all(&engine, names("n", 20).map(|name| release(&name, 1))).await);
    for kept in [
        "SELECT quorlock.quorlock_check('n010', (SELECT counter FROM quorlock.lock WHERE name = 'n010'))",
        "SELECT FROM quorlock.lock WHERE name = 'n010' FOR UPDATE",
    ] {
        let mut transaction = Transaction::begin(&server);
        transaction.run(kept);
        let proposal = transactions(&server) + 100;
        let mut tasks = JoinSet::new();
        for command in acquires("n", 20, 2, proposal) {
            let engine = engine.clone();
            tasks.spawn(async move { (command.name().clone(), engine.execute(&command).await) });
        }
        for _ in 1..20 {
            let (name, result) = tasks.join_next().await.unwrap().unwrap();
            assert!(name.as_str() != "n010" && matches!(result, Ok(Reply::Done(_))), "{name}: {result:?}");
        }
        until("it waits", SOON, async || {
            server.sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'") == "1"
        })
        .await;
        transaction.run("COMMIT");
        let (name, result) = tasks.join_next().await.unwrap().unwrap();
        assert!(name.as_str() == "n010" && matches!(result, Ok(Reply::Done(_))), "{name}: {result:?}");
        assert_all_done(&execute_all(&engine, names("n", 20).map(|name| release(&name, 2))).await);
    }
}

/// Goal: a command that the server refuses with an error does not take the others along.
#[tokio::test]
async fn an_error_for_one_name_does_not_concern_the_others() {
    let server = server_or_skip!();
    let engine = fresh_engine(&server).await;
    assert_all_done(&execute_all(&engine, acquires("n", 20, 1, 5)).await);
    server.sql("UPDATE quorlock.lock SET readers = '{\"t\": {\"ends\": \"never\"}}' WHERE name = 'n010'");
    let found = execute_all(&engine, names("n", 20).map(|name| extend(&name, 1, 2 * TTL, false))).await;
    for (name, result) in found {
        match name.as_str() {
            "n010" => assert!(matches!(result, Err(Failure::Unsent(_))), "{result:?}"),
            _ => assert!(matches!(result, Ok(Reply::Done(_))), "{name}: {result:?}"),
        }
    }
    let longer = "SELECT count(*) FROM quorlock.lock WHERE ends > clock_timestamp() + interval '11 s'";
    assert_eq!(server.sql(longer), "19");
}

/// Goal: S8 for all of them, if an answer is lost.
#[tokio::test]
async fn acquires_whose_common_answer_was_lost_are_all_undone() {
    let server = server_or_skip!();
    fresh_node(&server.url()).await;
    let proxy = Proxy::start(server.port()).await;
    let engine = Arc::new(bare(&server.url_at(proxy.port()), Duration::from_millis(200)));
    until("it is connected", SOON, async || {
        let found = execute_all(&engine, acquires("n", 20, 9, 1)).await;
        found.values().all(|result| matches!(result, Ok(Reply::Done(_) | Reply::Denied(_))))
    })
    .await;
    until("they are released", SOON, async || {
        execute_all(&engine, names("n", 20).map(|name| release(&name, 9))).await;
        server.sql("SELECT count(*) FROM quorlock.lock WHERE ends > clock_timestamp()") == "0"
    })
    .await;
    proxy.set(proxy::Fault::SwallowReplies).await;
    for (name, result) in execute_all(&engine, acquires("n", 20, 1, 5)).await {
        assert!(matches!(result, Err(Failure::Unknown(_))), "{name}: {result:?}");
    }
    proxy.set(proxy::Fault::Pass).await;
    for name in names("n", 20) {
        until("it is undone", SOON, async || engine.undo(&release(&name, 1)).await.is_ok()).await;
    }
    assert_eq!(server.sql("SELECT count(*) FROM quorlock.lock WHERE ends > clock_timestamp()"), "0");
    assert_eq!(server.sql("SELECT count(*) FROM quorlock.undone"), "20");
}

/// Goal: two clients that want many of the same names at once do not deadlock, and one of them gets each.
#[tokio::test]
async fn one_of_two_clients_gets_each_of_many_names() {
    let server = server_or_skip!();
    let (one, other) = (fresh_engine(&server).await, Arc::new(bare(&server.url(), SOON)));
    for (round, proposal) in (5..15).enumerate() {
        let (up, down) = (acquires("n", 60, 1, proposal), acquires("n", 60, 2, proposal));
        let (first, second) =
            tokio::join!(execute_all(&one, up), execute_all(&other, down.into_iter().rev()));
        for (name, result) in &first {
            let granted = [result, &second[name]].map(|result| matches!(result, Ok(Reply::Done(_))));
            assert_ne!(granted[0], granted[1], "{name}: {result:?} and {:?}", second[name]);
        }
        for (engine, holder) in [(&one, 1), (&other, 2)] {
            execute_all(engine, names("n", 60).map(|name| release(&name, holder))).await;
        }
        let held = server.sql("SELECT count(*) FROM quorlock.lock WHERE ends > clock_timestamp()");
        assert_eq!(held, "0", "round {round}");
    }
}

#[tokio::test]
async fn pgbouncer_passes_on_commands_that_go_together() {
    if !PgBouncer::is_here() {
        return eprintln!("skipped: no PgBouncer here: apt-get install pgbouncer postgresql");
    }
    let server = Server::start();
    fresh_node(&server.url()).await;
    for mode in ["transaction", "statement"] {
        let bouncer = PgBouncer::start(&server, mode);
        let engine = Arc::new(bare(&server.url_at(bouncer.port()), SOON));
        let before = transactions(&server);
        assert_all_done(&execute_all(&engine, acquires(mode, 100, 1, 5)).await);
        assert_all_done(&execute_all(&engine, names(mode, 100).map(|name| release(&name, 1))).await);
        let used = transactions(&server) - before;
        assert!(used < 20, "{used} transactions");
        assert_eq!(server.sql("SHOW lock_timeout"), "0");
    }
}
