//! What a crash, a power cut or rot leaves of a state file.

use super::*;
use proptest::prelude::*;
use std::time::Duration;

fn name() -> Name {
    Name::new("invoice:42").unwrap()
}

fn record(counter: u64, value: &str, tied: bool) -> Record {
    Record {
        counter: Some(Fence::new(counter)),
        holds: vec![Hold {
            mode: Mode::Exclusive,
            value: value.to_owned(),
            deadline: Moment::from_boot(Duration::from_secs(counter)),
            span: Duration::from_secs(7),
            boot: BootId(u128::MAX - 5),
            tied: tied.then_some(Process { pid: 1, started: 2, space: 3 }),
        }],
        ..Record::default()
    }
}

/// Writes `record` as the store does, cutting the write off after `reach` bytes.
fn write(file: &mut [u8], record: Record, anchor: u64, reach: usize) -> State {
    let image = Image::read(file).unwrap();
    let state = State { sequence: image.state.sequence + 1, anchor, name: name(), record };
    let bytes = state.encode().unwrap();
    let at = image.next_slot(anchor) * SLOT_BYTES;
    let reach = reach.min(bytes.len());
    file[at..at + reach].copy_from_slice(&bytes[..reach]);
    state
}

#[test]
fn a_state_survives_its_bytes() {
    let refused = RefusedClient { count: 3, at: Moment::from_boot(Duration::from_secs(8)), boot: BootId(7) };
    let semaphores = [None, Some(refused)]
        .map(|refused| Record { slots: Some(SlotsRecord { count: 2, refused }), ..Record::default() });
    let records = [Record::default(), record(9, "token 9 ann", true), record(9, "", false)];
    for record in records.into_iter().chain(semaphores) {
        let mut file = Image::beginning(&name());
        let state = write(&mut file, record, FIRST, usize::MAX);
        assert_eq!(Image::read(&file).unwrap().state, state);
    }
}

#[test]
fn a_file_without_a_valid_slot_is_corrupt_not_free() {
    let mut file = Image::beginning(&name());
    write(&mut file, record(5, "a", false), FIRST, usize::MAX);
    for slot in file.chunks_mut(SLOT_BYTES) {
        slot[40] ^= 1;
    }
    assert_eq!(Image::read(&file), Err(Unreadable::Corrupt));
}

#[test]
fn a_state_of_a_later_version_is_not_taken_for_an_old_one() {
    let mut file = Image::beginning(&name());
    let mut later = State::first(&name()).encode().unwrap();
    later[8] = 2;
    let end = later.len() - CHECKSUM_BYTES;
    let checksum = fnv1a(&later[..end]);
    later[end..].copy_from_slice(&checksum.to_le_bytes());
    file[SLOT_BYTES..SLOT_BYTES + later.len()].copy_from_slice(&later);
    assert_eq!(Image::read(&file), Err(Unreadable::Version(2)));
}

#[test]
fn a_value_too_long_for_a_slot_is_refused() {
    let state = State { record: record(1, &"x".repeat(SLOT_BYTES), false), ..State::first(&name()) };
    assert_eq!(state.encode(), None);
}

proptest! {
    /// Goal: whatever byte a write stops at, the old or the new state is read.
    #[test]
    fn a_torn_write_leaves_the_old_or_the_new_state(
        changes in prop::collection::vec(("[a-z ]{0,300}", any::<bool>()), 1..8), reach in 0usize..900
    ) {
        let mut file = Image::beginning(&name());
        let mut old = State::first(&name());
        let mut anchor = FIRST;
        for (counter, (value, synced)) in (1u64..).zip(&changes) {
            let mut torn = file.clone();
            let new = write(&mut torn, record(counter, value, *synced), anchor, reach);
            let found = Image::read(&torn).unwrap().state;
            prop_assert!(found == old || found == new);
            old = write(&mut file, record(counter, value, *synced), anchor, usize::MAX);
            if *synced { anchor = old.sequence; }
        }
    }

    /// Goal: a power cut that loses any part of what was not synced leaves a state not older than the
    /// last synced.
    #[test]
    fn a_power_cut_never_leaves_less_than_what_was_synced(
        changes in prop::collection::vec(any::<bool>(), 1..12), lost in prop::collection::vec(any::<bool>(), FILE_BYTES / 64)
    ) {
        let mut cache = Image::beginning(&name());
        let mut disk = cache.clone();
        let (mut anchor, mut promised) = (FIRST, None);
        for (counter, synced) in (1u64..).zip(changes) {
            let state = write(&mut cache, record(counter, "value", false), anchor, usize::MAX);
            let mut cut = disk.clone();
            for (piece, keep_old) in lost.iter().enumerate() {
                let span = piece * 64..(piece + 1) * 64;
                if !keep_old { cut[span.clone()].copy_from_slice(&cache[span]); }
            }
            prop_assert!(Image::read(&cut).unwrap().state.record.counter >= promised);
            if synced {
                disk.clone_from(&cache);
                anchor = state.sequence;
                promised = state.record.counter;
            }
        }
    }

    /// Goal: a file is whole from its first moment on, so one that is shorter was cut, whatever is left
    /// of it.
    #[test]
    fn a_file_that_was_cut_short_is_never_read(length in 0..FILE_BYTES, count in 0u64..5) {
        let mut file = Image::beginning(&name());
        for counter in 1..=count {
            write(&mut file, record(counter, "value", false), FIRST, usize::MAX);
        }
        prop_assert_eq!(Image::read(&file[..length]), Err(Unreadable::Cut(length)));
    }

    /// Goal: content that the checksum lets through is read with care, too.
    #[test]
    fn any_content_under_a_right_checksum_is_read_without_panic(
        changes in prop::collection::vec((HEADER_BYTES..400, any::<u8>()), 0..6),
        tail in prop::collection::vec(any::<u8>(), 0..60), length in prop::option::of(any::<u32>())
    ) {
        let state = State { record: record(9, "token 9 ann", true), ..State::first(&name()) };
        let mut slot = state.encode().unwrap();
        slot.truncate(slot.len() - CHECKSUM_BYTES);
        for (at, byte) in changes {
            let at = at.min(slot.len() - 1);
            slot[at] = byte;
        }
        slot.extend(tail);
        let length = length.unwrap_or(u32::try_from(slot.len() - HEADER_BYTES).unwrap());
        slot[12..16].copy_from_slice(&length.to_le_bytes());
        let checksum = fnv1a(&slot);
        slot.extend(checksum.to_le_bytes());
        if let Ok(found) = State::decode(&slot) {
            prop_assert_eq!(State::decode(&found.encode().unwrap()), Ok(found));
        }
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), at in 0usize..200) {
        let mut file = Image::beginning(&name());
        let reach = bytes.len().min(file.len() - at);
        file[at..at + reach].copy_from_slice(&bytes[..reach]);
        let _ = Image::read(&file);
        let _ = Image::read(&bytes);
    }
}
