//! Examining an ensemble: its version, which members answer, what is held, and whether we may do what locks
//! need.

use crate::node::server_text::server_text;
use crate::node::zookeeper::client::Member;
use crate::node::zookeeper::client::call::CallError;
use crate::node::zookeeper::lock_store::Store;
use crate::node::zookeeper::paths::name_of;
use crate::node::zookeeper::stored::Stored;
use crate::node::{Names, NodeError, StoreFacts};
use quorlock_core::Name;
use std::time::{Duration, Instant};

/// Where members publish who they are.
const CONFIG: &str = "/zookeeper/config";
/// How many names are read at once.
const BATCH: usize = 256;
/// How long listing the names may take.
const LISTING: Duration = Duration::from_secs(10);

/// What a member answered to `srvr`.
struct MemberState {
    version: Option<String>,
    /// Whether it gives clients a session in which they may write.
    serves: bool,
}

impl Store {
    /// Kind and version of the ensemble, after it has answered.
    pub(crate) async fn version(&self) -> Result<String, NodeError> {
        let deadline = self.client.deadline();
        let path = &self.paths.locks;
        self.client.stat(path, deadline).await.map_err(|error| error.cause(path))?;
        let version = match self.client.current_member() {
            Some(member) => self.state_of(member).await.ok().and_then(|state| state.version),
            None => None,
        };
        Ok(kind_and_version(version))
    }

    /// Examines the ensemble. Changes nothing but the clock znode.
    pub(crate) async fn facts(&self) -> Result<StoreFacts, NodeError> {
        let (mut version, mut silent) = (None, Vec::new());
        // At once: each that is silent takes as long as it may.
        let asked = self.client.members().iter().enumerate().map(|(number, _)| {
            let store = self.clone();
            tokio::spawn(async move { store.state_of(&store.client.members()[number]).await })
        });
        let asked: Vec<_> = asked.collect();
        for (member, asked) in self.client.members().iter().zip(asked) {
            let state = asked.await.unwrap_or(Err(NodeError::Abandoned));
            // One that may not answer the word serves clients all the same.
            if state.as_ref().map_or(true, |state| !state.serves) {
                silent.push(member.authority.clone());
            }
            version = version.or(state.ok().and_then(|state| state.version));
        }
        let deadline = self.client.deadline();
        let start = Instant::now();
        self.client
            .read(&self.paths.locks, deadline)
            .await
            .map_err(|error| error.cause(&self.paths.locks))?;
        let round_trip = start.elapsed();
        self.ask_time(deadline).await.map_err(|error| error.cause(&self.paths.clock))?;
        Ok(StoreFacts {
            version: kind_and_version(version),
            // Only a leader can have executed the write.
            has_leader: true,
            members: self.count_members().await.ok().flatten(),
            silent,
            size: 0,
            errors: Vec::new(),
            round_trip,
        })
    }

    /// How many members vote, if the ensemble reports it.
    async fn count_members(&self) -> Result<Option<usize>, CallError> {
        let Some((data, _)) = self.client.read(CONFIG, self.client.deadline()).await? else {
            return Ok(None);
        };
        let config = String::from_utf8_lossy(&data).into_owned();
        let voters = config.lines().filter(|line| line.starts_with("server.") && !line.contains(":observer"));
        Ok(Some(voters.count().max(1)))
    }

    async fn state_of(&self, member: &Member) -> Result<MemberState, NodeError> {
        let answer = self.client.four_letter_word(member, "srvr").await?;
        Ok(MemberState {
            version: value_of(&answer, "Zookeeper version: ").map(short_version),
            serves: serves(&answer),
        })
    }

    /// The names that are held.
    pub(crate) async fn held_names(&self) -> Result<Names, NodeError> {
        let start = Instant::now();
        let mut names = Vec::new();
        let failed = |error: CallError| error.cause(&self.paths.locks);
        let buckets =
            self.client.children(&self.paths.locks, self.client.deadline()).await.map_err(failed)?;
        for bucket in buckets {
            let bucket = format!("{}/{bucket}", self.paths.locks);
            let below = self.client.children(&bucket, self.client.deadline()).await.map_err(failed)?;
            let known: Vec<Name> = below.iter().filter_map(|leaf| name_of(leaf)).collect();
            for batch in known.chunks(BATCH) {
                if names.len() > Names::MOST || start.elapsed() > LISTING {
                    return Ok(Names::new(names).incomplete());
                }
                let parents = self.held_of(batch, &mut names).await.map_err(failed)?;
                for semaphore in parents {
                    let path = self.paths.of(&semaphore);
                    let slots = self.client.children(&path, self.client.deadline()).await.map_err(failed)?;
                    let slots = slots.iter().filter_map(|slot| slot.parse().ok());
                    let slots: Vec<Name> = slots.map(|slot| Name::of_slot(&semaphore, slot)).collect();
                    self.held_of(&slots, &mut names).await.map_err(failed)?;
                }
            }
        }
        Ok(Names::new(names))
    }

    /// Adds those of `batch` that are held to `names`. Returns those that have slots.
    async fn held_of(&self, batch: &[Name], names: &mut Vec<Name>) -> Result<Vec<Name>, CallError> {
        let paths: Vec<String> = batch.iter().map(|name| self.paths.of(name)).collect();
        let found = self.client.read_all(&paths, self.client.deadline()).await?;
        let mut parents = Vec::new();
        for (name, found) in batch.iter().zip(found) {
            let Some((data, stat)) = found else { continue };
            if stat.children > 0 {
                parents.push(name.clone());
            }
            if Stored::parse(&data, stat).is_ok_and(|stored| self.is_held(&stored)) {
                names.push(name.clone());
            }
        }
        Ok(parents)
    }
}

fn kind_and_version(version: Option<String>) -> String {
    version.map_or("zookeeper".to_owned(), |version| format!("zookeeper {version}"))
}

/// Whether the member that answered sees a leader.
fn serves(answer: &str) -> bool {
    !answer.is_empty() && !answer.contains("not currently serving") && !answer.contains("Mode: read-only")
}

fn value_of(answer: &str, key: &str) -> Option<String> {
    let value = answer.lines().find_map(|line| line.strip_prefix(key))?;
    Some(server_text(value))
}

/// `3.8.0` of `3.8.0-${mvngit.commit.id}, built on ..`.
fn short_version(version: String) -> String {
    version.split(['-', ',', ' ']).next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_and_mode_are_found_in_the_answer() {
        let answer = "Zookeeper version: 3.8.0-5a02a05eddb59aee6ac762f7ea82e92a68eb9c0f, built on 2022\nMode: leader\n";
        assert_eq!(value_of(answer, "Zookeeper version: ").map(short_version).as_deref(), Some("3.8.0"));
        let forbidden = "srvr is not executed because it is not in the whitelist.";
        let alone = "This ZooKeeper instance is not currently serving requests";
        assert_eq!(value_of(forbidden, "Zookeeper version: "), None);
        assert_eq!([answer, forbidden, alone, ""].map(serves), [true, true, false, false]);
    }
}
