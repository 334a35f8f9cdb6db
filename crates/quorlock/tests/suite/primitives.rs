//! The checks of shared locks, sets of names, semaphores and elections.

use super::{SOON, TTL};
use quorlock::{
    AcquireError, ConfigError, ExtendError, Fence, Holder, Leader, LeaderChange, Locker, LossReason, Mode,
    NameSetError, Observation, ReleaseOutcome, UpgradeError,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::{sleep, timeout};

pub async fn conform(one: &Locker, other: &Locker) {
    tokio::join!(
        readers_share_and_exclude_writers(one, other),
        a_writer_that_waits_keeps_further_readers_out(one, other),
        readers_are_kept_alive_and_lost_like_writers(one, other),
        a_reader_that_is_late_cannot_extend_over_a_writer(one, other),
        a_downgrade_lets_readers_in(one, other),
        an_upgrade_needs_to_be_the_only_reader(one, other),
        readers_and_writers_lose_no_update(one, other),
        a_shared_lock_moves_and_is_kept_by_its_token(one, other),
        several_names_are_held_together_or_not_at_all(one, other),
        sets_that_overlap_never_deadlock(one, other),
        a_waiter_for_several_names_is_woken(one, other),
        losing_one_name_loses_all(one, other),
    );
    tokio::join!(
        at_most_so_many_permits_as_slots(one, other),
        several_permits_come_together(one, other),
        a_waiter_gets_the_permit_that_is_released(one, other),
        clients_that_count_other_slots_are_refused(one, other),
        one_candidate_leads_and_the_next_has_a_higher_term(one, other),
        a_vacancy_is_observed_after_each_leader(one, other),
    );
    names_and_numbers_that_cannot_be_used_are_refused(one).await;
}

async fn readers_share_and_exclude_writers(one: &Locker, other: &Locker) {
    let (mine, theirs) = (one.named("shared").unwrap(), other.named("shared").unwrap());
    let first = mine.clone().shared().acquire().await.unwrap();
    let second = theirs.clone().shared().acquire().await.unwrap();
    assert!(second.fence() > first.fence(), "each reader has a fence of its own");
    assert_eq!((first.mode(), second.mode()), (Mode::Shared, Mode::Shared));
    let refused = theirs.try_acquire().await;
    let Err(AcquireError::Held { holder: Holder::Shared { readers }, .. }) = refused else {
        panic!("{refused:?}");
    };
    let tokens: BTreeSet<String> = readers.iter().map(|reader| reader.token.to_string()).collect();
    assert_eq!(tokens, BTreeSet::from([first.token().to_string(), second.token().to_string()]));
    assert!(matches!(first.release().await, ReleaseOutcome::Released));
    assert!(theirs.try_acquire().await.is_err(), "one still reads");
    assert!(matches!(second.release().await, ReleaseOutcome::Released));
    let writer = theirs.try_acquire().await.unwrap();
    let refused = mine.shared().try_acquire().await;
    assert!(matches!(refused, Err(AcquireError::Held { holder: Holder::Owner { .. }, .. })), "{refused:?}");
    assert!(matches!(writer.release().await, ReleaseOutcome::Released));
}

/// Goal: readers that come and go without a gap do not starve a writer.
async fn a_writer_that_waits_keeps_further_readers_out(one: &Locker, other: &Locker) {
    let lock = one.named("preferred").unwrap();
    let first = lock.clone().shared().acquire().await.unwrap();
    let writer = tokio::spawn({
        let lock = other.named("preferred").unwrap().wait_timeout(SOON);
        async move { lock.acquire().await }
    });
    let held_off = async {
        loop {
            match lock.clone().shared().try_acquire().await {
                Err(AcquireError::Held { holder: Holder::Waiting, .. }) => return,
                other => drop(other),
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(timeout(SOON, held_off).await.is_ok(), "the writer keeps readers out");
    assert!(first.extend().await.is_ok(), "a reader that holds it goes on");
    assert!(matches!(first.release().await, ReleaseOutcome::Released));
    let writer = timeout(SOON, writer).await.unwrap().unwrap().unwrap();
    assert!(matches!(writer.release().await, ReleaseOutcome::Released));
    let reader = lock.shared().wait_timeout(SOON).acquire().await.unwrap();
    assert!(matches!(reader.release().await, ReleaseOutcome::Released));
}

async fn readers_are_kept_alive_and_lost_like_writers(one: &Locker, other: &Locker) {
    let lock = one.named("kept-shared").unwrap().shared();
    let (kept, dying) =
        (lock.acquire().await.unwrap(), lock.clone().watchdog(false).acquire().await.unwrap());
    let lost = timeout(SOON, dying.lost()).await.unwrap();
    assert_eq!(lost.reason, LossReason::Expired);
    sleep(TTL).await;
    let is_over = async || match lock.inspect().await.map(|found| found.holder) {
        Ok(Holder::Shared { readers }) => readers.len() == 1,
        _ => false,
    };
    timeout(SOON, async {
        while !is_over().await {
            sleep(TTL / 10).await
        }
    })
    .await
    .unwrap();
    assert!(kept.is_held());
    assert!(other.named("kept-shared").unwrap().try_acquire().await.is_err());
    assert!(matches!(dying.release().await, ReleaseOutcome::AlreadyGone));
    assert!(kept.extend().await.is_ok(), "the release of one reader removes no other");
    assert!(matches!(kept.release().await, ReleaseOutcome::Released));
    drop(other.named("kept-shared").unwrap().acquire().await.unwrap());
}

async fn a_reader_that_is_late_cannot_extend_over_a_writer(one: &Locker, other: &Locker) {
    let lock = one.named("late-reader").unwrap();
    let reader = lock.clone().shared().watchdog(false).acquire().await.unwrap();
    timeout(SOON, reader.lost()).await.unwrap();
    let writer = other.named("late-reader").unwrap().wait_timeout(SOON).acquire().await.unwrap();
    assert!(matches!(reader.extend().await, Err(ExtendError::Lost(_))));
    assert!(matches!(lock.extend_token(reader.token(), TTL).await, Err(ExtendError::Lost(_))));
    assert!(matches!(reader.try_upgrade().await, Err(UpgradeError::Lost(_))), "not even exclusively");
    assert!(matches!(reader.release().await, ReleaseOutcome::AlreadyGone));
    assert!(writer.extend().await.is_ok());
    assert_eq!(lock.inspect().await.unwrap().fence, Some(writer.fence()));
    assert!(matches!(writer.release().await, ReleaseOutcome::Released));
}

async fn a_downgrade_lets_readers_in(one: &Locker, other: &Locker) {
    let guard = one.named("downgraded").unwrap().acquire().await.unwrap();
    let fence = guard.fence();
    let reader = tokio::spawn({
        let lock = other.named("downgraded").unwrap().shared().wait_timeout(SOON);
        async move { lock.acquire().await }
    });
    sleep(Duration::from_millis(200)).await;
    guard.downgrade();
    let reader = timeout(SOON, reader).await.unwrap().unwrap().unwrap();
    assert_eq!((guard.mode(), guard.fence()), (Mode::Shared, fence));
    assert!(guard.extend().await.is_ok());
    assert!(other.named("downgraded").unwrap().try_acquire().await.is_err());
    assert!(matches!(guard.release().await, ReleaseOutcome::Released));
    assert!(reader.extend().await.is_ok());
    assert!(matches!(reader.release().await, ReleaseOutcome::Released));
}

async fn an_upgrade_needs_to_be_the_only_reader(one: &Locker, other: &Locker) {
    let (mine, theirs) = (one.named("upgraded").unwrap().shared(), other.named("upgraded").unwrap().shared());
    let (first, second) = (mine.acquire().await.unwrap(), theirs.acquire().await.unwrap());
    let (refused, also_refused) = tokio::join!(first.try_upgrade(), second.try_upgrade());
    for refused in [refused, also_refused] {
        assert!(matches!(refused, Err(UpgradeError::Shared { .. })), "{refused:?}");
    }
    for guard in [&first, &second] {
        let extended = guard.extend().await;
        assert!(extended.is_ok(), "both go on: {extended:?}");
    }
    let highest = first.fence().max(second.fence());
    assert!(matches!(second.release().await, ReleaseOutcome::Released));
    timeout(SOON, async { while first.try_upgrade().await.is_err() {} }).await.unwrap();
    assert_eq!(first.mode(), Mode::Exclusive);
    assert!(first.fence() > highest, "an upgrade is an acquisition of its own");
    assert!(matches!(first.try_upgrade().await, Err(UpgradeError::Exclusive { .. })));
    assert!(theirs.try_acquire().await.is_err());
    sleep(TTL).await;
    assert!(first.is_held() && theirs.try_acquire().await.is_err(), "it is kept as a writer");
    assert!(matches!(first.release().await, ReleaseOutcome::Released));
    drop(theirs.acquire().await.unwrap());
}

async fn readers_and_writers_lose_no_update(one: &Locker, other: &Locker) {
    const WRITERS: usize = 4;
    let value = Arc::new(AtomicUsize::new(0));
    let mut tasks = Vec::new();
    for number in 0..WRITERS * 2 {
        let locker = if number % 2 == 0 { one } else { other };
        let lock = locker.named("counted").unwrap().wait_timeout(SOON * 3);
        let value = value.clone();
        tasks.push(tokio::spawn(async move {
            if number < WRITERS {
                let guard = lock.acquire().await.unwrap();
                let read = value.load(Ordering::SeqCst);
                sleep(Duration::from_millis(10)).await;
                value.store(read + 1, Ordering::SeqCst);
                assert!(matches!(guard.release().await, ReleaseOutcome::Released));
            } else {
                let guard = lock.shared().acquire().await.unwrap();
                let read = value.load(Ordering::SeqCst);
                sleep(Duration::from_millis(10)).await;
                assert_eq!(value.load(Ordering::SeqCst), read, "no writer while a client reads");
                assert!(matches!(guard.release().await, ReleaseOutcome::Released));
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(value.load(Ordering::SeqCst), WRITERS);
}

async fn a_shared_lock_moves_and_is_kept_by_its_token(one: &Locker, other: &Locker) {
    let guard = one.named("moved-shared").unwrap().shared().acquire().await.unwrap();
    let (token, fence) = (guard.token(), guard.fence());
    let lock = other.named("moved-shared").unwrap();
    let extended = lock.extend_token(token, TTL).await.unwrap();
    assert_eq!(extended.fence, Some(fence));
    let handle = guard.into_handle().await.unwrap();
    let adopted = other.adopt(&handle).await.unwrap();
    assert_eq!((adopted.mode(), adopted.fence()), (Mode::Shared, fence));
    let reader = one.named("moved-shared").unwrap().shared().acquire().await.unwrap();
    assert!(matches!(lock.force_release(token).await, ReleaseOutcome::Released));
    assert!(reader.extend().await.is_ok(), "a forced release frees one reader only");
    assert!(matches!(adopted.extend().await, Err(ExtendError::Lost(_))));
    assert!(matches!(reader.release().await, ReleaseOutcome::Released));
}

async fn several_names_are_held_together_or_not_at_all(one: &Locker, other: &Locker) {
    let last = other.named("set:b").unwrap().acquire().await.unwrap();
    let refused = one.all(["set:c", "set:a", "set:b"]).unwrap().try_acquire().await;
    let Err(AcquireError::NamesHeld { lock, held, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(lock.to_string(), "set:a, set:b, set:c");
    assert_eq!(held.len(), 1);
    assert_eq!(held[0].name.as_str(), "set:b");
    assert!(matches!(&held[0].holder, Holder::Owner { token, .. } if *token == last.token()));
    let free = other.named("set:a").unwrap().acquire().await.unwrap();
    let highest = last.fence().max(free.fence());
    assert!(matches!(last.release().await, ReleaseOutcome::Released));
    assert!(matches!(free.release().await, ReleaseOutcome::Released), "nothing was left of the refused one");

    let all = one.all(["set:c", "set:a", "set:b"]).unwrap().acquire().await.unwrap();
    assert!(all.fence() > highest, "one fence above those of all names");
    let names: Vec<&str> = all.names().iter().map(|name| name.as_str()).collect();
    assert_eq!(names, ["set:a", "set:b", "set:c"]);
    for name in names {
        let refused = other.named(name).unwrap().try_acquire().await;
        let Err(AcquireError::Held { holder: Holder::Owner { fence, .. }, .. }) = refused else {
            panic!("{name}: {refused:?}");
        };
        assert_eq!(fence, all.fence(), "{name}");
    }
    sleep(TTL).await;
    assert!(all.is_held());
    assert!(matches!(all.release().await, ReleaseOutcome::Released));
    for name in ["set:a", "set:b", "set:c"] {
        drop(other.named(name).unwrap().acquire().await.unwrap());
    }
}

/// Goal: clients that want the same names in other orders, or sets that overlap in a ring, all get their turn.
async fn sets_that_overlap_never_deadlock(one: &Locker, other: &Locker) {
    let sets = [["ring:a", "ring:b"], ["ring:b", "ring:c"], ["ring:c", "ring:a"], ["ring:b", "ring:a"]];
    let mut tasks = Vec::new();
    for (number, set) in sets.into_iter().enumerate() {
        let locker = if number % 2 == 0 { one } else { other };
        let lock = locker.all(set).unwrap().wait_timeout(SOON * 3);
        tasks.push(tokio::spawn(async move {
            for _ in 0..3 {
                let guard = lock.acquire().await.unwrap();
                sleep(Duration::from_millis(5)).await;
                assert!(matches!(guard.release().await, ReleaseOutcome::Released));
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
}

async fn a_waiter_for_several_names_is_woken(one: &Locker, other: &Locker) {
    let guard = one.named("woken:b").unwrap().acquire().await.unwrap();
    let waiter = tokio::spawn({
        let lock = other.all(["woken:a", "woken:b"]).unwrap().wait_timeout(SOON);
        async move { lock.acquire().await.map(|guard| guard.fence()) }
    });
    sleep(Duration::from_millis(300)).await;
    let fence = guard.fence();
    assert!(matches!(guard.release().await, ReleaseOutcome::Released));
    assert!(timeout(SOON, waiter).await.unwrap().unwrap().unwrap() > fence);
}

async fn losing_one_name_loses_all(one: &Locker, other: &Locker) {
    let all = one.all(["lose:a", "lose:b"]).unwrap().acquire().await.unwrap();
    let taken = other.named("lose:b").unwrap().force_release(all.token()).await;
    assert!(matches!(taken, ReleaseOutcome::Released));
    assert!(matches!(all.extend().await, Err(ExtendError::Lost(_))));
    assert!(!all.is_held());
    drop(all);
    drop(other.named("lose:a").unwrap().acquire().await.unwrap());
}

async fn at_most_so_many_permits_as_slots(one: &Locker, other: &Locker) {
    const SLOTS: u32 = 3;
    let (held, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut tasks = Vec::new();
    for number in 0..10 {
        let locker = if number % 2 == 0 { one } else { other };
        let semaphore = locker.semaphore("permits", SLOTS).unwrap().with(|lock| lock.wait_timeout(SOON * 3));
        let (held, most) = (held.clone(), most.clone());
        tasks.push(tokio::spawn(async move {
            let permit = semaphore.acquire().await.unwrap();
            assert!(permit.slot() < SLOTS);
            most.fetch_max(held.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            sleep(Duration::from_millis(20)).await;
            held.fetch_sub(1, Ordering::SeqCst);
            assert!(matches!(permit.release().await, ReleaseOutcome::Released));
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert!((1..=SLOTS as usize).contains(&most.load(Ordering::SeqCst)));
}

async fn several_permits_come_together(one: &Locker, other: &Locker) {
    let (mine, theirs) = (one.semaphore("many", 4).unwrap(), other.semaphore("many", 4).unwrap());
    let three = mine.acquire_many(3).await.unwrap();
    assert_eq!(three.slots().iter().collect::<BTreeSet<_>>().len(), 3);
    let last = theirs.try_acquire().await.unwrap();
    assert!(!three.slots().contains(&last.slot()));
    let refused = theirs.try_acquire().await;
    assert!(matches!(refused, Err(AcquireError::NoPermit { slots: 4, .. })), "{refused:?}");
    let seen = theirs.permits().await.unwrap();
    assert_eq!(seen.len(), 4);
    assert!(matches!(three.release().await, ReleaseOutcome::Released));
    assert!(matches!(last.release().await, ReleaseOutcome::Released));
    assert!(theirs.permits().await.unwrap().is_empty());
    for permits in [0, 5] {
        let refused = mine.acquire_many(permits).await;
        assert!(matches!(refused, Err(AcquireError::Config { .. })), "{refused:?}");
    }
}

async fn a_waiter_gets_the_permit_that_is_released(one: &Locker, other: &Locker) {
    let semaphore = one.semaphore("waited", 2).unwrap();
    let (first, second) = (semaphore.acquire().await.unwrap(), semaphore.acquire().await.unwrap());
    let waiter = tokio::spawn({
        let semaphore = other.semaphore("waited", 2).unwrap().with(|lock| lock.wait_timeout(SOON));
        async move { semaphore.acquire().await.map(|permit| (permit.slot(), permit.fence())) }
    });
    sleep(Duration::from_millis(300)).await;
    let (slot, fence) = (second.slot(), second.fence());
    assert!(matches!(second.release().await, ReleaseOutcome::Released));
    let (next, higher) = timeout(SOON, waiter).await.unwrap().unwrap().unwrap();
    assert_eq!(next, slot);
    assert!(higher > fence, "the fence belongs to the slot");
    assert!(first.is_held());
}

async fn clients_that_count_other_slots_are_refused(one: &Locker, other: &Locker) {
    let permit = one.semaphore("differs", 2).unwrap().acquire().await.unwrap();
    for slots in [1, 3] {
        let refused = other.semaphore("differs", slots).unwrap().try_acquire().await;
        assert!(matches!(refused, Err(AcquireError::SlotsDiffer { recorded: 2, .. })), "{refused:?}");
    }
    assert!(matches!(permit.release().await, ReleaseOutcome::Released));
    let changed = other.semaphore("differs", 3).unwrap().try_acquire().await.unwrap();
    let late = other.semaphore("differs", 2).unwrap().try_acquire().await;
    assert!(matches!(late, Err(AcquireError::SlotsDiffer { recorded: 3, .. })), "{late:?}");
    assert!(matches!(changed.release().await, ReleaseOutcome::Released));
}

async fn one_candidate_leads_and_the_next_has_a_higher_term(one: &Locker, other: &Locker) {
    let (mine, theirs) = (one.election("leader").unwrap(), other.election("leader").unwrap());
    assert_eq!(theirs.leader().await.unwrap(), None);
    let first = mine.campaign("10.0.0.1:80").await.unwrap();
    let mut observed = theirs.observe();
    let seen = next_leader(&mut observed).await;
    assert_eq!((seen.value.as_str(), seen.term), ("10.0.0.1:80", first.term()));
    let (term, successor) = (first.term(), theirs.clone().with(|lock| lock.wait_timeout(SOON)));
    let campaign = tokio::spawn(async move { successor.campaign("10.0.0.2:80").await });
    sleep(Duration::from_millis(200)).await;
    assert!(matches!(first.resign().await, ReleaseOutcome::Released));
    let next = next_leader(&mut observed).await;
    assert_eq!(next.value, "10.0.0.2:80");
    assert!(next.term > term);
    let second = campaign.await.unwrap().unwrap();
    assert_eq!((second.term(), second.value()), (next.term, "10.0.0.2:80"));
    for value in ["", "a\nb", &"x".repeat(201)] {
        assert!(matches!(mine.campaign(value).await, Err(AcquireError::Config { .. })), "{value:?}");
    }
    assert!(matches!(second.resign().await, ReleaseOutcome::Released));
}

/// The next leader that `observed` reports, whether the office was vacant before or not.
async fn next_leader(observed: &mut Observation) -> Leader {
    loop {
        if let LeaderChange::Elected(leader) = next_change(observed).await {
            return leader;
        }
    }
}

async fn next_change(observed: &mut Observation) -> LeaderChange {
    timeout(SOON, observed.next()).await.unwrap().unwrap()
}

/// Goal: an observer learns that there is no leader, whether it resigned or ended, and only after one that it
/// knows.
async fn a_vacancy_is_observed_after_each_leader(one: &Locker, other: &Locker) {
    let (mine, theirs) = (one.election("vacant").unwrap(), other.election("vacant").unwrap());
    let mut observed = theirs.observe();
    assert!(timeout(TTL / 5, observed.next()).await.is_err(), "there was no leader yet");
    let first = mine.campaign("first").await.unwrap();
    let term = first.term();
    assert_eq!(next_leader(&mut observed).await.term, term);
    assert!(timeout(TTL / 5, observed.next()).await.is_err(), "it still leads");
    assert!(matches!(first.resign().await, ReleaseOutcome::Released));
    assert_eq!(next_change(&mut observed).await, LeaderChange::Vacant { last_term: term });
    assert!(timeout(TTL / 5, observed.next()).await.is_err(), "a vacancy is reported once");

    let dying = mine.clone().with(|lock| lock.watchdog(false)).campaign("second").await.unwrap();
    assert_eq!(
        next_change(&mut observed).await,
        LeaderChange::Elected(theirs.leader().await.unwrap().unwrap())
    );
    let term = dying.term();
    assert_eq!(next_change(&mut observed).await, LeaderChange::Vacant { last_term: term });
    let mut late = theirs.observe_after(Some(term));
    assert_eq!(next_change(&mut late).await, LeaderChange::Vacant { last_term: term });
    let third = mine.campaign("third").await.unwrap();
    for observed in [&mut observed, &mut late] {
        assert_eq!(next_leader(observed).await.term, third.term());
    }
    assert!(third.term() > term);
    assert!(matches!(third.resign().await, ReleaseOutcome::Released));
}

async fn names_and_numbers_that_cannot_be_used_are_refused(locker: &Locker) {
    let names = |count: usize| (0..count).map(|number| number.to_string()).collect::<Vec<_>>();
    assert!(matches!(locker.all(names(0)), Err(ConfigError::NameSet(NameSetError::Empty))));
    assert!(matches!(locker.all(names(17)), Err(ConfigError::NameSet(NameSetError::TooMany { names: 17 }))));
    assert!(matches!(locker.all(["a", "a"]), Err(ConfigError::NameSet(NameSetError::Twice { .. }))));
    assert!(matches!(locker.all(["quorlock:slot:a:1"]), Err(ConfigError::Name(_))));
    for slots in [0, 1025] {
        let refused = locker.semaphore("a", slots).unwrap_err();
        assert!(refused.to_string().contains("give 1 to 1024"), "{refused}");
    }
    assert!(locker.semaphore("x".repeat(491), 1).is_err());
    let unfit = locker.named("never").unwrap().inspect().await.unwrap();
    assert_eq!(unfit.fence, None::<Fence>, "nothing was left behind");
}
