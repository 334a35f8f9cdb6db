//! An etcd cluster as the one node of a locker: members that die or stand still, users, and what goes wrong.
#![allow(clippy::unwrap_used)]

use quorlock::node::Facts;
use quorlock::{AcquireError, Builder, ConfigError, Locker, ReleaseOutcome};
use quorlock_testkit::{Etcd, EtcdVersion, until};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

const TTL: Duration = Duration::from_secs(6);
const SOON: Duration = Duration::from_secs(30);

fn builder(url: &str) -> Builder {
    Locker::builder().nodes([url]).ttl(TTL).node_timeout(Duration::from_millis(500)).wait_timeout(SOON)
}

fn locker(url: &str) -> Locker {
    builder(url).build().unwrap()
}

/// A locker that gives a slow answer time.
fn patient(url: &str) -> Locker {
    builder(url).ttl(Duration::from_secs(30)).node_timeout(Duration::from_secs(5)).build().unwrap()
}

#[tokio::test]
async fn a_lock_is_kept_while_the_leader_dies() {
    // Long enough for an election on a loaded machine.
    let ttl = Duration::from_secs(20);
    let mut etcd = Etcd::start(3);
    let (one, other) = (locker(&etcd.url()), locker(&etcd.url()));
    let guard = one.named("kept").unwrap().ttl(ttl).acquire().await.unwrap();
    let leader = etcd.leader();
    etcd.kill(leader);
    let start = Instant::now();
    let kept = async || start.elapsed() > ttl && guard.is_held();
    until("the watchdog found another member in time", ttl + Duration::from_secs(5), kept).await;
    assert!(other.named("kept").unwrap().wait_timeout(Duration::from_secs(1)).acquire().await.is_err());
    let fence = guard.fence();
    assert!(matches!(guard.release().await, ReleaseOutcome::Released));
    let next = other.named("kept").unwrap().acquire().await.unwrap();
    assert!(next.fence() > fence);
}

#[tokio::test]
async fn a_leader_that_stands_still_is_passed_by() {
    let etcd = Etcd::start(3);
    let locker = locker(&etcd.url());
    drop(locker.named("before").unwrap().acquire().await.unwrap());
    let leader = etcd.leader();
    etcd.pause(leader);
    let guard = locker.named("after").unwrap().acquire().await.unwrap();
    etcd.resume(leader);
    assert!(guard.is_held());
    assert!(matches!(guard.release().await, ReleaseOutcome::Released));
}

#[tokio::test]
async fn an_examination_passes_by_a_member_that_stands_still_and_names_it() {
    let etcd = Etcd::start(3);
    let still = (etcd.leader() + 1) % 3;
    let mut hosts: Vec<_> = etcd.url().trim_start_matches("etcd://").split(',').map(str::to_owned).collect();
    hosts.swap(0, still);
    etcd.pause(still);
    let locker = locker(&format!("etcd://{}", hosts.join(",")));
    // The others may be slow on a loaded machine.
    until("that one alone is silent", SOON, async || {
        let examined = locker.examine().await;
        let Ok(Facts::Store(facts)) = &examined[0].found else { return false };
        (&facts.silent, facts.members) == (&vec![hosts[0].clone()], Some(3))
    })
    .await;
    etcd.resume(still);
}

#[tokio::test]
async fn without_a_majority_nothing_is_granted_and_a_held_lock_is_lost_in_time() {
    let mut etcd = Etcd::start(3);
    let locker = locker(&etcd.url());
    let guard = locker.named("lost").unwrap().acquire().await.unwrap();
    let leader = etcd.leader();
    etcd.kill(leader);
    etcd.kill((leader + 1) % 3);
    let refused = locker.named("other").unwrap().wait_timeout(Duration::from_secs(1)).acquire().await;
    assert!(matches!(refused, Err(AcquireError::NoQuorum { .. })), "{refused:?}");
    let start = Instant::now();
    timeout(SOON, guard.lost()).await.unwrap();
    assert!(start.elapsed() < TTL, "before others can have it");
    assert!(matches!(guard.release().await, ReleaseOutcome::Unconfirmed { .. }));
}

#[tokio::test]
async fn a_restarted_cluster_remembers() {
    let mut etcd = Etcd::start(1);
    let (one, other) = (locker(&etcd.url()), locker(&etcd.url()));
    let lock = one.named("remembered").unwrap().ttl(Duration::from_secs(30));
    let guard = lock.acquire().await.unwrap();
    etcd.restart(0);
    let refused = other.named("remembered").unwrap().try_acquire().await;
    assert!(matches!(refused, Err(AcquireError::Held { .. })), "{refused:?}");
    let fence = guard.fence();
    assert!(matches!(guard.release().await, ReleaseOutcome::Released));
    assert!(other.named("remembered").unwrap().acquire().await.unwrap().fence() > fence);
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

fn hosts(etcd: &Etcd) -> String {
    etcd.url().trim_start_matches("etcd://").to_owned()
}

/// Two clients name the same members in another order: each meets another cluster first.
#[tokio::test]
async fn members_of_two_clusters_in_one_address_are_refused_whichever_comes_first() {
    let (one, other) = (Etcd::start(1), Etcd::start(1));
    for (first, second) in [(&one, &other), (&other, &one)] {
        // Both have time to answer before one of them counts.
        let locker = patient(&format!("etcd://{},{}", hosts(first), hosts(second)));
        is_refused(&locker, "mixed", &format!("OtherCluster {{ member: \"{}\"", hosts(second))).await;
        let found = format!("{:?}", locker.examine().await[0].found);
        assert!(found.starts_with("Err(OtherCluster"), "{found}");
    }
}

/// Goal: a client that began while one of two clusters was away does not go on with the other one.
#[tokio::test]
async fn a_member_of_another_cluster_that_comes_later_gets_no_vote_and_takes_it_from_all() {
    let (mut one, mut other) = (Etcd::start(1), Etcd::start(1));
    let locker = locker(&format!("etcd://{},{}", hosts(&one), hosts(&other)));
    other.kill(0);
    let guard = locker.named("held").unwrap().acquire().await.unwrap();
    one.kill(0);
    other.restart(0);
    is_refused(&locker, "held", "OtherCluster").await;
    timeout(SOON, guard.lost()).await.expect("no answer of the other cluster extends it");
    one.restart(0);
    // Others may still lock there.
    is_refused(&locker, "held", "OtherCluster").await;
}

/// A snapshot that was taken before the lock, restored so that the cluster keeps its id.
#[tokio::test]
async fn a_restored_cluster_gives_no_vote_to_a_client_that_knew_it_before() {
    let mut etcd = Etcd::start(1);
    let snapshot = etcd.snapshot();
    let long = Duration::from_secs(300);
    let one = builder(&etcd.url()).longest_ttl(long).ttl(long).build().unwrap();
    let other = locker(&etcd.url());
    let guard = one.named("held").unwrap().acquire().await.unwrap();
    until("it sees the lock", SOON, async || {
        matches!(other.named("held").unwrap().try_acquire().await, Err(AcquireError::Held { .. }))
    })
    .await;
    etcd.restore(&snapshot, Etcd::TOKEN);
    is_refused(&other, "held", "Restored").await;
    assert!(guard.is_held(), "so two would have held it");
    // However far the restored cluster gets, what was forgotten stays forgotten.
    let fresh = locker(&etcd.url());
    for _ in 0..8 {
        drop(fresh.named("others").unwrap().acquire().await.unwrap());
    }
    is_refused(&other, "held", "Restored").await;
}

#[tokio::test]
async fn a_restored_cluster_with_another_id_is_another_one() {
    let mut etcd = Etcd::start(1);
    let locker = locker(&etcd.url());
    let guard = locker.named("held").unwrap().acquire().await.unwrap();
    let snapshot = etcd.snapshot();
    etcd.restore(&snapshot, "another");
    is_refused(&locker, "free", "OtherCluster").await;
    assert!(matches!(guard.release().await, ReleaseOutcome::Unconfirmed { .. }));
}

#[tokio::test]
async fn a_user_with_a_password_and_a_role_locks_and_others_do_not() {
    let mut etcd = Etcd::start(1);
    for (path, body) in [
        ("user/add", r#"{"name":"root","password":"r"}"#),
        ("user/grant", r#"{"user":"root","role":"root"}"#),
        ("role/add", r#"{"name":"locker"}"#),
        // From `quorlock/` up to what follows it.
        (
            "role/grant",
            r#"{"name":"locker","perm":{"permType":"READWRITE","key":"cXVvcmxvY2sv","range_end":"cXVvcmxvY2sw"}}"#,
        ),
        ("role/add", r#"{"name":"reader"}"#),
        (
            "role/grant",
            r#"{"name":"reader","perm":{"permType":"READ","key":"cXVvcmxvY2sv","range_end":"cXVvcmxvY2sw"}}"#,
        ),
        ("user/add", r#"{"name":"bob","password":"wrong"}"#),
        ("user/grant", r#"{"user":"bob","role":"reader"}"#),
        ("user/add", r#"{"name":"ann","password":"s3cr@t"}"#),
        ("user/grant", r#"{"user":"ann","role":"locker"}"#),
        ("auth/enable", "{}"),
    ] {
        let path = path.strip_prefix("auth/").unwrap_or(path);
        let answer = etcd.post(&format!("/v3/auth/{path}"), body);
        assert!(answer.get("error").is_none(), "{path}: {answer}");
    }
    let url = etcd.url();
    let with = |user: &str| url.replace("etcd://", &format!("etcd://{user}@"));
    // Passwords take long to check, and what is not answered in time is refused for that reason.
    let locker = patient;
    let ann = locker(&with("ann:s3cr%40t"));
    let guard = ann.named("hers").unwrap().acquire().await.unwrap();
    assert!(guard.extend_by(Duration::from_secs(30)).await.is_ok());
    assert_eq!(ann.list().await.unwrap().held.len(), 1);
    assert!(matches!(guard.release().await, ReleaseOutcome::Released));
    until(
        "she may look at it",
        SOON,
        async || matches!(&ann.examine().await[0].found, Ok(Facts::Store(facts)) if facts.members == Some(1)),
    )
    .await;
    // It forgets who has logged in.
    etcd.restart(0);
    until("she is logged in again", SOON, async || ann.named("hers").unwrap().try_acquire().await.is_ok())
        .await;
    for (url, words) in [
        (url.clone(), "wants a user and a password"),
        (with("ann:wrong"), "authentication failed"),
        (with("ann:s3cr%40t") + "/elsewhere", "permission denied"),
        // He may only read.
        (with("bob:wrong"), "permission denied"),
    ] {
        let refused = locker(&url).named("x").unwrap().wait_timeout(Duration::from_secs(1)).acquire().await;
        let Err(AcquireError::NoQuorum { nodes, .. }) = &refused else { panic!("{url}: {refused:?}") };
        let outcome = format!("{nodes:?}");
        assert!(outcome.contains(words), "{outcome}");
        assert!(!outcome.contains("s3cr") && !outcome.contains("wrong"), "no password is told: {outcome}");
        let locker = locker(&url);
        until("an examination says the same", SOON, async || {
            let found = format!("{:?}", locker.examine().await[0].found);
            assert!(found.starts_with("Err"), "{found}");
            found.contains(words)
        })
        .await;
    }
}

/// The versions that are here; others are named.
fn versions() -> Vec<EtcdVersion> {
    let all = [EtcdVersion::Installed, EtcdVersion::V3_5, EtcdVersion::V3_6];
    let (here, missing): (Vec<_>, Vec<_>) = all.into_iter().partition(|version| version.is_here());
    for version in missing {
        eprintln!("skipped: no etcd {version:?} here: scripts/setup-tests builds it");
    }
    here
}

#[tokio::test]
async fn a_user_is_known_by_the_common_name_of_its_certificate() {
    for version in versions() {
        let etcd = Etcd::start_with_client_certs(version);
        let user = Etcd::CERTIFIED_USER;
        for args in [
            &["user", "add", "root:r"][..],
            &["user", "grant-role", "root", "root"],
            &["role", "add", "locker"],
            &["role", "grant-permission", "locker", "--prefix=true", "readwrite", "quorlock/"],
            &["user", "add", "--no-password", user],
            &["user", "grant-role", user, "locker"],
            &["auth", "enable"],
        ] {
            etcd.etcdctl_with_certificate(args);
        }
        let ann = patient(&etcd.url_with_certificate());
        let guard = ann.named("hers").unwrap().acquire().await.unwrap();
        assert!(guard.extend_by(Duration::from_secs(30)).await.is_ok(), "{version:?}");
        assert!(matches!(guard.release().await, ReleaseOutcome::Released), "{version:?}");
        let found = &ann.examine().await[0].found;
        assert!(matches!(found, Ok(Facts::Store(_))), "{version:?}: {found:?}");
        // Another prefix is not hers, and without a certificate no connection is made.
        let elsewhere = etcd.url_with_certificate().replace("/?ca", "/elsewhere?ca");
        for (url, words) in [(elsewhere, "permission denied"), (etcd.url(), "")] {
            let lock = patient(&url).named("x").unwrap().wait_timeout(Duration::from_secs(1));
            let Err(AcquireError::NoQuorum { nodes, .. }) = lock.acquire().await else { panic!("{url}") };
            assert!(format!("{nodes:?}").contains(words), "{version:?}: {nodes:?}");
        }
    }
}

/// Goal: a lock means the same on every release of etcd.
#[tokio::test]
async fn other_releases_of_etcd_lock_wait_and_forget_nothing() {
    for version in versions() {
        let mut etcd = Etcd::start_version(version, 1);
        let (one, other) = (patient(&etcd.url()), patient(&etcd.url()));
        let guard = one.named("a").unwrap().acquire().await.unwrap();
        assert!(matches!(other.named("a").unwrap().try_acquire().await, Err(AcquireError::Held { .. })));
        let waiting = tokio::spawn(async move { other.named("a").unwrap().acquire().await.unwrap().fence() });
        sleep(Duration::from_millis(200)).await;
        etcd.restart(0);
        let fence = guard.fence();
        assert!(matches!(guard.release().await, ReleaseOutcome::Released), "{version:?}");
        assert!(timeout(SOON, waiting).await.unwrap().unwrap() > fence, "{version:?}");
        let readers = [one.named("r").unwrap().shared(), one.named("r").unwrap().shared()];
        let first = readers[0].acquire().await.unwrap();
        let second = readers[1].acquire().await.unwrap();
        assert!(second.fence() > first.fence(), "{version:?}");
        drop((first, second));
        let version = one.health()[0].health.version.clone();
        assert!(version.is_some_and(|version| version.starts_with("etcd 3.")));
    }
}

/// A program may end right after its guard: what was sent is waited for.
#[test]
fn a_locker_that_goes_right_after_its_guard_leaves_nothing_behind() {
    let etcd = Etcd::start(1);
    let hold_once = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            // What is under way is waited for as long as the node may take.
            let locker = patient(&etcd.url());
            drop(locker.named("last").unwrap().acquire().await.unwrap());
            drop(locker);
            assert_eq!(etcd.count_keys("quorlock/lock/"), 0);
            assert_eq!(etcd.count_keys("quorlock/fence/last"), 1);
        });
    };
    (0..20).for_each(|_| hold_once());
}

#[tokio::test]
async fn what_is_no_etcd_is_named() {
    let server = quorlock_testkit::Server::start();
    let url = format!("etcd://127.0.0.1:{}", server.port());
    let refused = locker(&url).named("x").unwrap().wait_timeout(Duration::from_millis(500)).acquire().await;
    let Err(AcquireError::NoQuorum { nodes, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(nodes.len(), 1);
}

#[test]
fn members_of_one_cluster_are_not_several_nodes() {
    let built = Locker::builder().nodes(["etcd://a", "etcd://b", "etcd://c"]).build();
    let error = built.unwrap_err();
    assert!(matches!(error, ConfigError::ManyClusters { .. }));
    assert!(error.to_string().contains("etcd://a,b,c"), "{error}");
}

/// Many contend while one member after another dies and comes back: never do two hold at a time, and fences grow.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_holds_together_with_another_while_members_die() {
    let mut etcd = Etcd::start(3);
    let (url, end) = (etcd.url(), Instant::now() + Duration::from_secs(90));
    let resource = Arc::new(Mutex::new(Resource::default()));
    let is_over = Arc::new(AtomicBool::new(false));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..2 {
        let locker = locker(&url);
        for _ in 0..3 {
            let (lock, resource) = (locker.named("storm").unwrap(), resource.clone());
            let is_over = is_over.clone();
            tasks.spawn(async move {
                while !is_over.load(Ordering::Relaxed) {
                    let Ok(guard) = lock.acquire().await else { continue };
                    resource.lock().unwrap().enter(guard.fence().get());
                    tokio::select! {
                        () = sleep(Duration::from_millis(20)) => {}
                        _ = guard.lost() => {}
                    }
                    resource.lock().unwrap().leave();
                    let _ = guard.release().await;
                }
            });
        }
    }
    let seen = resource.clone();
    let storm = tokio::task::spawn_blocking(move || {
        let mut deaths = 0;
        // A loaded machine needs longer for the same number of turns.
        while Instant::now() < end && (deaths < 4 || seen.lock().unwrap().turns <= 20) {
            let victim = if deaths % 2 == 0 { etcd.leader() } else { deaths % 3 };
            etcd.kill(victim);
            std::thread::sleep(Duration::from_secs(2));
            etcd.restart(victim);
            deaths += 1;
            std::thread::sleep(Duration::from_secs(1));
        }
        (etcd, deaths)
    });
    let (etcd, deaths) = storm.await.unwrap();
    is_over.store(true, Ordering::Relaxed);
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    drop(etcd);
    let turns = resource.lock().unwrap().turns;
    assert!(deaths >= 2 && turns > 20, "{turns} turns while {deaths} members died");
}

/// What the lock protects.
#[derive(Default)]
struct Resource {
    is_used: bool,
    highest: u64,
    turns: u32,
}

impl Resource {
    fn enter(&mut self, fence: u64) {
        assert!(!self.is_used, "two at a time");
        assert!(fence > self.highest, "{fence} after {}", self.highest);
        (self.is_used, self.highest) = (true, fence);
        self.turns += 1;
    }

    fn leave(&mut self) {
        self.is_used = false;
    }
}
