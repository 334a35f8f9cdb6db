//! The call that reads a server's epoch, or begins one.

use crate::context::{CLOCK_TOLERANCE, Context};
use crate::node::redis::protocol::encode::{EPOCH_KEY, Encoder, millis};
use crate::node::redis::protocol::scripts::{Hashes, Script};
use std::fmt::Write;
use std::time::Duration;

/// What was found out about a server that is marked durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Syncs {
    /// Nothing: it is not marked durable, or was not checked.
    #[default]
    Unknown,
    /// It syncs every write.
    Always,
    /// It does not, although it is marked durable.
    NotAlways,
}

/// The arguments of the verify script.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct VerifyRequest {
    /// The longest ttl that other nodes have recorded, if it is to be recorded here, too.
    recorded: Duration,
    /// The longest ttl of an epoch to begin, if there is none; zero to begin none.
    to_begin: Duration,
    /// Whether anything may be written at all.
    writes: bool,
    syncs: Syncs,
    db: u32,
    /// Whether the server is known to have forgotten.
    forgot: bool,
}

impl VerifyRequest {
    /// What may be requested now. A node gets an epoch only once a majority has reported: it must record
    /// what others have.
    pub(crate) fn new(ctx: &Context, db: u32, syncs: Syncs) -> Self {
        let writes = ctx.begins_epochs;
        let recorded = if writes { ctx.longest.recorded() } else { Duration::ZERO };
        let begins = writes && ctx.longest.has_majority();
        let to_begin = if begins { ctx.longest_to_record() } else { Duration::ZERO };
        Self { recorded, to_begin, writes, syncs, db, forgot: false }
    }

    /// Whether the server is known to have lost its memory.
    pub(crate) fn forgot(self, forgot: bool) -> Self {
        Self { forgot, ..self }
    }

    /// Writes the call; without hashes the script's text is sent.
    pub(crate) fn encode(&self, out: &mut Vec<u8>, hashes: Option<&Hashes>, ctx: &Context) {
        let command = Encoder::command(out, 11);
        let command = match hashes {
            Some(hashes) => command.arg("EVALSHA").arg(hashes.of(Script::Verify)),
            None => command.arg("EVAL").arg(Script::Verify.body()),
        }
        .arg("1")
        .arg(EPOCH_KEY)
        .number(millis(self.recorded));
        let command = if self.writes { command.number(millis(self.to_begin)) } else { command.arg("-") };
        command
            .arg(nonce(ctx))
            .arg(match self.syncs {
                Syncs::Unknown => "0",
                Syncs::Always => "1",
                Syncs::NotAlways => "-",
            })
            .number(self.db.into())
            .arg(if self.forgot { "1" } else { "0" })
            .number(millis(2 * CLOCK_TOLERANCE));
    }
}

/// A number for a new epoch that no other client will choose.
pub(crate) fn nonce(ctx: &Context) -> String {
    let mut random = [0; 16];
    ctx.entropy.fill(&mut random);
    random.iter().fold(String::with_capacity(32), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
