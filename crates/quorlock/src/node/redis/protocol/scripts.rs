//! The Lua scripts, and the hashes by which a server knows them.

use crate::node::redis::protocol::resp::Value;
use bytes::Bytes;
use sha1_smol::Sha1;

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
    /// Those that are loaded when a connection begins, because locks need them again and again. The others
    /// are sent whole the first time.
    pub(crate) const LOADED: [Script; 5] =
        [Script::Release, Script::Extend, Script::Stamp, Script::Verify, Script::Repair];

    const COUNT: usize = Script::Slots as usize + 1;

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

/// The hashes by which a server knows the scripts, and which of them it has.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hashes {
    hashes: [Bytes; Script::COUNT],
    /// Whether this connection has loaded it or sent it whole.
    is_known: [bool; Script::COUNT],
}

impl Hashes {
    /// Records the server's answer to loading `script`; `false` if it is no hash.
    pub(crate) fn record(&mut self, script: Script, answer: &Value) -> bool {
        match answer {
            Value::Text(hash) if !hash.is_empty() => {
                self.hashes[script as usize] = hash.clone();
                self.is_known[script as usize] = true;
                true
            }
            _ => false,
        }
    }

    pub(crate) fn of(&self, script: Script) -> &[u8] {
        &self.hashes[script as usize]
    }

    /// Whether `script` must be sent whole now. From then on the server has it.
    pub(crate) fn must_send(&mut self, script: Script) -> bool {
        if std::mem::replace(&mut self.is_known[script as usize], true) {
            return false;
        }
        self.hashes[script as usize] = Sha1::from(script.body()).hexdigest().into();
        true
    }

    /// Records that the server has forgotten `script`.
    pub(crate) fn forget(&mut self, script: Script) {
        self.is_known[script as usize] = Script::LOADED.contains(&script);
    }
}
