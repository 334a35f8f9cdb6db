//! What cannot work is refused when the locker is built, and the error names the value and what is allowed.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use quorlock::{AcquireError, ConfigError, Locker, NameError};
use std::time::Duration;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn refused(builder: quorlock::Builder) -> String {
    match builder.build() {
        Ok(_) => panic!("accepted"),
        Err(error) => error.to_string(),
    }
}

fn on(nodes: &[&str]) -> quorlock::Builder {
    Locker::builder().nodes(nodes.iter().copied())
}

#[test]
fn no_nodes_are_refused() {
    assert!(matches!(Locker::builder().build(), Err(ConfigError::NoNodes)));
}

#[test]
fn an_unknown_scheme_is_refused_with_the_known_ones() {
    let error = refused(on(&["mysql://localhost"]));
    assert!(error.contains("mysql") && error.contains("redis://"), "{error}");
}

#[test]
fn a_url_that_is_refused_never_shows_its_password() {
    for url in ["redis://ann:hunter2@host:99999", "redis://ann:hunter2@host/xx", "redis://:hunter2@host?x=1"]
    {
        let error = refused(on(&[url]));
        assert!(!error.contains("hunter2"), "{error}");
    }
}

#[test]
fn a_longest_ttl_without_measure_is_refused() {
    for longest in [Duration::MAX, Duration::from_secs(8 * 24 * 3600)] {
        let error = refused(on(&["memory:"]).longest_ttl(longest));
        assert!(error.contains("7 days"), "{error}");
    }
    assert!(on(&["memory:"]).longest_ttl(Duration::from_secs(7 * 24 * 3600)).build().is_ok());
}

#[test]
fn mixed_kinds_are_refused() {
    let error = refused(on(&["redis://a", "memory:b"]));
    assert!(error.contains("different kinds") && error.contains("memory:b"), "{error}");
}

#[test]
fn the_same_node_twice_is_refused_in_any_spelling() {
    for nodes in [
        ["redis://host", "redis://HOST:6379/3"],
        ["redis://127.0.0.1:7", "redis://user:x@127.0.0.1:7"],
        ["memory:a", "memory:a"],
        ["file:/tmp/x", "file:/tmp/x"],
    ] {
        let built = on(&nodes).build();
        assert!(matches!(built, Err(ConfigError::SameNode { .. })), "{nodes:?}: {built:?}");
    }
}

#[test]
fn too_many_nodes_are_refused() {
    let nodes: Vec<String> = (0..32).map(|number| format!("redis://host{number}")).collect();
    let built = Locker::builder().nodes(nodes).build();
    assert!(matches!(built, Err(ConfigError::Quorum(_))), "{built:?}");
}

#[test]
fn useless_ttls_are_refused() {
    for ttl in [
        Duration::ZERO,
        ms(1),
        ms(100),
        Duration::from_micros(10_500),
        Duration::from_secs(31),
        Duration::MAX,
    ] {
        let built = on(&["memory:a"]).ttl(ttl).build();
        assert!(matches!(built, Err(ConfigError::Ttl(_))), "{ttl:?}: {built:?}");
    }
    let error = refused(on(&["memory:a"]).ttl(ms(150)));
    assert!(error.contains("150ms") && error.contains("50ms") && error.contains("200ms"), "{error}");
    assert!(
        on(&["memory:a"]).ttl(Duration::from_secs(60)).longest_ttl(Duration::from_secs(60)).build().is_ok()
    );
}

#[test]
fn a_ttl_that_leaves_nothing_at_the_node_timeout_is_refused() {
    let error = refused(on(&["memory:a"]).ttl(Duration::from_secs(2)).node_timeout(Duration::from_secs(1)));
    assert!(error.contains("node timeout of 1s"), "{error}");
}

#[test]
fn other_nonsense_is_refused() {
    let memory = || on(&["memory:a"]);
    assert!(refused(memory().drift_factor(0.9)).contains("0.9"));
    assert!(refused(memory().drift_factor(f64::NAN)).contains("NaN"));
    assert!(refused(memory().max_attempts(0)).contains("at least 1"));
    assert!(refused(memory().node_timeout(Duration::ZERO)).contains("1 ms to 60 s"));
    assert!(refused(memory().max_hold(Duration::ZERO)).contains("positive"));
    assert!(refused(memory().loss_margin(Duration::from_secs(9))).contains("half"));
}

#[test]
fn names_are_checked_when_the_lock_is_named() {
    let locker = on(&["memory:a"]).build().unwrap();
    assert!(matches!(locker.named(""), Err(NameError::Empty)));
    assert!(matches!(locker.named("x".repeat(513)), Err(NameError::TooLong { bytes: 513 })));
    assert!(matches!(locker.named("a\u{7}"), Err(NameError::Control { .. })));
}

/// Goal: a setter cannot fail; the call that would use its value does, without waiting, and names the first mistake.
#[tokio::test]
async fn settings_of_one_lock_are_checked_when_it_is_acquired() {
    let lock = on(&["memory:a"]).build().unwrap().named("a").unwrap();
    let ttl = lock.clone().ttl(ms(3)).acquire().await;
    assert!(matches!(ttl, Err(AcquireError::Config { source: ConfigError::Ttl(_), .. })), "{ttl:?}");
    let attempts = lock.clone().max_attempts(0).try_acquire().await;
    assert!(
        matches!(attempts, Err(AcquireError::Config { source: ConfigError::Setting { .. }, .. })),
        "{attempts:?}"
    );
    let first = lock.ttl(ms(3)).max_attempts(0).acquire().await;
    assert!(matches!(first, Err(AcquireError::Config { source: ConfigError::Ttl(_), .. })), "{first:?}");
}

#[test]
fn a_directory_that_cannot_be_used_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = refused(on(&[&format!("file:{}/below", file.path().display())]));
    assert!(error.contains("below"), "{error}");
}

/// Goal: the nodes come from the environment, and a missing variable is an error. One test, as the environment is shared.
#[test]
fn nodes_can_come_from_the_environment() {
    let child = |nodes: Option<&str>| {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "in_a_child_with_its_own_environment", "--nocapture", "--include-ignored"]);
        command.env_remove("QUORLOCK_NODES").env("QUORLOCK_TEST_CHILD", "1");
        nodes.map(|nodes| command.env("QUORLOCK_NODES", nodes));
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    assert!(child(None).contains("QUORLOCK_NODES is not set"), "{}", child(None));
    assert!(child(Some(" ")).contains("QUORLOCK_NODES is not set"));
    assert!(child(Some("memory:a, memory:b,memory:c")).contains("built on 2 of 3"));
}

#[test]
fn in_a_child_with_its_own_environment() {
    if std::env::var_os("QUORLOCK_TEST_CHILD").is_none() {
        return;
    }
    match Locker::from_env() {
        Ok(locker) => println!("built on {}", locker.quorum()),
        Err(error) => println!("{error}"),
    }
}

/// Spans of every size, with those that are nearly too short or too long.
fn any_span() -> impl Strategy<Value = Duration> {
    prop_oneof![
        Just(Duration::ZERO),
        Just(Duration::MAX),
        (0_u64..100).prop_map(ms),
        (0_u64..700_000_000).prop_map(ms),
        any::<u64>().prop_map(Duration::from_nanos),
    ]
}

proptest! {
    /// Goal: whatever is configured works or is refused for a reason; nothing panics and no secret is shown.
    #[test]
    fn any_configuration_works_or_is_refused_for_a_reason(
        nodes in prop::collection::vec(
            "(redis|valkey|memory|unix)://(ann:hunter2@)?[a-f]{0,2}(:[0-9]{1,6})?(/[0-9]{0,3})?([?][a-z]{1,8}=[a-z]{0,3})?",
            0..6
        ),
        spans in prop::array::uniform5(any_span()),
        drift in prop_oneof![any::<f64>(), 0.0..0.5],
        name in "\\PC{0,8}"
    ) {
        let [ttl, longest, wait, node, connect] = spans;
        let builder = Locker::builder().nodes(nodes).ttl(ttl).longest_ttl(longest).wait_timeout(wait).drift_factor(drift);
        match builder.node_timeout(node).connect_timeout(connect).build() {
            Ok(locker) => drop(locker.named(name)),
            Err(error) => {
                let words = error.to_string();
                prop_assert!(!words.is_empty() && !words.contains("hunter2"), "{words}");
            }
        }
    }
}
