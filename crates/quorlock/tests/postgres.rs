//! A PostgreSQL database as the one node of a locker: crashes, failovers, TLS, users, and what goes wrong.
#![allow(clippy::unwrap_used)]

use quorlock::node::Facts;
use quorlock::{AcquireError, Builder, Locker, ReleaseOutcome};
use quorlock_testkit::{Postgres, Proxy, init_nodes, proxy, until};
use std::time::{Duration, Instant};
use tokio::time::timeout;

const TTL: Duration = Duration::from_secs(6);
const SOON: Duration = Duration::from_secs(30);

macro_rules! skip_without_server {
    () => {
        if !Postgres::is_here() {
            return eprintln!("skipped: no PostgreSQL here: apt-get install postgresql");
        }
    };
}

fn builder(url: &str) -> Builder {
    let timeouts = (Duration::from_millis(500), Duration::from_secs(5));
    Locker::builder()
        .nodes([url])
        .ttl(TTL)
        .node_timeout(timeouts.0)
        .connect_timeout(timeouts.1)
        .wait_timeout(SOON)
}

fn locker(url: &str) -> Locker {
    builder(url).build().unwrap()
}

async fn fresh(url: &str) -> Locker {
    let locker = locker(url);
    init_nodes(&locker).await;
    locker
}

/// Waits until `locker` is refused the lock `name` for the reason `why`. It must never get it.
async fn is_refused(locker: &Locker, name: &str, why: &str) {
    // A loaded machine may be too slow to answer at first.
    until(why, SOON, async || {
        let refused = locker.named(name).unwrap().wait_timeout(Duration::from_secs(1)).acquire().await;
        let Err(AcquireError::NoQuorum { nodes, .. }) = &refused else { panic!("{why}: {refused:?}") };
        format!("{nodes:?}").contains(why)
    })
    .await;
}

#[tokio::test]
async fn a_lock_outlives_a_crash_of_the_server() {
    skip_without_server!();
    let mut server = Postgres::start();
    let (one, other) = (fresh(&server.url()).await, locker(&server.url()));
    let lock = one.named("kept").unwrap().ttl(Duration::from_secs(20));
    let guard = lock.acquire().await.unwrap();
    server.restart();
    let refused = other.named("kept").unwrap().try_acquire().await;
    assert!(matches!(refused, Err(AcquireError::Held { .. } | AcquireError::NoQuorum { .. })), "{refused:?}");
    let start = Instant::now();
    let kept = async || start.elapsed() > Duration::from_secs(21) && guard.is_held();
    until("the watchdog has extended it", SOON, kept).await;
    let fence = guard.fence();
    assert!(matches!(guard.release().await, ReleaseOutcome::Released));
    assert!(other.named("kept").unwrap().acquire().await.unwrap().fence() > fence);
}

#[tokio::test]
async fn a_server_that_stands_still_grants_nothing_and_a_held_lock_is_lost_in_time() {
    skip_without_server!();
    let server = Postgres::start();
    let locker = fresh(&server.url()).await;
    let guard = locker.named("lost").unwrap().acquire().await.unwrap();
    server.pause();
    let start = Instant::now();
    let refused = locker.named("other").unwrap().wait_timeout(Duration::from_secs(1)).acquire().await;
    assert!(matches!(refused, Err(AcquireError::NoQuorum { .. })), "{refused:?}");
    timeout(SOON, guard.lost()).await.unwrap();
    assert!(start.elapsed() < TTL, "before others can have it");
    server.resume();
    drop(guard);
    let free = async || locker.named("lost").unwrap().try_acquire().await.is_ok();
    until("it is free again", SOON, free).await;
}

/// Goal: S8. Requests arrive, answers do not; nothing stays behind.
#[tokio::test]
async fn nothing_stays_behind_after_answers_were_lost() {
    skip_without_server!();
    let server = Postgres::start();
    fresh(&server.url()).await;
    let proxy = Proxy::start(server.port()).await;
    let locker = builder(&server.url_at(proxy.port())).ttl(Duration::from_secs(30)).build().unwrap();
    drop(locker.named("first").unwrap().acquire().await.unwrap());
    for fault in [proxy::Fault::SwallowReplies, proxy::Fault::HoldReplies, proxy::Fault::Hold] {
        proxy.set(fault).await;
        let refused = locker.named("lost").unwrap().wait_timeout(Duration::from_secs(3)).acquire().await;
        assert!(refused.is_err(), "{refused:?}");
        proxy.set(proxy::Fault::Pass).await;
        until("nothing is held", SOON, async || {
            server.sql("SELECT count(*) FROM quorlock.lock WHERE ends > clock_timestamp()") == "0"
        })
        .await;
    }
    let guard = locker.named("lost").unwrap().acquire().await.unwrap();
    assert!(matches!(guard.release().await, ReleaseOutcome::Released));
}

#[tokio::test]
async fn a_waiter_is_woken_by_a_release() {
    skip_without_server!();
    let server = Postgres::start();
    let (one, other) = (fresh(&server.url()).await, locker(&server.url()));
    let guard = one.named("handed").unwrap().acquire().await.unwrap();
    let waiting = tokio::spawn(async move { other.named("handed").unwrap().acquire().await });
    until("it listens", SOON, async || {
        let awaited = "SELECT count(*) FROM quorlock.lock WHERE awaited_until > clock_timestamp()";
        server.sql(awaited) == "1"
    })
    .await;
    assert!(matches!(guard.release().await, ReleaseOutcome::Released));
    assert!(waiting.await.unwrap().is_ok());
}

#[tokio::test]
async fn a_user_with_the_rights_of_the_manual_locks_and_can_do_nothing_else() {
    skip_without_server!();
    let server = Postgres::start();
    let admin = fresh(&server.url()).await;
    let manual = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/engines-postgres.md");
    let manual = std::fs::read_to_string(manual).unwrap();
    let rights: Vec<&str> = manual.lines().filter(|line| line.ends_with("TO app;")).collect();
    assert_eq!(rights.len(), 2);
    server.sql(&format!("CREATE ROLE app LOGIN; {}", rights.concat()));
    let url = server.url().replace("postgres@", "app@");
    let app = locker(&url);
    let guard = app.named("allowed").unwrap().acquire().await.unwrap();
    let shared = app.named("shared").unwrap().shared().acquire().await.unwrap();
    assert!(matches!(guard.release().await, ReleaseOutcome::Released));
    assert!(matches!(shared.release().await, ReleaseOutcome::Released));
    let examined = app.examine().await;
    let Ok(Facts::Database(facts)) = &examined[0].found else { panic!("{examined:?}") };
    assert!(facts.refusal.is_none() && facts.schema_version == Some(1), "{facts:?}");
    for statement in [
        "SELECT * FROM quorlock.lock",
        "DELETE FROM quorlock.lock",
        "UPDATE quorlock.memory SET longest_ms = 1",
        "SELECT quorlock.leave('a', 'b', 'a', true, 0)",
    ] {
        let refused = server.try_sql(&format!("SET ROLE app; {statement}")).unwrap_err();
        assert!(refused.contains("permission denied"), "{statement}: {refused}");
    }
    server.sql("CREATE ROLE other LOGIN");
    is_refused(&locker(&url.replace("app@", "other@")), "a", "permission denied").await;
    drop(admin);
}

/// Goal: a user who makes an operator of his own does not run it with the rights of the owner.
#[tokio::test]
async fn a_search_path_of_the_user_changes_nothing() {
    skip_without_server!();
    let server = Postgres::start();
    fresh(&server.url()).await;
    server.sql(
        "CREATE ROLE app LOGIN; GRANT USAGE ON SCHEMA quorlock TO app; CREATE SCHEMA evil AUTHORIZATION app;
         SET ROLE app;
         CREATE FUNCTION evil.yes(text, text) RETURNS boolean LANGUAGE plpgsql
            AS 'BEGIN RAISE EXCEPTION ''evil''; END';
         CREATE OPERATOR evil.= (FUNCTION = evil.yes, LEFTARG = text, RIGHTARG = text);
         CREATE FUNCTION evil.no() RETURNS boolean LANGUAGE plpgsql
            AS 'BEGIN RAISE EXCEPTION ''evil type''; END';
         CREATE DOMAIN evil.timestamptz AS timestamptz CHECK (evil.no());
         CREATE DOMAIN evil.text AS text CHECK (evil.no());
         CREATE FUNCTION evil.clock_timestamp() RETURNS timestamptz LANGUAGE sql
            AS 'SELECT ''2000-01-01''::timestamptz';",
    );
    let held = server.sql(
        "SET ROLE app; SET search_path = evil, pg_catalog;
         SELECT quorlock.acquire('a', 't', 5, 'l', 10000, false, 0);
         SELECT quorlock.acquire('a', 'u', 6, 'l', 10000, false, 0);
         SELECT quorlock.extend('a', 't', 10000, true, 0);
         SELECT quorlock.release('a', 't', 'a', false, 0);
         SELECT quorlock.share('a', 't', 7, 'l', 10000, false, false, 0);
         SELECT quorlock.release('a', 't', 'a', false, 0)",
    );
    assert_eq!(held, "0\n-1\n0\n0\n0\n0");
}

#[tokio::test]
async fn tls_and_passwords_are_used_as_the_address_says() {
    skip_without_server!();
    let server = Postgres::start_with_tls("hostssl all all all scram-sha-256");
    server.sql("ALTER ROLE postgres PASSWORD 's3cr%t'");
    let address =
        |options: &str| format!("postgres://postgres:s3cr%25t@localhost:{}/postgres{options}", server.port());
    let ca = server.certs().ca();
    let trusted = format!("?sslmode=verify-full&sslrootcert={}", ca.display());
    fresh(&address(&trusted)).await;
    for options in ["", "?sslmode=require", &trusted, &trusted.replace("verify-full", "verify-ca")] {
        let locker = locker(&address(options));
        let guard = locker.named("encrypted").unwrap().acquire().await.unwrap();
        assert!(matches!(guard.release().await, ReleaseOutcome::Released), "{options}");
    }
    is_refused(&locker(&address("?sslmode=disable")), "a", "no pg_hba.conf entry").await;
    is_refused(&locker(&address("?sslmode=verify-full&sslrootcert=system")), "a", "Tls").await;
    let other = tempfile::tempdir().unwrap();
    let other = quorlock_testkit::Certs::generate(other.path()).ca();
    let wrong = format!("?sslmode=verify-ca&sslrootcert={}", other.display());
    is_refused(&locker(&address(&wrong)), "a", "Tls").await;
    let wrong = address("").replace("s3cr%25t", "wrong");
    is_refused(&locker(&wrong), "a", "password authentication failed").await;
}

#[tokio::test]
async fn a_client_certificate_is_a_user() {
    skip_without_server!();
    let server = Postgres::start_with_tls("hostssl all all all cert");
    server.sql("CREATE ROLE \"quorlock test client\" LOGIN SUPERUSER");
    let certs = server.certs();
    let url = format!(
        "postgres://quorlock%20test%20client@localhost:{}/postgres?sslmode=verify-full&sslrootcert={}&sslcert={}&sslkey={}",
        server.port(),
        certs.ca().display(),
        certs.client_cert().display(),
        certs.client_key().display()
    );
    let locker = fresh(&url).await;
    assert!(locker.named("certified").unwrap().acquire().await.is_ok());
}

/// Goal: a standby that took over and lacks the last commits gives no lock to a second client.
#[tokio::test]
async fn a_failover_that_forgets_a_lock_gives_it_to_no_other_client_while_it_is_held() {
    skip_without_server!();
    let mut server = Postgres::start();
    let admin = builder(&server.url()).longest_ttl(TTL).build().unwrap();
    init_nodes(&admin).await;
    let standby = server.start_standby();
    server.await_standby(&standby);
    // Nothing is replicated from now on.
    standby.sql("ALTER SYSTEM SET primary_conninfo = ''");
    standby.sql("SELECT pg_reload_conf()");
    let cut = async || standby.sql("SELECT count(*) FROM pg_stat_wal_receiver") == "0";
    until("it follows no more", SOON, cut).await;
    let both =
        format!("postgres://postgres@127.0.0.1:{},127.0.0.1:{}/postgres", server.port(), standby.port());
    let (one, other) = (locker(&both), locker(&both));
    let guard = one.named("forgotten").unwrap().watchdog(false).acquire().await.unwrap();
    let fence = guard.fence();
    server.kill();
    standby.promote();
    assert_eq!(standby.sql("SELECT count(*) FROM quorlock.lock WHERE name = 'forgotten'"), "0");
    let next = other.named("forgotten").unwrap().wait_timeout(4 * TTL).acquire().await.unwrap();
    assert!(!guard.is_held(), "its time is over");
    assert!(next.fence() > fence);
}
