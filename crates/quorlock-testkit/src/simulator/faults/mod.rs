//! What can go wrong in a world.

pub(crate) mod fault_schedule;
pub(crate) mod node_list;

use std::collections::BTreeMap;
use std::fmt;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// All messages of one link are late.
    Delay,
    /// One connection breaks; messages in flight arrive or not.
    Cut,
    /// Requests are executed twice, the second time late.
    Duplicate,
    /// A client is cut off from some servers in both directions.
    Partition,
    /// Requests arrive, replies do not.
    OneWay,
    /// A server restarts with its memory.
    Crash,
    /// A server restarts without its memory.
    Amnesia,
    /// A server forgets everything while its connections stay.
    Flush,
    /// A server accepts commands and neither executes nor answers them for a while.
    Stop,
    /// A server's wall clock goes back a little.
    ServerClockBack,
    /// A server's wall clock jumps ahead. Wild worlds only.
    ServerClockAhead,
    /// A server drops one lock. Wild worlds only.
    Evict,
    /// A client is paused; its clocks run.
    Pause,
    /// A client's machine sleeps.
    Suspend,
    /// A client's wall clock jumps.
    ClientClock,
    /// A client dies and starts anew.
    ClientCrash,
    /// The fence counter of one name vanishes on a minority of servers. Wild worlds only.
    LoseCounter,
}

impl Fault {
    /// All kinds.
    pub const ALL: [Fault; 17] = [
        Fault::Delay,
        Fault::Cut,
        Fault::Duplicate,
        Fault::Partition,
        Fault::OneWay,
        Fault::Crash,
        Fault::Amnesia,
        Fault::Flush,
        Fault::Stop,
        Fault::ServerClockBack,
        Fault::ServerClockAhead,
        Fault::Evict,
        Fault::Pause,
        Fault::Suspend,
        Fault::ClientClock,
        Fault::ClientCrash,
        Fault::LoseCounter,
    ];

    /// Those of plain worlds.
    const PLAIN: usize = 16;
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = format!("{self:?}");
        f.pad(&name)
    }
}

/// How often each kind of fault was injected.
pub type Counts = BTreeMap<Fault, u64>;
