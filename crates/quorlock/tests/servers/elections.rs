//! Observers of an election while servers are silent or forget.

use crate::setting::{SOON, builder, fresh};
use quorlock::{LeaderChange, Locker, Observation, ReleaseOutcome};
use quorlock_testkit::Servers;
use std::time::Duration;
use tokio::time::timeout;

async fn next_change(observed: &mut Observation) -> LeaderChange {
    timeout(SOON, observed.next()).await.unwrap().unwrap()
}

/// Goal: a vacancy needs a majority that knows of no leader. With fewer answers there is no answer.
#[tokio::test]
async fn a_vacancy_is_seen_while_two_of_five_are_silent_and_not_while_three_are() {
    let servers = Servers::start(5);
    let (candidate, follower) = (fresh(&servers).await, builder(&servers).build().unwrap());
    let (mine, theirs) = (candidate.election("e").unwrap(), follower.election("e").unwrap());
    let leadership = mine.campaign("a").await.unwrap();
    let mut observed = theirs.observe();
    let seen = next_change(&mut observed).await;
    assert!(matches!(seen, LeaderChange::Elected(leader) if leader.term == leadership.term()));
    servers[..3].iter().for_each(|server| server.pause());
    assert!(timeout(SOON, observed.next()).await.unwrap().is_err(), "two nodes are too few");
    servers[2].resume();
    let last_term = leadership.term();
    assert!(matches!(leadership.resign().await, ReleaseOutcome::Released));
    let change = loop {
        // The third server may be silent for a moment longer.
        if let Ok(change) = timeout(SOON, observed.next()).await.unwrap() {
            break change;
        }
    };
    assert_eq!(change, LeaderChange::Vacant { last_term });
    servers[..2].iter().for_each(|server| server.resume());
}

/// Goal: servers that forgot the leader do not vote, and make no vacancy either. The leader goes on.
#[tokio::test]
async fn servers_that_restart_without_memory_make_no_vacancy() {
    let mut servers = Servers::start(3);
    let (candidate, follower): (Locker, Locker) = (fresh(&servers).await, builder(&servers).build().unwrap());
    // Without a watchdog, no node gets the leader back.
    let election = candidate.election("e").unwrap().with(|lock| lock.watchdog(false));
    let leadership = election.campaign("a").await.unwrap();
    let election = follower.election("e").unwrap();
    let mut observed = election.observe();
    assert!(matches!(next_change(&mut observed).await, LeaderChange::Elected(_)));
    for number in 0..2 {
        servers[number].restart();
        // Longer than the slowest poll of an observer.
        if let Ok(Ok(change)) = timeout(Duration::from_millis(1_500), observed.next()).await {
            panic!("after restart {number}: {change:?}");
        }
        assert!(leadership.is_held());
    }
}
