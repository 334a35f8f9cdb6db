//! Loading and calling scripts.

use super::{Answer, Caller, NOT_AN_INTEGER};
use crate::simulator::redis_server::command_table::{Command, Spec};
use crate::simulator::redis_server::lua::{self, hash_of};
use crate::simulator::redis_server::numbers::integer;
use crate::simulator::redis_server::resp::Reply;
use crate::simulator::redis_server::{RedisServer, Version};
use std::sync::Arc;

/// A script that a server has loaded.
#[derive(Clone, Debug)]
pub(in crate::simulator::redis_server) struct Script {
    text: Arc<[u8]>,
    /// What is run: the text, changed by injected bugs.
    pub(in crate::simulator::redis_server) runs: Arc<[u8]>,
    /// The hash of what is run.
    pub(in crate::simulator::redis_server) runs_hash: Arc<str>,
}

/// A text in scripts that an injected bug replaces.
#[derive(Clone, Debug)]
pub(in crate::simulator::redis_server) struct Replacement {
    from: String,
    to: String,
    found: usize,
}

impl RedisServer {
    /// Runs every script that has `from` with `to` in its place. Clients see the hash of the original.
    pub fn replace_in_scripts(&mut self, from: &str, to: &str) {
        self.replacements.push(Replacement { from: from.to_owned(), to: to.to_owned(), found: 0 });
        let texts: Vec<_> =
            self.scripts.iter().map(|(hash, script)| (hash.clone(), script.text.clone())).collect();
        for (hash, text) in texts {
            let script = self.prepare(&text);
            self.scripts.insert(hash, script);
        }
    }

    /// How often a text of a script was replaced. If it is never, the scripts have changed and the injected
    /// bug is not there.
    pub fn replaced_scripts(&self) -> usize {
        self.replacements.iter().map(|replacement| replacement.found).sum()
    }

    pub(super) fn eval(&mut self, caller: &Caller, spec: &Spec, words: &[&[u8]]) -> Answer {
        let keys = integer(words[2]).ok_or(NOT_AN_INTEGER)?;
        let Ok(keys) = usize::try_from(keys) else {
            return Err(Reply::error("ERR Number of keys can't be negative"));
        };
        if keys > words.len() - 3 {
            return Err(Reply::error("ERR Number of keys can't be greater than number of args"));
        }
        let hash = match spec.command {
            Command::Evalsha => String::from_utf8_lossy(words[1]).to_ascii_lowercase().into(),
            _ => hash_of(words[1]),
        };
        if !self.scripts.contains_key(&hash) {
            if spec.command == Command::Evalsha {
                return Err(Reply::error(match self.version {
                    Version::Valkey9 => "NOSCRIPT No matching script.",
                    _ => "NOSCRIPT No matching script. Please use EVAL.",
                }));
            }
            self.load(words[1])?;
        }
        let Some((hash, script)) = self.scripts.get_key_value(&hash) else {
            return Err(Reply::error("ERR the script is gone"));
        };
        let (hash, script) = (hash.clone(), script.clone());
        let (keys, arguments) = words[3..].split_at(keys);
        let caller = Caller { script: Some(hash), ..caller.clone() };
        Ok(lua::run(self, caller, &script, keys, arguments))
    }

    pub(super) fn script_load(&mut self, words: &[&[u8]]) -> Answer {
        self.load(words[2]).map(|hash| Reply::bulk(hash.as_bytes()))
    }

    pub(super) fn script_exists(&self, words: &[&[u8]]) -> Reply {
        let exists = |hash: &&[u8]| {
            let hash = String::from_utf8_lossy(hash).to_ascii_lowercase();
            Reply::Integer(i64::from(self.scripts.contains_key(hash.as_str())))
        };
        Reply::Array(words[2..].iter().map(exists).collect())
    }

    pub(super) fn script_flush(&mut self, words: &[&[u8]]) -> Answer {
        let mode = words.get(2).map(|word| word.to_ascii_uppercase());
        if words.len() > 3 || mode.is_some_and(|mode| mode != b"SYNC" && mode != b"ASYNC") {
            return Err(Reply::error("ERR SCRIPT FLUSH only support SYNC|ASYNC option"));
        }
        self.scripts.clear();
        Ok(Reply::OK)
    }

    fn load(&mut self, text: &[u8]) -> Result<Arc<str>, Reply> {
        let hash = hash_of(text);
        if !self.scripts.contains_key(&hash) {
            let script = self.prepare(text);
            lua::compile(&script).map_err(|message| {
                Reply::Error(format!("ERR Error compiling script (new function): {message}").into())
            })?;
            self.scripts.insert(hash.clone(), script);
        }
        Ok(hash)
    }

    /// Applies the injected bugs.
    fn prepare(&mut self, text: &[u8]) -> Script {
        let mut runs = String::from_utf8_lossy(text).into_owned();
        let mut is_changed = false;
        for replacement in &mut self.replacements {
            if runs.contains(&replacement.from) {
                runs = runs.replace(&replacement.from, &replacement.to);
                replacement.found += 1;
                is_changed = true;
            }
        }
        let runs: Arc<[u8]> = if is_changed { runs.into_bytes().into() } else { text.into() };
        let runs_hash = hash_of(&runs);
        Script { text: text.into(), runs, runs_hash }
    }
}
