//! The commands that a server knows: arity, flags and keys.

use crate::simulator::redis_server::Version;

/// One command, or one subcommand of a command that has them.
#[derive(Debug)]
pub(super) struct Spec {
    /// In lower case; a subcommand follows after a bar, as in `client|kill`.
    pub(super) name: &'static str,
    /// How long the name is without a subcommand.
    container_length: usize,
    pub(super) command: Command,
    /// How many words it has, its name included; negative for at least that many.
    arity: i32,
    flags: u16,
    pub(super) keys: Keys,
}

/// Which words of a command name what the rights of a user are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keys {
    None,
    First,
    All,
    /// After a number of keys.
    Counted,
    FirstChannel,
    Channels,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    AclWhoami,
    Append,
    Auth,
    ClientGetname,
    ClientId,
    ClientKill,
    ClientNoEvict,
    ClientSetname,
    ConfigGet,
    Del,
    Delex,
    Delifeq,
    DescribeCommands,
    Echo,
    Eval,
    Evalsha,
    Exists,
    Expire,
    Flushall,
    Get,
    Getrange,
    Hdel,
    Hello,
    Hget,
    Hset,
    Incr,
    Info,
    Lpush,
    Pexpire,
    Pexpireat,
    Ping,
    Pttl,
    Publish,
    PubsubNumsub,
    Quit,
    Role,
    Sadd,
    Scan,
    ScriptExists,
    ScriptFlush,
    ScriptLoad,
    Select,
    Set,
    Subscribe,
    Time,
    Ttl,
    Type,
    Unsubscribe,
    Zadd,
    Zcard,
    Zcount,
    Zrange,
    Zrangebyscore,
    Zrem,
    Zscore,
}

const WRITE: u16 = 1;
const READONLY: u16 = 2;
const DENY_OOM: u16 = 4;
const NO_SCRIPT: u16 = 8;
const LOADING: u16 = 16;
const NO_AUTH: u16 = 32;
const ALLOW_BUSY: u16 = 64;
const FAST: u16 = 128;
/// Allowed to a client of RESP2 that has subscribed.
const PUBSUB: u16 = 256;

impl Spec {
    pub(super) fn accepts(&self, words: usize, version: Version) -> bool {
        let words = i32::try_from(words).unwrap_or(i32::MAX);
        // Expiries have conditions since version 7.
        let is_expiry = matches!(self.command, Command::Expire | Command::Pexpire | Command::Pexpireat);
        let is_exact = version == Version::Redis62 && is_expiry;
        match self.arity {
            least @ ..0 if !is_exact => words >= -least,
            exact => words == exact.abs(),
        }
    }

    pub(super) fn arity(&self) -> i32 {
        self.arity
    }

    pub(super) fn is_write(&self) -> bool {
        self.flags & WRITE != 0
    }

    pub(super) fn is_denied_without_memory(&self) -> bool {
        self.flags & DENY_OOM != 0
    }

    pub(super) fn is_denied_in_scripts(&self) -> bool {
        self.flags & NO_SCRIPT != 0
    }

    pub(super) fn runs_while_loading(&self) -> bool {
        self.flags & LOADING != 0
    }

    pub(super) fn runs_without_login(&self) -> bool {
        self.flags & NO_AUTH != 0
    }

    pub(super) fn runs_while_busy(&self, version: Version) -> bool {
        self.flags & ALLOW_BUSY != 0 || (self.command == Command::Select && version.is_valkey())
    }

    pub(super) fn runs_while_subscribed(&self) -> bool {
        self.flags & PUBSUB != 0
    }

    /// The flags as `COMMAND INFO` names them.
    pub(super) fn flag_names(&self) -> Vec<&'static str> {
        let names = [
            (WRITE, "write"),
            (READONLY, "readonly"),
            (DENY_OOM, "denyoom"),
            (NO_SCRIPT, "noscript"),
            (LOADING, "loading"),
            (NO_AUTH, "no_auth"),
            (ALLOW_BUSY, "allow_busy"),
            (FAST, "fast"),
        ];
        names.into_iter().filter(|(flag, _)| self.flags & flag != 0).map(|(_, name)| name).collect()
    }

    /// What rights are named after: the command without its subcommand.
    pub(super) fn container(&self) -> &'static str {
        &self.name[..self.container_length]
    }

    fn exists_in(&self, version: Version) -> bool {
        match self.command {
            Command::Delex => version == Version::Redis84,
            Command::Delifeq => version == Version::Valkey9,
            Command::ClientNoEvict => version != Version::Redis62,
            _ => true,
        }
    }
}

/// What a server makes of the first words of a command.
pub(super) enum Lookup {
    Known(&'static Spec),
    Unknown,
    /// The command has subcommands, and not this one.
    UnknownSubcommand,
    /// The command has subcommands, and none was given.
    MissingSubcommand(&'static str),
}

/// Finds the command that `words` name.
pub(super) fn find(words: &[&[u8]], version: Version) -> Lookup {
    let Some(first) = words.first() else { return Lookup::Unknown };
    let is_named = |spec: &&Spec| spec.name.as_bytes().eq_ignore_ascii_case(first);
    if let Some(spec) = SPECS.iter().find(|spec| is_named(spec) && spec.exists_in(version)) {
        return Lookup::Known(spec);
    }
    let known = || SPECS.iter().filter(|spec| spec.exists_in(version));
    let is_container = |spec: &&Spec| {
        spec.name.len() > spec.container_length && spec.container().as_bytes().eq_ignore_ascii_case(first)
    };
    let Some(container) = known().find(is_container).map(|spec| spec.container()) else {
        return Lookup::Unknown;
    };
    let Some(second) = words.get(1) else { return Lookup::MissingSubcommand(container) };
    let subcommand = known()
        .filter(is_container)
        .find(|spec| spec.name.as_bytes()[container.len() + 1..].eq_ignore_ascii_case(second));
    subcommand.map_or(Lookup::UnknownSubcommand, Lookup::Known)
}

const fn spec(name: &'static str, command: Command, arity: i32, flags: u16, keys: Keys) -> Spec {
    let mut container_length = 0;
    while container_length < name.len() && name.as_bytes()[container_length] != b'|' {
        container_length += 1;
    }
    Spec { name, container_length, command, arity, flags, keys }
}

/// The most frequent first. Flags as in Redis 7.0.
static SPECS: [Spec; 55] = [
    spec("set", Command::Set, -3, WRITE | DENY_OOM, Keys::First),
    spec("zadd", Command::Zadd, -4, WRITE | DENY_OOM | FAST, Keys::First),
    spec("get", Command::Get, 2, READONLY | FAST, Keys::First),
    spec("getrange", Command::Getrange, 4, READONLY, Keys::First),
    spec("evalsha", Command::Evalsha, -3, NO_SCRIPT, Keys::Counted),
    spec("exists", Command::Exists, -2, READONLY | FAST, Keys::All),
    spec("del", Command::Del, -2, WRITE, Keys::All),
    spec("delifeq", Command::Delifeq, 3, WRITE | FAST, Keys::First),
    spec("delex", Command::Delex, -2, WRITE | FAST, Keys::First),
    spec("pttl", Command::Pttl, 2, READONLY | FAST, Keys::First),
    spec("pexpire", Command::Pexpire, -3, WRITE | FAST, Keys::First),
    spec("expire", Command::Expire, -3, WRITE | FAST, Keys::First),
    spec("zscore", Command::Zscore, 3, READONLY | FAST, Keys::First),
    spec("publish", Command::Publish, 3, LOADING | FAST, Keys::FirstChannel),
    spec("pubsub|numsub", Command::PubsubNumsub, -2, LOADING, Keys::None),
    spec("subscribe", Command::Subscribe, -2, NO_SCRIPT | LOADING | PUBSUB, Keys::Channels),
    spec("unsubscribe", Command::Unsubscribe, -1, NO_SCRIPT | LOADING | PUBSUB, Keys::None),
    spec("time", Command::Time, 1, LOADING | FAST, Keys::None),
    spec("info", Command::Info, -1, LOADING, Keys::None),
    spec("eval", Command::Eval, -3, NO_SCRIPT, Keys::Counted),
    spec("script|load", Command::ScriptLoad, 3, NO_SCRIPT, Keys::None),
    spec("script|exists", Command::ScriptExists, -3, NO_SCRIPT, Keys::None),
    spec("script|flush", Command::ScriptFlush, -2, NO_SCRIPT, Keys::None),
    spec("hello", Command::Hello, -1, NO_SCRIPT | LOADING | NO_AUTH | ALLOW_BUSY | FAST, Keys::None),
    spec("auth", Command::Auth, -2, NO_SCRIPT | LOADING | NO_AUTH | ALLOW_BUSY | FAST, Keys::None),
    spec("quit", Command::Quit, -1, NO_SCRIPT | LOADING | NO_AUTH | ALLOW_BUSY | FAST | PUBSUB, Keys::None),
    spec("select", Command::Select, 2, LOADING | FAST, Keys::None),
    spec("ping", Command::Ping, -1, FAST | PUBSUB, Keys::None),
    spec("echo", Command::Echo, 2, LOADING | FAST, Keys::None),
    spec("client|setname", Command::ClientSetname, 3, NO_SCRIPT | LOADING, Keys::None),
    spec("client|getname", Command::ClientGetname, 2, NO_SCRIPT | LOADING, Keys::None),
    spec("client|id", Command::ClientId, 2, NO_SCRIPT | LOADING, Keys::None),
    spec("client|kill", Command::ClientKill, -3, NO_SCRIPT | LOADING, Keys::None),
    spec("client|no-evict", Command::ClientNoEvict, 3, NO_SCRIPT | LOADING, Keys::None),
    spec("command|info", Command::DescribeCommands, -2, LOADING, Keys::None),
    spec("config|get", Command::ConfigGet, -3, NO_SCRIPT | LOADING, Keys::None),
    spec("acl|whoami", Command::AclWhoami, 2, NO_SCRIPT | LOADING, Keys::None),
    spec("role", Command::Role, 1, NO_SCRIPT | LOADING | FAST, Keys::None),
    spec("scan", Command::Scan, -2, READONLY, Keys::None),
    spec("type", Command::Type, 2, READONLY | FAST, Keys::First),
    spec("ttl", Command::Ttl, 2, READONLY | FAST, Keys::First),
    spec("pexpireat", Command::Pexpireat, -3, WRITE | FAST, Keys::First),
    spec("zrange", Command::Zrange, -4, READONLY, Keys::First),
    spec("zrangebyscore", Command::Zrangebyscore, -4, READONLY, Keys::First),
    spec("zrem", Command::Zrem, -3, WRITE | FAST, Keys::First),
    spec("zcard", Command::Zcard, 2, READONLY | FAST, Keys::First),
    spec("zcount", Command::Zcount, 4, READONLY | FAST, Keys::First),
    spec("hget", Command::Hget, 3, READONLY | FAST, Keys::First),
    spec("hdel", Command::Hdel, -3, WRITE | FAST, Keys::First),
    spec("flushall", Command::Flushall, -1, WRITE, Keys::None),
    spec("incr", Command::Incr, 2, WRITE | DENY_OOM | FAST, Keys::First),
    spec("append", Command::Append, 3, WRITE | DENY_OOM | FAST, Keys::First),
    spec("lpush", Command::Lpush, -3, WRITE | DENY_OOM | FAST, Keys::First),
    spec("hset", Command::Hset, -4, WRITE | DENY_OOM | FAST, Keys::First),
    spec("sadd", Command::Sadd, -3, WRITE | DENY_OOM | FAST, Keys::First),
];
