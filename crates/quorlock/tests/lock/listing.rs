//! Listing who holds what.

use crate::world::{World, ms};
use quorlock::node::{Names, NodeError};
use quorlock::{Holder, ListError, Listing};
use quorlock_testkit::Fault;
use tokio::time::Instant;

fn names(listing: &Listing) -> Vec<&str> {
    listing.held.iter().map(|seen| seen.name.as_str()).collect()
}

#[tokio::test(start_paused = true)]
async fn every_held_lock_is_listed_and_none_that_is_free() {
    let world = World::of(3);
    let locker = world.locker();
    assert!(locker.list().await.unwrap().held.is_empty());
    let mut guards = Vec::new();
    for number in 0..200 {
        guards.push(locker.named(format!("n{number:03}")).unwrap().acquire().await.unwrap());
    }
    let kept = guards.split_off(100);
    for guard in guards {
        drop(guard.release().await);
    }
    let listing = world.locker().list().await.unwrap();
    let expected: Vec<_> = kept.iter().map(|guard| guard.name().as_str()).collect();
    assert_eq!(names(&listing), expected);
    assert!(listing.complete);
    let owner = |seen: &quorlock::Inspection| matches!(&seen.holder, Holder::Owner { token, .. } if *token == kept[0].token());
    assert!(owner(&listing.held[0]));
}

#[tokio::test(start_paused = true)]
async fn a_majority_of_nodes_is_enough_and_less_is_an_error_that_names_the_causes() {
    let world = World::of(5);
    let locker = world.locker();
    let _guard = locker.named("a").unwrap().acquire().await.unwrap();
    world.break_nodes(2, &Fault::Deaf);
    let listing = locker.list().await.unwrap();
    assert_eq!((names(&listing), listing.complete), (vec!["a"], true));
    world.break_nodes(3, &Fault::Broken(NodeError::Loading));
    let error = locker.list().await.unwrap_err();
    assert!(matches!(&error, ListError::NoQuorum { nodes, .. } if nodes.len() == 5), "{error}");
    assert!(error.to_string().contains("still loading"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn nodes_that_never_tell_are_not_waited_for_without_end() {
    let world = World::of(3);
    let locker = world.locker();
    world.break_nodes(2, &Fault::Mute);
    let start = Instant::now();
    assert!(locker.list().await.is_err());
    assert_eq!(start.elapsed(), ms(10_000));
}

#[tokio::test(start_paused = true)]
async fn a_listing_that_was_cut_says_so() {
    let world = World::of(1);
    let locker = world.builder().ttl(ms(30_000)).build().unwrap();
    for number in 0..=Names::MOST {
        let lock = locker.named(format!("n{number:05}")).unwrap().watchdog(false);
        drop(lock.try_acquire().await.unwrap());
    }
    let _guard = locker.named("n00000").unwrap().acquire().await.unwrap();
    let listing = locker.list().await.unwrap();
    assert_eq!((names(&listing), listing.complete), (vec!["n00000"], false));
}
