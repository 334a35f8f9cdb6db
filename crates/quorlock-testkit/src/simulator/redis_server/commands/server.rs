//! Commands on the server itself: what it is, and how it is configured.

use crate::simulator::redis_server::command_table::{Command, Lookup, Spec, find};
use crate::simulator::redis_server::keyspace::{DATABASES, matches};
use crate::simulator::redis_server::resp::Reply;
use crate::simulator::redis_server::{RedisServer, Version};
use std::borrow::Cow;
use std::fmt::Write;

/// The sections of `INFO` that quorlock reads, in the order of a server.
const SECTIONS: [&str; 5] = ["server", "memory", "persistence", "replication", "keyspace"];

impl RedisServer {
    pub(super) fn info(&self, words: &[&[u8]]) -> Reply {
        let wanted: Vec<String> =
            words[1..].iter().map(|word| String::from_utf8_lossy(word).to_ascii_lowercase()).collect();
        if self.version == Version::Redis62 && wanted.len() > 1 {
            return super::SYNTAX;
        }
        let has_all = |name: &String| matches!(name.as_str(), "all" | "default" | "everything");
        let all = wanted.is_empty() || wanted.iter().any(has_all);
        let mut text = String::new();
        for section in SECTIONS {
            if all || wanted.iter().any(|name| name == section) {
                if !text.is_empty() {
                    text += "\r\n";
                }
                self.write_section(&mut text, section);
            }
        }
        Reply::Verbatim(text)
    }

    fn write_section(&self, text: &mut String, section: &str) {
        let title = format!("{}{}", section[..1].to_ascii_uppercase(), &section[1..]);
        let _ = write!(text, "# {title}\r\n");
        let mut field = |name: &str, value: &dyn std::fmt::Display| {
            // Writing to a string cannot fail.
            let _ = write!(text, "{name}:{value}\r\n");
        };
        match section {
            "server" => self.server_section(&mut field),
            "memory" => self.memory_section(&mut field),
            "persistence" => self.persistence_section(&mut field),
            "replication" => self.replication_section(&mut field),
            _ => self.keyspace_section(&mut field),
        }
    }

    fn server_section(&self, field: &mut dyn FnMut(&str, &dyn std::fmt::Display)) {
        let (version, mode) = match self.version {
            Version::Redis62 => ("6.2.14", "redis_mode"),
            Version::Redis7 => ("7.0.15", "redis_mode"),
            Version::Redis84 => ("8.4.0", "redis_mode"),
            Version::Valkey9 => ("7.2.4", "server_mode"),
        };
        field("redis_version", &version);
        if self.version.is_valkey() {
            field("server_name", &"valkey");
            field("valkey_version", &"9.1.2");
        }
        field(mode, &"standalone");
        field("arch_bits", &64);
        field("run_id", &self.run_id);
        field("tcp_port", &6379);
        field("server_time_usec", &self.now.wall_micros);
        field("uptime_in_seconds", &self.now.boot.since(self.state.started).as_secs());
    }

    fn memory_section(&self, field: &mut dyn FnMut(&str, &dyn std::fmt::Display)) {
        let limit = self.setting("maxmemory");
        let used = if self.state.out_of_memory { "2000000" } else { "1000000" };
        field("used_memory", &used);
        field("maxmemory", &limit);
        field("maxmemory_policy", &self.setting("maxmemory-policy"));
    }

    fn persistence_section(&self, field: &mut dyn FnMut(&str, &dyn std::fmt::Display)) {
        field("loading", &i32::from(self.state.loading));
        if self.version != Version::Redis62 {
            field("async_loading", &0);
        }
        field("rdb_bgsave_in_progress", &0);
        field("rdb_last_bgsave_status", &"ok");
        field("aof_enabled", &i32::from(self.setting("appendonly") == "yes"));
        field("aof_rewrite_in_progress", &i32::from(self.state.rewriting));
        field("aof_rewrite_scheduled", &0);
        field("aof_last_bgrewrite_status", &"ok");
        field("aof_last_write_status", &"ok");
    }

    fn replication_section(&self, field: &mut dyn FnMut(&str, &dyn std::fmt::Display)) {
        if self.state.is_replica {
            field("role", &"slave");
            field("master_host", &"127.0.0.1");
            field("master_port", &6379);
            field("master_link_status", &"up");
            field("slave_read_only", &1);
        } else {
            field("role", &"master");
        }
        field("connected_slaves", &self.state.replicas);
        for number in 0..self.state.replicas {
            let value = format!("ip=127.0.0.1,port={},state=online,offset=0,lag=0", 6380 + number);
            field(&format!("slave{number}"), &value);
        }
        field("master_failover_state", &"no-failover");
        field("master_repl_offset", &0);
        field("second_repl_offset", &if self.state.was_replica { 1 } else { -1 });
        field("repl_backlog_active", &i32::from(self.state.replicas > 0));
    }

    fn keyspace_section(&self, field: &mut dyn FnMut(&str, &dyn std::fmt::Display)) {
        for database in 0..DATABASES {
            let keys = self.keyspace.entries(database).count();
            let expires =
                self.keyspace.entries(database).filter(|(_, entry)| entry.expires.is_some()).count();
            if keys > 0 {
                field(&format!("db{database}"), &format!("keys={keys},expires={expires},avg_ttl=0"));
            }
        }
    }

    pub(super) fn time(&self) -> Reply {
        let micros = self.now.wall_micros;
        Reply::Array(vec![
            Reply::bulk((micros / 1_000_000).to_string()),
            Reply::bulk((micros % 1_000_000).to_string()),
        ])
    }

    pub(super) fn role(&self) -> Reply {
        if self.state.is_replica {
            return Reply::Array(vec![
                Reply::bulk("slave"),
                Reply::bulk("127.0.0.1"),
                Reply::Integer(6379),
                Reply::bulk("connected"),
                Reply::Integer(0),
            ]);
        }
        let replica = |number: usize| {
            let port = (6380 + number).to_string();
            Reply::Array(vec![Reply::bulk("127.0.0.1"), Reply::bulk(port), Reply::bulk("0")])
        };
        let replicas = (0..self.state.replicas).map(replica).collect();
        Reply::Array(vec![Reply::bulk("master"), Reply::Integer(0), Reply::Array(replicas)])
    }

    pub(super) fn config_get(&self, words: &[&[u8]]) -> Reply {
        let is_wanted = |name: &str| {
            words[2..].iter().any(|pattern| matches(&pattern.to_ascii_lowercase(), name.as_bytes()))
        };
        let settings = self.settings.iter().filter(|(name, _)| is_wanted(name));
        Reply::Map(settings.map(|(name, value)| (Reply::bulk(name), Reply::bulk(value))).collect())
    }

    fn setting(&self, name: &str) -> &str {
        self.settings.get(name).map_or("", String::as_str)
    }

    /// Exact for the commands that quorlock asks about; of others without tips and groups.
    pub(super) fn command_info(&self, words: &[&[u8]]) -> Reply {
        let info = words[2..].iter().map(|name| match find(&[*name], self.version) {
            Lookup::Known(spec) => self.describe(spec),
            _ => Reply::Null,
        });
        Reply::Array(info.collect())
    }

    fn describe(&self, spec: &Spec) -> Reply {
        let statuses = |names: &[&'static str]| {
            Reply::Set(names.iter().map(|name| Reply::Status(Cow::Borrowed(name))).collect())
        };
        let flags = spec.flag_names();
        let mut categories = vec![if spec.is_write() { "@write" } else { "@read" }];
        if matches!(spec.command, Command::Get | Command::Set | Command::Delex | Command::Delifeq) {
            categories.push("@string");
        }
        categories.push(if flags.contains(&"fast") { "@fast" } else { "@slow" });
        let mut description = vec![
            Reply::bulk(spec.name),
            Reply::Integer(spec.arity().into()),
            statuses(&flags),
            Reply::Integer(1),
            Reply::Integer(1),
            Reply::Integer(1),
            statuses(&categories),
        ];
        if self.version != Version::Redis62 {
            let access: &[&str] = match spec.command {
                Command::Delifeq => &["RM", "delete"],
                Command::Delex => &["RW", "delete", "variable_flags"],
                _ if spec.is_write() => &["RW", "update"],
                _ => &["RO", "access"],
            };
            let none = if self.version == Version::Redis7 { Reply::Set } else { Reply::Array };
            let keys = Reply::Set(vec![first_key(statuses(access))]);
            description.extend([Reply::Set(Vec::new()), keys, none(Vec::new())]);
        }
        Reply::Array(description)
    }
}

/// Where `COMMAND INFO` says that the only key of a command is.
fn first_key(flags: Reply) -> Reply {
    let pair = |name: &str, value: Reply| (Reply::bulk(name), value);
    let search = |kind: &str, spec: Vec<(Reply, Reply)>| {
        Reply::Map(vec![pair("type", Reply::bulk(kind)), pair("spec", Reply::Map(spec))])
    };
    let range = vec![
        pair("lastkey", Reply::Integer(0)),
        pair("keystep", Reply::Integer(1)),
        pair("limit", Reply::Integer(0)),
    ];
    Reply::Map(vec![
        pair("flags", flags),
        pair("begin_search", search("index", vec![pair("index", Reply::Integer(1))])),
        pair("find_keys", search("range", range)),
    ])
}
