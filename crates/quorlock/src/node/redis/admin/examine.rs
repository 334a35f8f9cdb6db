//! Examining a server, without changing anything on it.

use crate::context::RestartGuard;
use crate::node::redis::admin::permissions;
use crate::node::redis::admin::session::Session;
use crate::node::redis::connection::handshake;
use crate::node::redis::link::Link;
use crate::node::redis::link::epoch::{Epoch, quarantine};
use crate::node::redis::link::greeting::ahead;
use crate::node::redis::link::voting_right::Verified;
use crate::node::redis::protocol::compare_and_delete;
use crate::node::redis::protocol::encode::EPOCH_KEY;
use crate::node::redis::protocol::resp::Value;
use crate::node::redis::protocol::server_info::{
    FSYNC, SKIP_SYNC, SYNC, ServerInfo, check_sync, field, setting,
};
use crate::node::redis::protocol::verify;
use crate::node::server_text::server_text;
use crate::node::{EpochFacts, FastRelease, NodeError, Persistence, ServerFacts};
use quorlock_core::Wall;
use std::time::Duration;
use tokio::time::timeout;

/// How many pings the round trip is the median of.
const PINGS: usize = 5;

/// Connects anew and asks; each of the two takes at most the connect timeout.
pub(crate) async fn examine(link: &Link) -> Result<ServerFacts, NodeError> {
    let session = Session::open(link).await?;
    let limit = link.ctx.connect_timeout;
    let examination = Examination { link, session }.run();
    timeout(limit, examination).await.unwrap_or(Err(NodeError::Timeout { after: limit }))
}

struct Examination<'a> {
    link: &'a Link,
    session: Session,
}

impl Examination<'_> {
    async fn run(mut self) -> Result<ServerFacts, NodeError> {
        let info = self.session.call(&["INFO"]).await?;
        let info = String::from_utf8_lossy(info.text().unwrap_or_default()).into_owned();
        let server_info = ServerInfo::parse(&info);
        let sync = self.call_raw(&FSYNC.map(|word| std::str::from_utf8(word).unwrap_or_default())).await?;
        let persistence = self.persistence(&server_info, &info, &sync).await?;
        let refusal = self.refusal(&server_info, &sync);
        let clock_ahead_micros = self.clock_ahead().await?;
        let denied = match &refusal {
            Some(cause) if !is_setting(cause) => Vec::new(),
            _ => permissions::denied(&mut self.session, &verify::nonce(&self.link.ctx)).await?,
        };
        // What a server refuses to all users, such as when its memory is full, is not a missing
        // permission.
        let (denied, refused): (Vec<_>, Vec<_>) =
            denied.into_iter().partition(|denial| is_permission(&denial.cause));
        let refusal = refusal.or_else(|| refused.into_iter().next().map(|denial| denial.cause));
        let number = |name| field(&info, name)?.parse::<u64>().ok();
        Ok(ServerFacts {
            epoch: self.epoch(&server_info, clock_ahead_micros.unwrap_or_default()).await?,
            round_trip: self.round_trip().await?,
            user: self.text(&["ACL", "WHOAMI"]).await?,
            fast_release: self.fast_release().await?,
            version: server_info.version,
            run_id: server_info.run_id,
            mode: server_info.mode,
            role: server_info.role,
            replicas: server_info.replicas,
            uptime: number("uptime_in_seconds").map(Duration::from_secs),
            refusal,
            eviction_policy: server_info.policy,
            memory_limit: number("maxmemory").filter(|limit| *limit > 0),
            memory_used: number("used_memory"),
            recall: persistence.recall(),
            persistence,
            clock_ahead_micros,
            denied,
        })
    }

    fn refusal(&self, server_info: &ServerInfo, sync: &Value) -> Option<NodeError> {
        let durable = || match self.link.login.durable {
            true => server_info.check_durable().and_then(|()| check_sync(sync)),
            false => Ok(()),
        };
        server_info.check(self.link.ctx.allow_eviction).and_then(|()| durable()).err()
    }

    async fn persistence(
        &mut self,
        server_info: &ServerInfo,
        info: &str,
        sync: &Value,
    ) -> Result<Persistence, NodeError> {
        let went_well = |name| field(info, name).map(|status| status == "ok");
        Ok(Persistence {
            appends: server_info.appends,
            append_sync: setting(sync, SYNC),
            syncs_while_saving: setting(sync, SKIP_SYNC).map(|skips| skips == "no"),
            snapshots: self.setting("save").await?,
            last_append_ok: went_well("aof_last_write_status").filter(|_| server_info.appends),
            last_snapshot_ok: went_well("rdb_last_bgsave_status"),
        })
    }

    /// A setting of the server; `None` if it does not report it.
    async fn setting(&mut self, name: &str) -> Result<Option<String>, NodeError> {
        Ok(setting(&self.call_raw(&["CONFIG", "GET", name]).await?, name))
    }

    async fn clock_ahead(&mut self) -> Result<Option<i64>, NodeError> {
        let before = self.wall();
        let answer = self.call_raw(&["TIME"]).await?;
        let after = self.wall();
        Ok(handshake::time(&answer).map(|there| ahead(there, before, after)))
    }

    async fn round_trip(&mut self) -> Result<Option<Duration>, NodeError> {
        let mut times = Vec::with_capacity(PINGS);
        for _ in 0..PINGS {
            let start = self.link.ctx.clock.now();
            self.call_raw(&["PING"]).await?;
            times.push(self.link.ctx.clock.now().since(start));
        }
        times.sort_unstable();
        Ok(times.get(PINGS / 2).copied())
    }

    /// Reads the epoch, and only reads it: a client that votes would begin a new one if needed.
    async fn epoch(&mut self, server_info: &ServerInfo, ahead: i64) -> Result<Option<EpochFacts>, NodeError> {
        let stored = self.call_raw(&["GET", EPOCH_KEY]).await?;
        let ctx = &self.link.ctx;
        let now = Wall::from_micros(ctx.clock.wall().as_micros().saturating_add_signed(ahead));
        let Some((origin, epoch)) = stored.text().and_then(Epoch::of_stored) else {
            return Ok(None);
        };
        let login = &self.link.login;
        let is_of_this_run = origin.run_id == server_info.run_id && origin.db == login.db;
        let is_kept = origin.db == login.db && login.durable && origin.durable;
        let recorded = ctx.longest.recorded();
        let quarantine = match ctx.guard {
            RestartGuard::Off => Duration::ZERO,
            RestartGuard::Strict if is_of_this_run || is_kept => {
                let before = self.link.lock().epoch.clone();
                let here = ctx.clock.now();
                Verified::new((&epoch, now), before.as_ref(), here).left(recorded, here)
            }
            RestartGuard::Strict => quarantine(epoch.longest.max(recorded)),
        };
        Ok(Some(EpochFacts {
            age: epoch.age(now),
            longest_ttl: epoch.longest,
            is_of_this_run,
            quarantine,
            nonce: server_text(epoch.nonce()),
        }))
    }

    async fn fast_release(&mut self) -> Result<Option<FastRelease>, NodeError> {
        Ok(compare_and_delete::supported(&self.call_raw(&compare_and_delete::WHICH).await?))
    }

    async fn text(&mut self, words: &[&str]) -> Result<Option<String>, NodeError> {
        Ok(self.call_raw(words).await?.text().map(server_text))
    }

    /// Sends a command that a server may refuse to answer.
    async fn call_raw(&mut self, words: &[&str]) -> Result<Value, NodeError> {
        self.session.call_raw(words).await
    }

    fn wall(&self) -> Wall {
        self.link.ctx.clock.wall()
    }
}

/// Whether a server that is refused for `cause` could be a node with other settings.
fn is_setting(cause: &NodeError) -> bool {
    matches!(cause, NodeError::Evicts { .. } | NodeError::NotDurable { .. } | NodeError::Replicated { .. })
}

/// Whether a command was refused to us and not to all users.
fn is_permission(cause: &NodeError) -> bool {
    matches!(cause, NodeError::NoPermission { .. } | NodeError::Server { .. })
}
