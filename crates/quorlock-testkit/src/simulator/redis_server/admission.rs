//! What a server refuses before it executes a command.

use crate::simulator::redis_server::command_table::{Command, Keys, Lookup, Spec, find};
use crate::simulator::redis_server::commands::Caller;
use crate::simulator::redis_server::keyspace::matches;
use crate::simulator::redis_server::numbers::integer;
use crate::simulator::redis_server::resp::{Protocol, Reply};
use crate::simulator::redis_server::{RedisServer, Version};

/// How much of the words of an unknown command its error repeats.
const MAX_QUOTED: usize = 128;

pub(super) const OUT_OF_MEMORY: &str = "OOM command not allowed when used memory > 'maxmemory'.";
pub(super) const READ_ONLY: &str = "READONLY You can't write against a read only replica.";

/// What was taken away from all users.
#[derive(Clone, Debug, Default)]
pub(super) struct Revoked {
    pub(super) commands: Vec<String>,
    pub(super) keys: Vec<String>,
    pub(super) channels: Vec<String>,
}

/// A right that is missing.
enum Denial {
    Command,
    Key,
    Channel,
}

impl Revoked {
    fn denial(&self, spec: &Spec, words: &[&[u8]]) -> Option<Denial> {
        if self.commands.is_empty() && self.keys.is_empty() && self.channels.is_empty() {
            return None;
        }
        // Logging in is never denied.
        if matches!(spec.command, Command::Hello | Command::Auth | Command::Quit) {
            return None;
        }
        if self.commands.iter().any(|name| name == spec.name || name == spec.container()) {
            return Some(Denial::Command);
        }
        let is_in = |patterns: &[String], words: &[&[u8]]| {
            words.iter().any(|word| patterns.iter().any(|pattern| matches(pattern.as_bytes(), word)))
        };
        let rest = words.get(1..).unwrap_or_default();
        let first = rest.get(..1).unwrap_or_default();
        match spec.keys {
            Keys::None => None,
            Keys::First => is_in(&self.keys, first).then_some(Denial::Key),
            Keys::All => is_in(&self.keys, rest).then_some(Denial::Key),
            Keys::Counted => {
                let count = words.get(2).and_then(|word| integer(word)).unwrap_or_default();
                let end = usize::try_from(count).unwrap_or_default().saturating_add(3).min(words.len());
                is_in(&self.keys, words.get(3..end).unwrap_or_default()).then_some(Denial::Key)
            }
            Keys::FirstChannel => is_in(&self.channels, first).then_some(Denial::Channel),
            Keys::Channels => is_in(&self.channels, rest).then_some(Denial::Channel),
        }
    }
}

impl RedisServer {
    /// The command that `words` are, or why a client gets it refused.
    pub(super) fn admit(&self, caller: &Caller, words: &[&[u8]]) -> Result<&'static Spec, Reply> {
        let logged_in = self.connections.get(&caller.connection).is_some_and(|client| client.logged_in);
        let found = find(words, self.version);
        // Valkey keeps what it knows from clients that have not logged in.
        if self.version.is_valkey()
            && !logged_in
            && !matches!(&found, Lookup::Known(spec) if spec.runs_without_login())
        {
            return Err(Reply::error("NOAUTH Authentication required."));
        }
        let spec = self.known(found, words)?;
        if !logged_in && !spec.runs_without_login() {
            return Err(Reply::error("NOAUTH Authentication required."));
        }
        if let Some(denial) = self.state.revoked.denial(spec, words) {
            return Err(Reply::Error(self.refusal(&denial, spec).into()));
        }
        self.admit_now(caller, spec)?;
        Ok(spec)
    }

    /// Whether the state of the server allows the command.
    fn admit_now(&self, caller: &Caller, spec: &Spec) -> Result<(), Reply> {
        let name = self.version.title();
        if self.state.out_of_memory && spec.is_denied_without_memory() {
            return Err(Reply::error(OUT_OF_MEMORY));
        }
        if self.state.is_replica && spec.is_write() {
            return Err(Reply::error(READ_ONLY));
        }
        let subscribed =
            self.connections.get(&caller.connection).is_some_and(|client| !client.channels.is_empty());
        if subscribed && caller.protocol == Protocol::Resp2 && !spec.runs_while_subscribed() {
            return Err(Reply::Error(self.only_pubsub(spec).into()));
        }
        if self.state.loading && !spec.runs_while_loading() {
            return Err(Reply::Error(format!("LOADING {name} is loading the dataset in memory").into()));
        }
        if self.state.busy && !spec.runs_while_busy(self.version) {
            let text = format!(
                "BUSY {name} is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
            );
            return Err(Reply::Error(text.into()));
        }
        Ok(())
    }

    /// The command that a script calls, or the text of the error, without a code if Redis adds it.
    pub(super) fn admit_in_script(
        &self,
        words: &[&[u8]],
        has_written: bool,
    ) -> Result<&'static Spec, String> {
        let known = match find(words, self.version) {
            Lookup::Known(spec) => spec,
            Lookup::Unknown | Lookup::UnknownSubcommand | Lookup::MissingSubcommand(_) => {
                return Err(self.script_text("Unknown {}command called from script"));
            }
        };
        if !known.accepts(words.len(), self.version) {
            return Err(self.script_text(match self.version {
                Version::Redis62 => "Wrong number of args calling {}command From script",
                _ => "Wrong number of args calling {}command from script",
            }));
        }
        if known.is_denied_in_scripts() {
            let name = self.version.title();
            let scripts = if self.version == Version::Redis62 { "scripts" } else { "script" };
            return Err(format!("This {name} command is not allowed from {scripts}"));
        }
        if let Some(denial) = self.state.revoked.denial(known, words) {
            return Err(self.refusal_in_script(&denial, known));
        }
        // What a script has begun it may finish.
        if self.state.is_replica && known.is_write() && !has_written {
            return Err(format!("-{READ_ONLY}"));
        }
        if self.state.out_of_memory && known.is_denied_without_memory() && !has_written {
            return Err(format!("-{OUT_OF_MEMORY}"));
        }
        Ok(known)
    }

    fn known(&self, found: Lookup, words: &[&[u8]]) -> Result<&'static Spec, Reply> {
        let wrong_arity = |name: &str| format!("ERR wrong number of arguments for '{name}' command");
        let text = match found {
            Lookup::Known(spec) if spec.accepts(words.len(), self.version) => return Ok(spec),
            Lookup::Known(spec) if self.version == Version::Redis62 && spec.name != spec.container() => {
                self.unknown_subcommand(words)
            }
            Lookup::Known(spec) => wrong_arity(spec.name),
            Lookup::MissingSubcommand(name) => wrong_arity(name),
            Lookup::UnknownSubcommand => self.unknown_subcommand(words),
            Lookup::Unknown => self.unknown_command(words),
        };
        Err(Reply::Error(text.into()))
    }

    fn unknown_subcommand(&self, words: &[&[u8]]) -> String {
        let lossy = |at: usize| String::from_utf8_lossy(words.get(at).copied().unwrap_or_default());
        let (container, given) = (lossy(0).to_uppercase(), lossy(1));
        if self.version == Version::Redis62 {
            return format!(
                "ERR Unknown subcommand or wrong number of arguments for '{given}'. Try {container} HELP."
            );
        }
        format!("ERR unknown subcommand '{given}'. Try {container} HELP.")
    }

    fn unknown_command(&self, words: &[&[u8]]) -> String {
        let cut =
            |word: &[u8], most: usize| String::from_utf8_lossy(&word[..word.len().min(most)]).into_owned();
        let name = cut(words.first().copied().unwrap_or_default(), MAX_QUOTED);
        let old = self.version == Version::Redis62;
        let mut given = String::new();
        for word in words.get(1..).unwrap_or_default() {
            if given.len() >= MAX_QUOTED {
                break;
            }
            let word = cut(word, MAX_QUOTED - given.len());
            given += &if old { format!("`{word}`, ") } else { format!("'{word}' ") };
        }
        let (open, close) = if old { ('`', '`') } else { ('\'', '\'') };
        format!("ERR unknown command {open}{name}{close}, with args beginning with: {given}")
    }

    fn refusal(&self, denial: &Denial, spec: &Spec) -> String {
        match self.version {
            Version::Redis62 | Version::Redis7 => {
                let what = match denial {
                    Denial::Command if self.version == Version::Redis62 => {
                        format!("run the '{}' command or its subcommand", spec.container())
                    }
                    Denial::Command => format!("run the '{}' command", spec.name),
                    Denial::Key => "access one of the keys used as arguments".to_owned(),
                    Denial::Channel => "access one of the channels used as arguments".to_owned(),
                };
                format!("NOPERM this user has no permissions to {what}")
            }
            Version::Redis84 | Version::Valkey9 => format!("NOPERM {}", self.short_refusal(denial, spec)),
        }
    }

    fn short_refusal(&self, denial: &Denial, spec: &Spec) -> String {
        match denial {
            Denial::Command => format!("User default has no permissions to run the '{}' command", spec.name),
            Denial::Key => "No permissions to access a key".to_owned(),
            Denial::Channel => "No permissions to access a channel".to_owned(),
        }
    }

    fn refusal_in_script(&self, denial: &Denial, spec: &Spec) -> String {
        match (self.version, denial) {
            (Version::Redis84 | Version::Valkey9, _) => {
                format!("ACL failure in script: {}", self.short_refusal(denial, spec))
            }
            (_, Denial::Command) => {
                "The user executing the script can't run this command or subcommand".to_owned()
            }
            (_, Denial::Key) => "The user executing the script can't access at least one of the keys \
                                 mentioned in the command arguments"
                .to_owned(),
            (_, Denial::Channel) => "The user executing the script can't publish to the channel \
                                     mentioned in the command"
                .to_owned(),
        }
    }

    fn only_pubsub(&self, spec: &Spec) -> String {
        format!(
            "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed \
             in this context",
            spec.name
        )
    }

    /// An error of a script, where Redis names itself and Valkey does not.
    fn script_text(&self, text: &str) -> String {
        match self.version {
            Version::Valkey9 => text.replace("{}", ""),
            Version::Redis62 => text.replace("{}", "Redis ").replace("rom script", "rom Lua script"),
            _ => text.replace("{}", "Redis "),
        }
    }
}
