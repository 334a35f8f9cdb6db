//! What `INFO` reports about a server, and whether such a server can be a node.

use crate::node::NodeError;
use crate::node::redis::protocol::resp::Value;
use crate::node::server_text::server_text;
use quorlock_core::Wall;
use std::sync::Arc;

/// The oldest Redis version that has all the commands we use (`ZADD GT`, `SET KEEPTTL`, RESP3).
const OLDEST: (u32, u32) = (6, 2);

/// Asks when the server syncs its append-only file, and whether it stops syncing while it saves.
pub(crate) const FSYNC: [&[u8]; 3] = [b"CONFIG", b"GET", b"*appendfsync*"];
/// The setting that is to be `always`.
pub(crate) const SYNC: &str = "appendfsync";
/// The setting that is to be `no`: without it a server does not sync while a child process of it saves or
/// rewrites.
pub(crate) const SKIP_SYNC: &str = "no-appendfsync-on-rewrite";

/// The fields of `INFO` that matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServerInfo {
    pub(crate) run_id: String,
    /// Such as `redis 7.0.15`.
    pub(crate) version: String,
    redis_version: String,
    pub(crate) mode: String,
    pub(crate) role: String,
    pub(crate) policy: String,
    loading: bool,
    pub(crate) appends: bool,
    /// How many replicas follow it.
    pub(crate) replicas: u64,
    /// Its wall clock, if `INFO` has it.
    pub(crate) now: Option<Wall>,
}

impl ServerInfo {
    pub(crate) fn parse(info: &str) -> Self {
        let mut server_info = Self::default();
        let (mut server, mut valkey) = ("redis".to_owned(), None);
        for line in info.lines() {
            let Some((field, value)) = line.trim_end().split_once(':') else {
                continue;
            };
            match field {
                "run_id" => server_info.run_id = server_text(value),
                "redis_version" => server_info.redis_version = server_text(value),
                "valkey_version" => valkey = Some(server_text(value)),
                "server_name" => server = server_text(value),
                "redis_mode" | "server_mode" => server_info.mode = server_text(value),
                "role" => server_info.role = server_text(value),
                "maxmemory_policy" => server_info.policy = server_text(value),
                "loading" | "async_loading" => server_info.loading |= value == "1",
                "server_time_usec" => server_info.now = value.parse().ok().map(Wall::from_micros),
                "aof_enabled" => server_info.appends = value == "1",
                // Not a replica that is still copying, as a backup does.
                _ if is_replica(field) && value.contains("state=online") => server_info.replicas += 1,
                _ => {}
            }
        }
        server_info.version = match valkey {
            Some(version) => format!("valkey {version}"),
            None => format!("{server} {}", server_info.redis_version),
        };
        server_info
    }

    /// Refuses servers that would lose locks.
    pub(crate) fn check(&self, allow_eviction: bool) -> Result<(), NodeError> {
        match self.mode.as_str() {
            "cluster" => return Err(NodeError::Cluster),
            "sentinel" => return Err(NodeError::Sentinel),
            _ => {}
        }
        if self.role == "slave" || self.role == "replica" {
            return Err(NodeError::Replica);
        }
        if self.is_too_old() {
            return Err(NodeError::TooOld { version: self.version.as_str().into() });
        }
        if self.loading {
            return Err(NodeError::Loading);
        }
        if self.policy != "noeviction" && !self.policy.is_empty() && !allow_eviction {
            return Err(NodeError::Evicts { policy: self.policy.as_str().into() });
        }
        if self.run_id.is_empty() {
            return Err(NodeError::Protocol { reason: Arc::from("INFO has no run_id") });
        }
        Ok(())
    }

    /// Refuses a server that is marked durable and is not. `INFO` does not report when it syncs: see
    /// [`check_sync`].
    pub(crate) fn check_durable(&self) -> Result<(), NodeError> {
        if self.replicas > 0 {
            return Err(NodeError::Replicated { replicas: self.replicas });
        }
        if self.appends { Ok(()) } else { Err(NodeError::NotDurable { found: "appendonly no".into() }) }
    }

    fn is_too_old(&self) -> bool {
        let mut numbers = self.redis_version.split('.').map(str::parse::<u32>);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(major)), Some(Ok(minor))) => (major, minor) < OLDEST,
            // A server that reports no version in numbers is judged by what it can do.
            _ => false,
        }
    }
}

/// Refuses a server that is marked durable and syncs only at times, or does not report it. `answer` is
/// that to [`FSYNC`].
pub(crate) fn check_sync(answer: &Value) -> Result<(), NodeError> {
    for (name, needed) in [(SYNC, "always"), (SKIP_SYNC, "no")] {
        let found = match setting(answer, name) {
            Some(value) if value == needed => continue,
            Some(value) => format!("{name} {value}"),
            None => format!("{name} ?, because we may not `CONFIG GET` it"),
        };
        return Err(NodeError::NotDurable { found: found.into() });
    }
    Ok(())
}

/// The value of `name` in a server's answer to `CONFIG GET`; `None` if it is not there.
pub(crate) fn setting(answer: &Value, name: &str) -> Option<String> {
    let Value::Array(fields) = answer else { return None };
    let pair = fields.chunks_exact(2).find(|pair| pair[0].text() == Some(name.as_bytes()))?;
    Some(server_text(pair[1].text()?))
}

/// Whether a field of `INFO` is about one replica: `slave0`, `slave1`.
fn is_replica(field: &str) -> bool {
    field.strip_prefix("slave").is_some_and(|number| number.parse::<u32>().is_ok())
}

/// One field of `INFO`.
pub(crate) fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\nrun_id:ab12\r\n\
        # Memory\r\nmaxmemory_policy:noeviction\r\nloading:0\r\naof_enabled:0\r\nrole:master\r\n";

    #[test]
    fn what_a_server_reports_about_itself_is_printable() {
        let hostile = "x\u{1b}[2J\r\u{202e}";
        let info = ["run_id", "redis_version", "redis_mode", "role", "maxmemory_policy"]
            .map(|field| format!("{field}:{hostile}\r\n"));
        let server_info = ServerInfo::parse(&info.concat());
        let shown = "x\u{fffd}[2J\u{fffd}\u{fffd}";
        assert_eq!(server_info.version, format!("redis {shown}"));
        for value in [&server_info.run_id, &server_info.mode, &server_info.role, &server_info.policy] {
            assert_eq!(value, shown);
        }
    }

    fn refusal(change: (&str, &str)) -> Option<&'static str> {
        let info = GOOD.replace(change.0, change.1);
        ServerInfo::parse(&info).check(false).err().map(|e| e.kind())
    }

    #[test]
    fn a_plain_primary_is_accepted() {
        let server_info = ServerInfo::parse(GOOD);
        assert_eq!((server_info.version.as_str(), server_info.run_id.as_str()), ("redis 7.0.15", "ab12"));
        assert!(server_info.check(false).is_ok());
    }

    #[test]
    fn servers_that_would_lose_locks_are_refused() {
        for (change, kind) in [
            (("mode:standalone", "mode:cluster"), "cluster"),
            (("mode:standalone", "mode:sentinel"), "sentinel"),
            (("role:master", "role:slave"), "replica"),
            (("noeviction", "allkeys-lru"), "evicts"),
            (("7.0.15", "6.0.16"), "too_old"),
            (("7.0.15", "5.0.1"), "too_old"),
            (("loading:0", "loading:1"), "loading"),
            (("loading:0", "async_loading:1"), "loading"),
            (("run_id", "walk_id"), "protocol"),
        ] {
            assert_eq!(refusal(change), Some(kind), "{change:?}");
        }
        let evicts = ServerInfo::parse(&GOOD.replace("noeviction", "allkeys-lru"));
        assert!(evicts.check(true).is_ok());
    }

    #[test]
    fn valkey_reports_its_own_version() {
        let info = GOOD.replace("7.0.15", "7.2.4") + "server_name:valkey\r\nvalkey_version:8.1.0\r\n";
        assert_eq!(ServerInfo::parse(&info).version, "valkey 8.1.0");
    }

    #[test]
    fn durable_needs_an_append_only_file_that_is_always_synced() {
        let (off, on) =
            (ServerInfo::parse(GOOD), ServerInfo::parse(&GOOD.replace("aof_enabled:0", "aof_enabled:1")));
        assert!(off.check_durable().is_err());
        assert!(on.check_durable().is_ok());
        let replicas = "aof_enabled:1\r\nconnected_slaves:3\r\nslave0:ip=::1,state=online\r\n\
            slave1:ip=::1,state=online\r\nslave2:ip=::1,state=send_bulk\r\nslave_read_repl_offset:1";
        let followed = ServerInfo::parse(replicas);
        assert!(matches!(followed.check_durable(), Err(NodeError::Replicated { replicas: 2 })));
        let answer = |settings: &[&'static str]| {
            Value::Array(settings.iter().map(|text| Value::Text((*text).into())).collect())
        };
        let sync =
            |fsync, skips| check_sync(&answer(&["no-appendfsync-on-rewrite", skips, "appendfsync", fsync]));
        assert!(sync("always", "no").is_ok());
        assert!(sync("everysec", "no").is_err());
        assert!(sync("always", "yes").is_err(), "it does not sync while it saves");
        for silent in [Value::Null, answer(&[]), answer(&["appendfsync", "always"])] {
            assert!(check_sync(&silent).is_err(), "what cannot be checked is not trusted");
        }
    }
}
