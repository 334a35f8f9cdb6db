//! The bytes of a state file: three slots, of which the newest valid one counts.
//!
//! A hold never outlives the boot, so only the counter must survive a power cut, and only once its number
//! was handed out. Therefore a change is synced only if it confirmed a number; all others just reach the
//! page cache, which every process of this boot shares. Each state names an *anchor*: an earlier state
//! known to be on disk. A change overwrites neither the newest state nor the anchor, so that a crash
//! leaves the newest and a power cut at least the anchor.

use crate::node::file::bytes::{Reader, Writer};
use crate::node::record::{BootId, Hold, Process, Record, RefusedClient, SlotsRecord};
use quorlock_core::hash::fnv1a;
use quorlock_core::{Fence, Mode, Moment, Name};

/// Room for over a hundred shared holders with short labels. What is not written takes no disk space.
pub(crate) const SLOT_BYTES: usize = 32 * 1024;
pub(crate) const SLOTS: usize = 3;
pub(crate) const FILE_BYTES: usize = SLOT_BYTES * SLOTS;

const MAGIC: &[u8; 8] = b"quorlock";
const VERSION: u32 = 1;
/// Magic, version, length of the payload, sequence number, anchor.
const HEADER_BYTES: usize = 8 + 4 + 4 + 8 + 8;
const CHECKSUM_BYTES: usize = 8;
const MAX_PAYLOAD: usize = SLOT_BYTES - HEADER_BYTES - CHECKSUM_BYTES;
/// The sequence number of the empty state that a file begins with.
const FIRST: u64 = 1;

/// One state of a name, as a slot stores it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    /// Grows by one with each change.
    pub(crate) sequence: u64,
    /// The sequence number of a state that is known to be on disk.
    pub(crate) anchor: u64,
    pub(crate) name: Name,
    pub(crate) record: Record,
}

/// Why a state file cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unreadable {
    /// No slot is valid.
    #[error(
        "no valid state in it; if no program uses the name now, remove the file (its fences then start anew by the wall clock)"
    )]
    Corrupt,
    /// A later version of this program wrote it.
    #[error("written in format {0}, which this version does not know; upgrade")]
    Version(u32),
    /// It is shorter than every state file is from its first moment on.
    #[error(
        "cut short to {0} bytes; if no program uses the name now, remove the file (its fences then start anew by the wall clock)"
    )]
    Cut(usize),
}

impl State {
    /// What a new file begins with.
    pub(crate) fn first(name: &Name) -> Self {
        Self { sequence: FIRST, anchor: FIRST, name: name.clone(), record: Record::default() }
    }

    /// Whether it is the beginning, which must be on disk before anything else is written.
    pub(crate) fn is_first(&self) -> bool {
        self.sequence == FIRST
    }

    /// The slot's bytes; `None` if the stored value is too long for one.
    pub(crate) fn encode(&self) -> Option<Vec<u8>> {
        let payload = encode_payload(&self.name, &self.record);
        if payload.len() > MAX_PAYLOAD {
            return None;
        }
        let mut slot = Writer::default();
        slot.raw(MAGIC);
        slot.u32(VERSION);
        slot.u32(u32::try_from(payload.len()).ok()?);
        slot.u64(self.sequence);
        slot.u64(self.anchor);
        slot.raw(&payload);
        let checksum = fnv1a(slot.as_bytes());
        slot.u64(checksum);
        Some(slot.into_bytes())
    }

    /// Reads a slot. Magic, version, length and checksum have the same places in every version.
    fn decode(slot: &[u8]) -> Result<Self, Unreadable> {
        let frame = Frame::of(slot).ok_or(Unreadable::Corrupt)?;
        if frame.version != VERSION {
            return Err(Unreadable::Version(frame.version));
        }
        frame.state().ok_or(Unreadable::Corrupt)
    }
}

/// A slot whose checksum is right.
struct Frame<'a> {
    version: u32,
    numbers: Reader<'a>,
    payload: Reader<'a>,
}

impl<'a> Frame<'a> {
    fn of(slot: &'a [u8]) -> Option<Self> {
        let mut header = Reader::new(slot);
        let magic = header.raw(MAGIC.len())?;
        let version = header.u32()?;
        let length = usize::try_from(header.u32()?).ok()?.min(MAX_PAYLOAD);
        let (guarded, rest) = slot.split_at_checked(HEADER_BYTES + length)?;
        let checksum = Reader::new(rest).u64()?;
        (magic == MAGIC && checksum == fnv1a(guarded)).then(|| Self {
            version,
            numbers: header,
            payload: Reader::new(&guarded[HEADER_BYTES..]),
        })
    }

    fn state(mut self) -> Option<State> {
        Some(State {
            sequence: self.numbers.u64()?,
            anchor: self.numbers.u64()?,
            name: Name::from_store(self.payload.text()?).ok()?,
            record: Record {
                counter: self.payload.option(|from| Fence::try_from(from.u64()?).ok())?,
                no_readers_until: self.payload.option(|from| Some(Moment::from_boot(from.duration()?)))?,
                slots: self.payload.option(decode_slots)?,
                holds: decode_holds(&mut self.payload)?,
            },
        })
    }
}

/// A state file that was read: its newest state, and where the next one may go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Image {
    pub(crate) state: State,
    /// The sequence number in each slot that is valid.
    sequences: [Option<u64>; SLOTS],
}

impl Image {
    /// Reads the bytes of a file.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Unreadable> {
        // What is left may be an older state.
        if bytes.len() < FILE_BYTES {
            return Err(Unreadable::Cut(bytes.len()));
        }
        let mut newest: Option<State> = None;
        let mut sequences = [None; SLOTS];
        for (slot, sequence) in bytes.chunks(SLOT_BYTES).zip(&mut sequences) {
            match State::decode(slot) {
                Ok(state) => {
                    *sequence = Some(state.sequence);
                    if newest.as_ref().is_none_or(|newest| newest.sequence < state.sequence) {
                        newest = Some(state);
                    }
                }
                Err(Unreadable::Corrupt) => {}
                Err(other) => return Err(other),
            }
        }
        newest.map(|state| Self { state, sequences }).ok_or(Unreadable::Corrupt)
    }

    /// The bytes that a file begins with: the first state, and zeros so that later writes never grow it.
    pub(crate) fn beginning(name: &Name) -> Vec<u8> {
        // A name alone always fits.
        let mut bytes = State::first(name).encode().unwrap_or_default();
        bytes.resize(FILE_BYTES, 0);
        bytes
    }

    /// Whether a slot holds the state number `sequence`.
    pub(crate) fn has(&self, sequence: u64) -> bool {
        self.sequences.contains(&Some(sequence))
    }

    /// The slot for the next state: neither the newest one nor the anchor.
    pub(crate) fn next_slot(&self, anchor: u64) -> usize {
        let in_use = [Some(self.state.sequence), Some(anchor)];
        let free = self.sequences.iter().position(|sequence| !in_use.contains(sequence));
        // Two of three slots are in use at most, so there is always one.
        free.unwrap_or_default()
    }
}

fn encode_payload(name: &Name, record: &Record) -> Vec<u8> {
    let mut payload = Writer::default();
    payload.text(name.as_str());
    payload.option(record.counter.as_ref(), |out, counter| out.u64(counter.get()));
    payload.option(record.no_readers_until.as_ref(), |out, until| out.duration(until.since_boot()));
    payload.option(record.slots.as_ref(), encode_slots);
    // A node keeps few hundred at most.
    payload.u32(u32::try_from(record.holds.len()).unwrap_or(u32::MAX));
    for hold in &record.holds {
        encode_hold(&mut payload, hold);
    }
    payload.into_bytes()
}

fn encode_slots(out: &mut Writer, slots: &SlotsRecord) {
    out.u32(slots.count);
    out.option(slots.refused.as_ref(), |out, refused| {
        out.u32(refused.count);
        out.duration(refused.at.since_boot());
        out.u128(refused.boot.0);
    });
}

fn decode_slots(from: &mut Reader<'_>) -> Option<SlotsRecord> {
    let count = from.u32()?;
    let refused = from.option(|from| {
        Some(RefusedClient {
            count: from.u32()?,
            at: Moment::from_boot(from.duration()?),
            boot: BootId(from.u128()?),
        })
    })?;
    Some(SlotsRecord { count, refused })
}

fn encode_hold(out: &mut Writer, hold: &Hold) {
    out.u32(u32::from(hold.mode == Mode::Shared));
    out.text(&hold.value);
    out.duration(hold.deadline.since_boot());
    out.duration(hold.span);
    out.u128(hold.boot.0);
    out.option(hold.tied.as_ref(), |out, process| {
        out.u32(process.pid);
        out.u64(process.started);
        out.u64(process.space);
    });
}

fn decode_holds(from: &mut Reader<'_>) -> Option<Vec<Hold>> {
    let count = usize::try_from(from.u32()?).ok()?;
    (count <= Record::MAX_READERS).then(|| (0..count).map(|_| decode_hold(from)).collect())?
}

fn decode_hold(from: &mut Reader<'_>) -> Option<Hold> {
    let mode = match from.u32()? {
        0 => Mode::Exclusive,
        1 => Mode::Shared,
        _ => return None,
    };
    Some(Hold {
        mode,
        value: from.text()?.to_owned(),
        deadline: Moment::from_boot(from.duration()?),
        span: from.duration()?,
        boot: BootId(from.u128()?),
        tied: from
            .option(|from| Some(Process { pid: from.u32()?, started: from.u64()?, space: from.u64()? }))?,
    })
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
