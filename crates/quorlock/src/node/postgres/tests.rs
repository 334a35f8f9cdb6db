//! The PostgreSQL node on real servers.

use super::*;
use crate::node::contract::{
    Losers, TTL, Unraised, acquire, ask, contract_without_time, extend, inspect, name, release, stamp,
};
use crate::node::contract_modes::{downgrade, leave, share, upgrade};
use crate::node::url::Place;
use crate::node::{Node, NodeUrl, open as open_node};
use quorlock_testkit::{PgBouncer, Postgres as Server, Proxy, proxy, until};
use std::time::Duration;

/// How long a loaded machine may take for something that takes a moment.
const SOON: Duration = Duration::from_secs(60);

/// Returns from the test, by name, where no server is installed.
macro_rules! server_or_skip {
    () => {{
        if !Server::is_here() {
            return eprintln!("skipped: no PostgreSQL here: apt-get install postgresql");
        }
        Server::start()
    }};
}

mod batches;

fn context(node_timeout: Duration) -> Context {
    Context { node_timeout, connect_timeout: Duration::from_secs(10), ..Context::default() }
}

fn node(url: &str) -> Arc<dyn Node> {
    open_node(&url.parse().unwrap(), &context(SOON)).unwrap()
}

async fn fresh_node(url: &str) -> Arc<dyn Node> {
    let node = node(url);
    node.init().await.unwrap();
    node
}

/// The engine without the core.
fn bare(url: &str, node_timeout: Duration) -> Postgres {
    let Place::Database(database) = url.parse::<NodeUrl>().unwrap().place else { panic!("{url}") };
    engine(&database, &context(node_timeout)).unwrap()
}

fn with_ttl(command: Command, ttl: Duration) -> Command {
    let Command::Acquire(acquire) = command else { panic!("no acquire") };
    Command::Acquire(crate::node::Acquire { ttl, ..acquire })
}

#[tokio::test]
async fn the_postgres_node_keeps_the_contract() {
    let server = server_or_skip!();
    contract_without_time(&fresh_node(&server.url()).await, Losers::LeaveIt, Unraised::WithCounter).await;
}

#[tokio::test]
async fn extending_never_shortens_and_time_ends_a_hold() {
    let server = server_or_skip!();
    let node = fresh_node(&server.url()).await;
    ask(&node, &acquire("timed", 1, 5, TTL, false)).await;
    assert_eq!(ask(&node, &extend("timed", 1, TTL / 2, false)).await, "done");
    assert_eq!(inspect(&node, "timed").await, "ann1@web fence 5 left 10 counter 5");
    server.sql("UPDATE quorlock.lock SET ends = clock_timestamp() WHERE name = 'timed'");
    assert_eq!(inspect(&node, "timed").await, "free, counter 5");
    for command in [extend("timed", 1, TTL, false), release("timed", 1), stamp("timed", 1, 9)] {
        assert_eq!(ask(&node, &command).await, "gone");
    }
    assert_eq!(ask(&node, &acquire("timed", 2, 7, TTL, false)).await, "raised");
    assert_eq!(ask(&node, &release("timed", 1)).await, "taken");
    let short = with_ttl(acquire("short", 1, 5, TTL, false), Duration::from_millis(1));
    ask(&node, &short).await;
    until("its time is over", SOON, async || inspect(&node, "short").await == "free, counter 5").await;
}

#[tokio::test]
async fn each_shared_holder_has_an_end_of_its_own() {
    let server = server_or_skip!();
    let node = fresh_node(&server.url()).await;
    ask(&node, &with_ttl(share("ends", 1, 50), Duration::from_millis(1))).await;
    ask(&node, &share("ends", 2, 60)).await;
    until("the first has ended", SOON, async || {
        inspect(&node, "ends").await == "shared by ann2@web fence 60 counter 60"
    })
    .await;
    assert_eq!(ask(&node, &upgrade("ends", 2, 70)).await, "raised", "the dead reader is no obstacle");
}

/// Goal: an upgrade that the network delays does not make a reader exclusive again.
#[tokio::test]
async fn an_upgrade_that_arrives_after_its_downgrade_is_refused() {
    let server = server_or_skip!();
    let node = fresh_node(&server.url()).await;
    ask(&node, &share("late", 1, 50)).await;
    assert_eq!(ask(&node, &downgrade("late", 1, (50, 60))).await, "done");
    assert_eq!(ask(&node, &upgrade("late", 1, 60)).await, "taken");
    assert_eq!(ask(&node, &share("late", 2, 65)).await, "raised", "it is shared");
    ask(&node, &leave("late", 2)).await;
    assert_eq!(ask(&node, &upgrade("late", 1, 70)).await, "raised", "a later one is allowed");
    ask(&node, &leave("late", 1)).await;
    assert_ne!(ask(&node, &upgrade("late", 1, 80)).await, "raised", "it holds nothing");
}

/// Goal: S8. The acquire arrives only after its release, as it does if the network delays it.
#[tokio::test]
async fn an_acquire_that_arrives_after_it_was_undone_takes_nothing() {
    let server = server_or_skip!();
    fresh_node(&server.url()).await;
    let engine = bare(&server.url(), SOON);
    for late in [acquire("late", 1, 5, TTL, false), share("late", 1, 5)] {
        engine.undo(&release("late", 1)).await.unwrap();
        let reply = engine.execute(&late).await.unwrap();
        assert!(matches!(reply, Reply::Denied(_)), "{reply:?}");
    }
    let next = engine.execute(&acquire("late", 2, 6, TTL, false)).await.unwrap();
    assert!(matches!(next, Reply::Done(_)), "{next:?}");
    assert_eq!(server.sql("SELECT count(*) FROM quorlock.undone"), "1");
}

/// Goal: S8 with a real network: the answer is lost, the request is not.
#[tokio::test]
async fn an_acquire_whose_answer_was_lost_is_undone() {
    let server = server_or_skip!();
    fresh_node(&server.url()).await;
    let proxy = Proxy::start(server.port()).await;
    let url = server.url_at(proxy.port());
    let node = open_node(&url.parse().unwrap(), &context(Duration::from_millis(300))).unwrap();
    until("it is connected", SOON, async || {
        ask(&node, &acquire("lost", 9, 1, TTL, false)).await;
        ask(&node, &release("lost", 9)).await == "done"
    })
    .await;
    proxy.set(proxy::Fault::SwallowReplies).await;
    let reply = ask(&node, &acquire("lost", 1, 5, TTL, false)).await;
    assert!(reply.starts_with("failed"), "{reply}");
    proxy.set(proxy::Fault::Pass).await;
    until("it is released", SOON, async || {
        ask(&node, &release("lost", 1)).await;
        let held = server.sql("SELECT count(*) FROM quorlock.lock WHERE ends > clock_timestamp()");
        held == "0" && server.sql("SELECT count(*) FROM quorlock.undone") == "1"
    })
    .await;
}

/// Goal: a holder's own transaction keeps the next holder out, and does not keep the holder from extending.
#[tokio::test]
async fn a_checked_fence_keeps_others_out_until_the_transaction_ends() {
    let server = server_or_skip!();
    let node = fresh_node(&server.url()).await;
    ask(&node, &acquire("fenced", 1, 50, TTL, false)).await;
    let mut transaction = Transaction::begin(&server);
    transaction.run("SELECT quorlock.quorlock_check('fenced', 50)");
    assert_eq!(ask(&node, &extend("fenced", 1, 2 * TTL, false)).await, "done");
    assert_eq!(ask(&node, &acquire("fenced", 2, 60, TTL, false)).await, "taken");
    // Its lease is over, but not its transaction.
    assert_eq!(ask(&node, &release("fenced", 1)).await, "done");
    let impatient = bare(&server.url(), Duration::from_millis(200));
    let reply = impatient.execute(&acquire("fenced", 2, 60, TTL, false)).await.unwrap();
    assert!(matches!(reply, Reply::Denied(_)), "{reply:?}");
    let waiting = tokio::spawn({
        let node = node.clone();
        async move { ask(&node, &acquire("fenced", 3, 70, TTL, false)).await }
    });
    until("it waits for the row", SOON, async || {
        server.sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'") == "1"
    })
    .await;
    transaction.run("COMMIT");
    assert_eq!(waiting.await.unwrap(), "raised");
    let refused = server.try_sql("SELECT quorlock.quorlock_check('fenced', 50)").unwrap_err();
    assert!(refused.contains("outdated: 70 was handed out"), "{refused}");
    server.sql("SELECT quorlock.quorlock_check('fenced', 70)");
    let unknown = server.try_sql("SELECT quorlock.quorlock_check('other', 1)").unwrap_err();
    assert!(unknown.contains("no lock"), "{unknown}");
}

/// A transaction of a user, in a `psql` of its own.
struct Transaction {
    psql: std::process::Child,
    said: std::io::Lines<std::io::BufReader<std::process::ChildStdout>>,
}

impl Transaction {
    fn begin(server: &Server) -> Self {
        use std::io::BufRead;
        use std::process::Stdio;
        let mut psql = server.psql().stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let said = std::io::BufReader::new(psql.stdout.take().unwrap()).lines();
        let mut transaction = Self { psql, said };
        transaction.run("BEGIN");
        transaction
    }

    /// Executes a statement, and waits until it is done.
    fn run(&mut self, statement: &str) {
        use std::io::Write;
        writeln!(self.psql.stdin.as_mut().unwrap(), "{statement};\n\\echo done").unwrap();
        while self.said.next().unwrap().unwrap() != "done" {}
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        drop(self.psql.stdin.take());
        let _ = self.psql.wait();
    }
}

#[tokio::test]
async fn a_database_that_was_not_prepared_says_what_to_do() {
    let server = server_or_skip!();
    let node = node(&format!("{}?schema=my%20locks", server.url()));
    let reply = ask(&node, &acquire("a", 1, 5, TTL, false)).await;
    assert!(reply.contains("run `quorlock init`"), "{reply}");
    node.init().await.unwrap();
    node.init().await.unwrap();
    assert_eq!(ask(&node, &acquire("a'\\", 1, 5, TTL, false)).await, "raised");
    assert_eq!(inspect(&node, "a'\\").await, "ann1@web fence 5 left 10 counter 5");
    server.sql("UPDATE \"my locks\".memory SET version = 0");
    let old = bare(&format!("{}?schema=my%20locks", server.url()), SOON);
    let refused = old.execute(&release("a", 1)).await.unwrap_err();
    assert!(refused.error().to_string().contains("too old"), "{refused:?}");
}

#[tokio::test]
async fn a_server_that_does_not_sync_is_refused() {
    if !Server::is_here() {
        return eprintln!("skipped: no PostgreSQL here: apt-get install postgresql");
    }
    for (setting, text) in [("fsync=off", "`fsync` is `off`"), ("full_page_writes=off", "full_page_writes")] {
        let server = Server::start_set(&[setting]);
        let refused = node(&server.url()).init().await.unwrap_err();
        assert!(refused.to_string().contains(text), "{refused}");
    }
}

/// Goal: an acquire is durable although the sessions of this user are not.
#[tokio::test]
async fn an_acquire_waits_for_the_disk_whatever_the_session_is_set_to() {
    if !Server::is_here() {
        return eprintln!("skipped: no PostgreSQL here: apt-get install postgresql");
    }
    let mut server = Server::start_set(&["synchronous_commit=off", "wal_writer_delay=10s"]);
    let node = fresh_node(&server.url()).await;
    for holder in 1..20 {
        let name = format!("kept{holder}");
        assert_eq!(ask(&node, &acquire(&name, holder, 5, TTL, false)).await, "raised");
        if holder % 5 == 0 {
            server.restart();
            let next = bare(&server.url(), SOON);
            let refused = next.execute(&acquire(&name, 99, 6, TTL, false)).await.unwrap();
            assert!(matches!(refused, Reply::Denied(_)), "{refused:?}");
            until("it is connected again", SOON, async || inspect(&node, "x").await.starts_with("free"))
                .await;
        }
    }
}

/// Goal: a standby that took over may have forgotten locks, and does not vote until they are over.
#[tokio::test]
async fn a_standby_is_refused_and_quarantined_after_its_promotion() {
    let server = server_or_skip!();
    let node = fresh_node(&server.url()).await;
    ask(&node, &acquire("held", 1, 50, TTL, false)).await;
    let standby = server.start_standby();
    server.await_standby(&standby);
    let only_standby = bare(&standby.url(), SOON);
    let refused = only_standby.execute(&acquire("a", 1, 5, TTL, false)).await.unwrap_err();
    assert!(matches!(refused.error(), NodeError::Standby), "{refused:?}");
    let both =
        format!("postgres://postgres@127.0.0.1:{},127.0.0.1:{}/postgres", standby.port(), server.port());
    let found = bare(&both, SOON).execute(&acquire("both", 1, 5, TTL, false)).await.unwrap();
    assert!(matches!(found, Reply::Done(_)), "the primary is found: {found:?}");
    standby.promote();
    for late in [acquire("new", 1, 60, TTL, false), share("new", 1, 60)] {
        let refused = bare(&standby.url(), SOON).execute(&late).await.unwrap_err();
        assert!(matches!(refused.error(), NodeError::Quarantined { left } if *left > TTL), "{refused:?}");
        assert!(matches!(refused, Failure::Unsent(_)));
    }
    let extended = bare(&standby.url(), SOON).execute(&extend("held", 1, TTL, false)).await.unwrap();
    assert!(matches!(extended, Reply::Done(_)), "a holder goes on: {extended:?}");
    let declared = bare(&format!("{}?durable=yes", standby.url()), SOON);
    let reply = declared.execute(&acquire("declared", 1, 60, TTL, false)).await.unwrap();
    assert!(matches!(reply, Reply::Done(_)), "{reply:?}");
    standby.sql("UPDATE quorlock.memory SET changed = changed - interval '1 hour'");
    let after = bare(&standby.url(), SOON);
    let reply = after.execute(&acquire("new", 1, 60, TTL, false)).await.unwrap();
    assert!(matches!(reply, Reply::Done(_)), "{reply:?}");
    assert_eq!(standby.sql("SELECT changed IS NULL FROM quorlock.memory"), "t");
}

#[tokio::test]
async fn a_ttl_above_the_record_is_refused_until_it_is_raised() {
    let server = server_or_skip!();
    let node = fresh_node(&server.url()).await;
    let long = with_ttl(acquire("long", 1, 5, TTL, false), Duration::from_secs(60));
    assert!(ask(&node, &long).await.contains("above the longest ttl that it has recorded, 30s"));
    node.raise_longest_ttl(Duration::from_secs(60)).await.unwrap();
    assert_eq!(ask(&node, &long).await, "raised");
}

#[tokio::test]
async fn names_that_were_idle_for_two_weeks_are_removed() {
    let server = server_or_skip!();
    let node = fresh_node(&server.url()).await;
    for (name, holder) in [("old", 1), ("young", 2), ("held", 3)] {
        ask(&node, &acquire(name, holder, 5, TTL, false)).await;
    }
    ask(&node, &release("old", 1)).await;
    ask(&node, &release("young", 2)).await;
    server.sql("UPDATE quorlock.lock SET used = used - interval '15 days' WHERE name <> 'young'");
    assert_eq!(server.sql("SELECT quorlock.sweep()"), "0", "it was done lately");
    server.sql("UPDATE quorlock.memory SET swept = swept - interval '2 hours'");
    assert_eq!(server.sql("SELECT quorlock.sweep()"), "1");
    assert_eq!(inspect(&node, "old").await, "free, counter none");
    assert_eq!(inspect(&node, "young").await, "free, counter 5");
    let known: Vec<_> = node.names().await.unwrap().known;
    assert_eq!(known, [name("held")]);
}

/// Goal: through a pooler, each statement may use another session, and nothing but hints is missing.
#[tokio::test]
async fn pgbouncer_in_every_mode_keeps_the_rules() {
    if !PgBouncer::is_here() {
        return eprintln!("skipped: no PgBouncer here: apt-get install pgbouncer postgresql");
    }
    let server = Server::start();
    fresh_node(&server.url()).await;
    for mode in ["transaction", "statement", "session"] {
        let bouncer = PgBouncer::start(&server, mode);
        let node = fresh_node(&server.url_at(bouncer.port())).await;
        let name = format!("in {mode}");
        assert_eq!(ask(&node, &acquire(&name, 1, 50, TTL, false)).await, "raised");
        assert_eq!(ask(&node, &acquire(&name, 2, 60, TTL, false)).await, "taken");
        assert_eq!(ask(&node, &extend(&name, 1, TTL, false)).await, "done");
        assert_eq!(ask(&node, &release(&name, 1)).await, "done");
        let Facts::Database(facts) = node.examine().await.unwrap() else { panic!("no database") };
        assert!(facts.is_pooled, "{mode}");
    }
}

#[tokio::test]
async fn duplicated_requests_are_noticed() {
    let server = server_or_skip!();
    fresh_node(&server.url()).await;
    let proxy = Proxy::start(server.port()).await;
    let engine = bare(&server.url_at(proxy.port()), Duration::from_secs(1));
    // The first release also sweeps, on a connection of its own.
    engine.execute(&acquire("a", 9, 4, TTL, false)).await.unwrap();
    engine.execute(&release("a", 9)).await.unwrap();
    engine.execute(&acquire("a", 1, 5, TTL, false)).await.unwrap();
    proxy.set(proxy::Fault::DuplicateRequests).await;
    let first = engine.execute(&release("a", 1)).await;
    assert!(matches!(first, Ok(Reply::Done(_))), "{first:?}");
    for holder in 2..6 {
        // Its answer, or none: never that to the request before.
        match engine.execute(&acquire("b", holder, 5, TTL, false)).await {
            Ok(Reply::Done(_)) => assert_eq!(holder, 2),
            Ok(Reply::Denied(_)) => assert!(holder > 2),
            Err(_) => {}
            other => panic!("{other:?}"),
        }
    }
}
