//! The checks of shared holds, upgrades, downgrades and slots that every node inside this crate must pass.

use super::contract::{HandClock, TTL, acquire, ask, extend, inspect, name, release, stamp, token};
use super::*;
use quorlock_core::{Fence, Mode};

fn with(command: Command, change: impl FnOnce(&mut Acquire)) -> Command {
    let Command::Acquire(mut acquire) = command else { panic!("no acquire") };
    change(&mut acquire);
    Command::Acquire(acquire)
}

pub(crate) fn share(text: &str, holder: u8, proposal: u64) -> Command {
    with(acquire(text, holder, proposal, TTL, false), |acquire| acquire.mode = Mode::Shared)
}

pub(crate) fn upgrade(text: &str, holder: u8, proposal: u64) -> Command {
    with(acquire(text, holder, proposal, TTL, false), |acquire| acquire.kind = AcquireKind::Upgrade)
}

fn extend_shared(text: &str, holder: u8) -> Command {
    let Command::Extend { name, token, ttl, tie, .. } = extend(text, holder, TTL, false) else {
        panic!("no extend")
    };
    Command::Extend { name, token, ttl, tie, mode: Mode::Shared, may_be_shared: true }
}

fn extend_upgraded(text: &str, holder: u8) -> Command {
    let Command::Extend { name, token, ttl, tie, mode, .. } = extend(text, holder, TTL, false) else {
        panic!("no extend")
    };
    Command::Extend { name, token, ttl, tie, mode, may_be_shared: true }
}

fn repair(text: &str, holder: u8, fence: u64) -> Command {
    with(acquire(text, holder, fence, TTL, false), |acquire| acquire.kind = AcquireKind::Repair)
}

pub(crate) fn downgrade(text: &str, holder: u8, (fence, at_most): (u64, u64)) -> Command {
    let (fence, at_most) = (Fence::new(fence), Fence::new(at_most));
    Command::Downgrade { name: name(text), token: token(holder), at_most, fence }
}

pub(crate) fn leave(text: &str, holder: u8) -> Command {
    let (name, token) = (name(text), token(holder));
    let (quiet, stored_after_token, may_be_shared, forced) = (false, None, true, false);
    Command::Release { name, token, quiet, stored_after_token, may_be_shared, forced }
}

/// On a node that knows none of these names.
pub(crate) async fn contract_of_modes(node: &Arc<dyn Node>) {
    shared_holders_exclude_exclusive_ones_only(node).await;
    each_shared_holder_is_extended_and_released_alone(node).await;
    a_shared_hold_raises_the_counter_strictly_and_is_stamped(node).await;
    a_shared_vote_that_arrives_twice_changes_nothing(node).await;
    an_upgrade_that_is_undone_leaves_the_fence_of_the_shared_hold(node).await;
    only_the_last_shared_holder_is_upgraded(node).await;
    a_downgrade_lets_others_share_and_keeps_the_fence(node).await;
    a_downgrade_behind_a_later_upgrade_changes_nothing(node).await;
    readers_are_held_off_until_that_is_ended(node).await;
    slots_are_counted_and_their_number_is_recorded_once(node).await;
    a_slot_that_is_released_notifies_the_watchers_of_its_semaphore(node).await;
}

async fn shared_holders_exclude_exclusive_ones_only(node: &Arc<dyn Node>) {
    assert_eq!(ask(node, &share("read", 1, 50)).await, "raised");
    assert_eq!(ask(node, &share("read", 2, 60)).await, "raised");
    assert_eq!(ask(node, &acquire("read", 3, 70, TTL, false)).await, "taken");
    assert!(
        inspect(node, "read").await.starts_with("shared by ann1@web fence 50, ann2@web fence 60 counter ")
    );
    assert_eq!(ask(node, &leave("read", 1)).await, "done");
    assert_eq!(ask(node, &acquire("read", 3, 80, TTL, false)).await, "taken", "one still reads");
    assert_eq!(ask(node, &leave("read", 2)).await, "done");
    assert_eq!(ask(node, &acquire("read", 3, 90, TTL, false)).await, "raised");
    assert_eq!(ask(node, &share("read", 4, 99)).await, "taken");
    assert_eq!(ask(node, &leave("read", 3)).await, "done", "whether shared or not");
}

async fn each_shared_holder_is_extended_and_released_alone(node: &Arc<dyn Node>) {
    ask(node, &share("alone", 1, 50)).await;
    ask(node, &share("alone", 2, 60)).await;
    assert_eq!(ask(node, &extend_shared("alone", 1)).await, "done");
    assert_eq!(ask(node, &extend_shared("alone", 3)).await, "gone");
    assert_eq!(ask(node, &extend_upgraded("alone", 1)).await, "gone", "it is not exclusive");
    assert_eq!(ask(node, &leave("alone", 1)).await, "done");
    assert_eq!(ask(node, &leave("alone", 1)).await, "gone");
    assert_eq!(ask(node, &extend_shared("alone", 1)).await, "gone");
    assert_eq!(ask(node, &extend_shared("alone", 2)).await, "done");
}

/// Goal: new readers do not keep a dead one alive.
pub(crate) async fn each_shared_holder_has_an_end_of_its_own(node: &Arc<dyn Node>, clock: &HandClock) {
    ask(node, &share("ends", 1, 50)).await;
    clock.advance(TTL / 2);
    ask(node, &share("ends", 2, 60)).await;
    clock.advance(TTL / 2);
    assert_eq!(inspect(node, "ends").await, "shared by ann2@web fence 60 counter 60");
    assert_eq!(ask(node, &extend_shared("ends", 1)).await, "gone");
    clock.advance(TTL / 2);
    assert_eq!(ask(node, &acquire("ends", 3, 70, TTL, false)).await, "raised");
}

async fn a_shared_hold_raises_the_counter_strictly_and_is_stamped(node: &Arc<dyn Node>) {
    assert_eq!(ask(node, &share("fenced", 1, 50)).await, "raised");
    assert!(ask(node, &share("fenced", 2, 50)).await.starts_with("unraised"));
    assert_eq!(ask(node, &stamp("fenced", 2, 40)).await, "stamped 51");
    assert_eq!(ask(node, &stamp("fenced", 3, 70)).await, "gone");
    assert_eq!(inspect(node, "fenced").await, "shared by ann1@web fence 50, ann2@web fence 51 counter 51");
}

/// Goal: a vote that the network repeats late does not shorten what was extended, nor forget the stamp.
async fn a_shared_vote_that_arrives_twice_changes_nothing(node: &Arc<dyn Node>) {
    assert_eq!(ask(node, &share("twice", 1, 50)).await, "raised");
    assert_eq!(ask(node, &stamp("twice", 1, 70)).await, "stamped 70");
    let short = with(share("twice", 1, 50), |vote| vote.ttl = TTL / 10);
    assert!(!ask(node, &short).await.contains("raised"));
    assert_eq!(inspect(node, "twice").await, "shared by ann1@web fence 70 counter 70");
    assert_eq!(ask(node, &leave("twice", 1)).await, "done");
}

/// Goal: a client that knows only the token does not take the fence of a failed upgrade for its own.
async fn an_upgrade_that_is_undone_leaves_the_fence_of_the_shared_hold(node: &Arc<dyn Node>) {
    assert_eq!(ask(node, &share("undone", 1, 50)).await, "raised");
    assert_eq!(ask(node, &upgrade("undone", 1, 60)).await, "raised");
    assert_eq!(ask(node, &downgrade("undone", 1, (50, 60))).await, "done");
    assert_eq!(inspect(node, "undone").await, "shared by ann1@web fence 50 counter 60");
    assert_eq!(ask(node, &leave("undone", 1)).await, "done");
}

async fn only_the_last_shared_holder_is_upgraded(node: &Arc<dyn Node>) {
    ask(node, &share("up", 1, 50)).await;
    ask(node, &share("up", 2, 60)).await;
    assert_eq!(ask(node, &upgrade("up", 1, 70)).await, "taken");
    assert_eq!(ask(node, &upgrade("up", 2, 71)).await, "taken");
    ask(node, &leave("up", 2)).await;
    assert_eq!(ask(node, &upgrade("up", 1, 80)).await, "raised");
    assert_eq!(inspect(node, "up").await, "ann1@web fence 80 left 10 counter 80");
    assert_eq!(ask(node, &share("up", 2, 90)).await, "taken");
    assert_eq!(ask(node, &extend("up", 1, TTL, false)).await, "done");
    assert_eq!(ask(node, &release("up", 1)).await, "done");
    assert_ne!(ask(node, &upgrade("up", 1, 99)).await, "raised", "it holds nothing");
}

async fn a_downgrade_lets_others_share_and_keeps_the_fence(node: &Arc<dyn Node>) {
    ask(node, &acquire("down", 1, 50, TTL, false)).await;
    assert_eq!(ask(node, &downgrade("down", 2, (50, 50))).await, "taken");
    assert_eq!(ask(node, &extend_shared("down", 1)).await, "done", "before the downgrade arrives");
    assert_eq!(ask(node, &downgrade("down", 1, (50, 50))).await, "done");
    assert_eq!(ask(node, &downgrade("down", 1, (50, 50))).await, "done", "again");
    assert_eq!(ask(node, &share("down", 2, 60)).await, "raised");
    assert_eq!(inspect(node, "down").await, "shared by ann1@web fence 50, ann2@web fence 60 counter 60");
    assert_eq!(ask(node, &leave("down", 1)).await, "done");
    assert_eq!(ask(node, &leave("down", 2)).await, "done");
    assert_eq!(ask(node, &downgrade("down", 1, (50, 50))).await, "gone");
}

/// Goal: a command that arrives late over an old connection does not make a writer share.
async fn a_downgrade_behind_a_later_upgrade_changes_nothing(node: &Arc<dyn Node>) {
    ask(node, &acquire("late", 1, 50, TTL, false)).await;
    ask(node, &downgrade("late", 1, (50, 50))).await;
    assert_eq!(ask(node, &upgrade("late", 1, 60)).await, "raised");
    assert_eq!(ask(node, &downgrade("late", 1, (50, 50))).await, "taken");
    assert_eq!(ask(node, &share("late", 2, 70)).await, "taken");
    assert_eq!(ask(node, &release("late", 1)).await, "done");
}

async fn readers_are_held_off_until_that_is_ended(node: &Arc<dyn Node>) {
    let hold_off = |ttl| Command::HoldOffReaders { name: name("off"), ttl };
    ask(node, &share("off", 1, 50)).await;
    assert_eq!(ask(node, &hold_off(TTL)).await, "done");
    assert_eq!(ask(node, &share("off", 2, 60)).await, "taken");
    assert_eq!(ask(node, &extend_shared("off", 1)).await, "done", "it goes on");
    assert_eq!(ask(node, &hold_off(Duration::ZERO)).await, "done");
    assert_eq!(ask(node, &share("off", 2, 70)).await, "raised");
}

/// Goal: after an upgrade that not all nodes executed, the others have it exclusively, too, before one of the
/// first ones fails. On nodes that may be one of several.
pub(crate) async fn a_repair_makes_a_hold_exclusive_where_its_upgrade_was_missed(node: &Arc<dyn Node>) {
    ask(node, &share("missed", 1, 50)).await;
    ask(node, &share("missed", 2, 60)).await;
    assert_eq!(ask(node, &extend_upgraded("missed", 1)).await, "gone");
    assert_eq!(ask(node, &repair("missed", 1, 70)).await, "taken", "another client shares it");
    ask(node, &leave("missed", 2)).await;
    assert!(ask(node, &repair("missed", 1, 70)).await.contains("raised"), "done, whatever the counter was");
    assert_eq!(inspect(node, "missed").await, "ann1@web fence 70 left 10 counter 70");
    assert_eq!(ask(node, &extend_upgraded("missed", 1)).await, "done");
    assert_eq!(ask(node, &repair("missed", 1, 70)).await, "taken", "it has it");
}

fn slots(count: u32, record: RecordSlots) -> Command {
    Command::Slots { name: name("gpu"), count, record }
}

fn slot(number: u32) -> Name {
    Name::of_slot(&name("gpu"), number)
}

async fn slots_are_counted_and_their_number_is_recorded_once(node: &Arc<dyn Node>) {
    assert_eq!(ask(node, &slots(3, RecordSlots::Nothing)).await, "no slots, taken 000");
    assert_eq!(ask(node, &slots(3, RecordSlots::Refused)).await, "no slots, taken 000");
    assert_eq!(ask(node, &slots(3, RecordSlots::IfNone)).await, "3 slots, taken 000");
    let permit = with(acquire("x", 1, 50, TTL, false), |acquire| acquire.name = slot(1));
    assert_eq!(ask(node, &permit).await, "raised");
    assert_eq!(ask(node, &slots(3, RecordSlots::IfNone)).await, "3 slots, taken 010");
    assert_eq!(ask(node, &slots(4, RecordSlots::IfNone)).await, "3 slots, taken 0100");
    assert_eq!(ask(node, &slots(0, RecordSlots::Nothing)).await, "3 slots, taken ");
    assert_eq!(ask(node, &slots(4, RecordSlots::Refused)).await, "3 slots, refused 4, taken 0100");
    assert_eq!(ask(node, &slots(3, RecordSlots::IfNone)).await, "3 slots, refused 4, taken 010");
    assert_eq!(ask(node, &slots(4, RecordSlots::Replace)).await, "4 slots, taken 0100");
}

async fn a_slot_that_is_released_notifies_the_watchers_of_its_semaphore(node: &Arc<dyn Node>) {
    let wakeup = Wakeup::new();
    node.watch(&name("gpu"), &wakeup);
    // The look of a waiter: it is answered after the watch has begun.
    assert_eq!(ask(node, &slots(4, RecordSlots::Nothing)).await, "4 slots, taken 0100");
    let Command::Release { token, quiet, stored_after_token, may_be_shared, forced, .. } = release("x", 1)
    else {
        panic!("no release")
    };
    let release = Command::Release { name: slot(1), token, quiet, stored_after_token, may_be_shared, forced };
    assert_eq!(ask(node, &release).await, "done");
    let notified = tokio::time::timeout(Duration::from_secs(60), wakeup.notified()).await;
    notified.expect("a release notifies");
    node.unwatch(&name("gpu"));
}
