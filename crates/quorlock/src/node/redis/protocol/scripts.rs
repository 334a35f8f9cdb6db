//! The Lua scripts, and the hashes by which a server knows them.

use crate::node::redis::protocol::resp::Value;
use bytes::Bytes;

/// A script that runs on the server, called by the hash that the server returned when it loaded it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Script {
    Release,
    Extend,
    Stamp,
    Verify,
    Repair,
    Share,
    Upgrade,
    Downgrade,
    Readers,
    Slots,
}

impl Script {
    pub(crate) const ALL: [Script; 10] = [
        Script::Release,
        Script::Extend,
        Script::Stamp,
        Script::Verify,
        Script::Repair,
        Script::Share,
        Script::Upgrade,
        Script::Downgrade,
        Script::Readers,
        Script::Slots,
    ];

    pub(crate) fn body(self) -> &'static str {
        match self {
            Script::Release => include_str!("lua/release.lua"),
            Script::Extend => include_str!("lua/extend.lua"),
            Script::Stamp => include_str!("lua/stamp.lua"),
            Script::Verify => include_str!("lua/verify.lua"),
            Script::Repair => include_str!("lua/repair.lua"),
            Script::Share => include_str!("lua/share.lua"),
            Script::Upgrade => include_str!("lua/upgrade.lua"),
            Script::Downgrade => include_str!("lua/downgrade.lua"),
            Script::Readers => include_str!("lua/readers.lua"),
            Script::Slots => include_str!("lua/slots.lua"),
        }
    }
}

/// Marks a server as fresh. It is rare, so it is sent whole.
pub(crate) const INIT: &str = include_str!("lua/init.lua");

/// Records a longer ttl. It is rare, so it is sent whole.
pub(crate) const RAISE: &str = include_str!("lua/raise.lua");

/// The hashes by which a server knows the scripts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hashes([Bytes; Script::ALL.len()]);

impl Hashes {
    /// Records the server's answer to loading `script`; `false` if it is no hash.
    pub(crate) fn record(&mut self, script: Script, answer: &Value) -> bool {
        match answer {
            Value::Text(hash) if !hash.is_empty() => {
                self.0[script as usize] = hash.clone();
                true
            }
            _ => false,
        }
    }

    pub(crate) fn of(&self, script: Script) -> &[u8] {
        &self.0[script as usize]
    }
}
