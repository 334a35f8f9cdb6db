//! What can go wrong in a world.

pub(crate) mod fault_schedule;
pub(crate) mod node_list;

use std::collections::BTreeMap;
use std::fmt;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// All segments of one client are late.
    Delay,
    /// One connection breaks; what is on its way arrives, or a part of it, or nothing.
    Cut,
    /// Requests are executed twice, the second time late and over another connection.
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
    /// A server accepts bytes and neither executes nor answers them for a while.
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
    /// Bytes arrive in small pieces.
    Split,
    /// A reply breaks off, and nothing more comes over its connection.
    HalfReply,
    /// Replies arrive twice.
    RepeatedReply,
    /// A client's sockets accept nothing for a while.
    FullSocket,
    /// A server's machine loses power and starts with its memory; its clients see no end of their
    /// connections.
    PowerLoss,
    /// A server restarts without its last writes.
    LostTail,
    /// A replica without the last writes takes the place of a server.
    Failover,
    /// A server forgets its scripts.
    ScriptFlush,
    /// A server loads its data and refuses commands.
    Loading,
    /// A script of another client keeps a server busy.
    Busy,
    /// A server has no memory for writes.
    OutOfMemory,
    /// A server is a replica for a while.
    ReadOnly,
    /// A user loses the right to a command for a while.
    NoPermission,
    /// A server restarts without its memory, and its clock jumps far ahead while it must not vote. Only
    /// in worlds in which no process starts later: such a process could not know.
    JumpInQuarantine,
    /// The fence counter of one name vanishes on a minority of servers. Wild worlds only.
    LoseCounter,
}

impl Fault {
    /// All kinds.
    pub const ALL: [Fault; 31] = [
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
        Fault::Split,
        Fault::HalfReply,
        Fault::RepeatedReply,
        Fault::FullSocket,
        Fault::PowerLoss,
        Fault::LostTail,
        Fault::Failover,
        Fault::ScriptFlush,
        Fault::Loading,
        Fault::Busy,
        Fault::OutOfMemory,
        Fault::ReadOnly,
        Fault::NoPermission,
        Fault::JumpInQuarantine,
        Fault::LoseCounter,
    ];

    /// Those of plain worlds.
    const PLAIN: usize = 30;

    /// Whether a server forgets something.
    fn forgets(self) -> bool {
        matches!(
            self,
            Fault::Amnesia | Fault::Flush | Fault::LostTail | Fault::Failover | Fault::JumpInQuarantine
        )
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = format!("{self:?}");
        f.pad(&name)
    }
}

/// How often each kind of fault was injected.
pub type Counts = BTreeMap<Fault, u64>;
