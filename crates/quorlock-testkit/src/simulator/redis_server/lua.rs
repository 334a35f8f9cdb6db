//! Scripts, in a real Lua 5.1.
//!
//! Each thread has one interpreter for all servers. It keeps every script that it has compiled.

use crate::simulator::redis_server::commands::{Caller, Script};
use crate::simulator::redis_server::numbers::{general, write_double};
use crate::simulator::redis_server::resp::{Protocol, Reply};
use crate::simulator::redis_server::{RedisServer, Version};
use mlua::chunk::ChunkMode;
use mlua::state::{GcIncParams, GcMode};
use mlua::{BString, Either, Error, Function, Lua, LuaOptions, MultiValue, StdLib, Table, Value};
use sha1_smol::Sha1;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// The name of every script in error texts.
const CHUNK: &str = "@user_script";
/// Integers up to this have all their digits in `%.17g`.
const MAX_EXACT: i64 = 99_999_999_999_999_999;
/// Garbage is collected once the memory in use is this percentage of what was in use after the last time.
const GC_PAUSE: i32 = 2_000;
/// How many hashes of scripts are kept.
const MAX_HASHES: usize = 64;
/// How deep a stack is searched for the line of a script.
const MAX_LEVELS: usize = 100;

/// Makes the globals that scripts see. They cannot be changed. What is not deterministic, or reaches out
/// of the interpreter, is not there.
const PRELUDE: &str = include_str!("prelude.lua");

/// Runs a script to its end.
///
/// # Panics
/// The interpreter itself fails, which no script should be able to cause.
pub(super) fn run(
    server: &mut RedisServer,
    caller: Caller,
    script: &Script,
    keys: &[&[u8]],
    arguments: &[&[u8]],
) -> Reply {
    let (version, hash) = (server.version, caller.script.clone().unwrap_or_default());
    SESSION.with_borrow_mut(|session| session.begin(server, caller));
    let outcome = VM.with(|vm| vm.run(version, script, keys, arguments));
    SESSION.with_borrow_mut(|session| session.end(server));
    match outcome {
        Ok(Ok(reply)) => reply,
        Ok(Err(raised)) => Reply::Error(raised.text(version, &hash).into()),
        Err(error) => panic!("the interpreter failed: {error}"),
    }
}

/// Compiles a script; the error says why it cannot be.
pub(super) fn compile(script: &Script) -> Result<(), String> {
    VM.with(|vm| vm.compile(script)).map_err(|error| match error {
        Error::SyntaxError { message, .. } => message,
        other => other.to_string(),
    })
}

/// The hash by which clients call a script. Clients load the same few scripts on every connection, so it
/// keeps the last [`MAX_HASHES`].
pub(super) fn hash_of(text: &[u8]) -> Arc<str> {
    HASHES.with_borrow_mut(|hashes| {
        if let Some((_, hash)) = hashes.iter().find(|(known, _)| **known == *text) {
            return hash.clone();
        }
        if hashes.len() == MAX_HASHES {
            hashes.clear();
        }
        let hash: Arc<str> = Sha1::from(text).hexdigest().into();
        hashes.push((text.into(), hash.clone()));
        hash
    })
}

thread_local! {
    /// Texts of scripts and their hashes.
    static HASHES: RefCell<Vec<HashedText>> = const { RefCell::new(Vec::new()) };
    static VM: Vm = Vm::new().expect("the prelude is correct");
    /// The script that runs, if one does. Its commands reach the server here, so that the functions that
    /// scripts see are made once and not for each run.
    static SESSION: RefCell<Session> = RefCell::new(Session::none());
}

/// The text of a script and its hash.
type HashedText = (Box<[u8]>, Arc<str>);

/// What the prelude returns.
type Prelude = (Table, Table, Function, Function, Function);

/// The interpreter.
struct Vm {
    lua: Lua,
    environment: Table,
    /// Runs a script, given its `error_reply`, keys and arguments, and catches what it raises.
    protected: Function,
    /// `redis.error_reply` of Redis 6.2, which adds no code, and of later versions.
    error_replies: (Function, Function),
    compiled: RefCell<HashMap<Arc<str>, Function>>,
}

/// What a script raised.
struct Raised {
    text: String,
    /// Whether it is a plain text, not an error of a command.
    is_plain: bool,
    line: Option<i64>,
}

impl Raised {
    fn text(&self, version: Version, hash: &str) -> String {
        let Raised { text, is_plain, line } = self;
        let line = line.unwrap_or_default();
        if version == Version::Redis62 {
            return format!("ERR Error running script (call to f_{hash}): {CHUNK}:{line}: {text}");
        }
        let code = if *is_plain { "ERR " } else { "" };
        let which = if version.is_valkey() { String::new() } else { format!("{hash}, ") };
        format!("{code}{text} script: {which}on {CHUNK}:{line}.")
    }
}

/// An error that a command answered, on its way through a script.
#[derive(Debug)]
struct CommandError(String);

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CommandError {}

impl Vm {
    fn new() -> mlua::Result<Self> {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
        let lua = Lua::new_with(libraries, LuaOptions::new().catch_rust_panics(false))?;
        let sha1hex =
            lua.create_function(|_, text: mlua::LuaString| Ok(Sha1::from(&*text.as_bytes()).hexdigest()))?;
        let text_of = lua.create_function(|lua, raised: Value| match command_error(&raised) {
            Some(text) => lua.create_string(text).map(Value::String),
            None => Ok(raised),
        })?;
        let handler = lua.create_function(|lua, raised: Value| {
            let found = command_error(&raised);
            let plain = || raised.to_string().unwrap_or_default();
            let table = lua.create_table()?;
            table.raw_set("is_plain", found.is_none())?;
            table.raw_set("err", lua.create_string(found.unwrap_or_else(plain))?)?;
            table.raw_set("line", line(lua))?;
            Ok(table)
        })?;
        let prelude = lua.load(PRELUDE).set_name("=prelude");
        let (redis, environment, protected, old, new): Prelude = prelude.call((sha1hex, text_of, handler))?;
        redis.raw_set("call", lua.create_function(call)?)?;
        redis.raw_set("pcall", lua.create_function(pcall)?)?;
        // Little is alive after a script, so collecting at twice that would be most of the work.
        lua.gc_set_mode(GcMode::Incremental(GcIncParams::default().pause(GC_PAUSE)));
        Ok(Self { lua, environment, protected, error_replies: (old, new), compiled: RefCell::default() })
    }

    /// Compiles a script, unless it was before.
    fn compile(&self, script: &Script) -> mlua::Result<()> {
        if self.compiled.borrow().contains_key(&script.runs_hash) {
            return Ok(());
        }
        let chunk = self.lua.load(&*script.runs).set_name(CHUNK).set_mode(ChunkMode::Text);
        let function = chunk.set_environment(self.environment.clone()).into_function()?;
        self.compiled.borrow_mut().insert(script.runs_hash.clone(), function);
        Ok(())
    }

    fn run(
        &self,
        version: Version,
        script: &Script,
        keys: &[&[u8]],
        arguments: &[&[u8]],
    ) -> mlua::Result<Result<Reply, Raised>> {
        let (old, new) = &self.error_replies;
        let error_reply = if version == Version::Redis62 { old } else { new };
        let (keys, arguments) = (self.list(keys)?, self.list(arguments)?);
        self.compile(script)?;
        let compiled = self.compiled.borrow();
        let function = compiled.get(&script.runs_hash);
        let (is_done, value): (bool, Value) =
            self.protected.call((function, error_reply, &keys, &arguments))?;
        if is_done {
            return Ok(Ok(from_lua(&value)));
        }
        let Value::Table(raised) = value else { return Err(Error::runtime("a script raised no table")) };
        let text: mlua::LuaString = raised.raw_get("err")?;
        Ok(Err(Raised {
            text: text.to_string_lossy(),
            is_plain: raised.raw_get("is_plain")?,
            line: raised.raw_get("line")?,
        }))
    }

    fn list(&self, words: &[&[u8]]) -> mlua::Result<Table> {
        self.lua.create_sequence_from(words.iter().map(|word| match std::str::from_utf8(word) {
            Ok(text) => Either::Left(text),
            Err(_) => Either::Right(BString::from(*word)),
        }))
    }
}

/// One run of a script.
struct Session {
    /// Absent while no script runs.
    server: RedisServer,
    caller: Caller,
    has_written: bool,
    /// The words of a command, one after the other.
    words: Vec<u8>,
}

impl Session {
    fn none() -> Self {
        let caller = Caller { connection: 0, database: 0, protocol: Protocol::Resp2, script: None };
        let server = RedisServer::absent(Version::Redis7, Arc::new(quorlock::SystemClock));
        Self { server, caller, has_written: false, words: Vec::new() }
    }

    fn begin(&mut self, server: &mut RedisServer, caller: Caller) {
        std::mem::swap(&mut self.server, server);
        (self.caller, self.has_written) = (caller, false);
    }

    fn end(&mut self, server: &mut RedisServer) {
        std::mem::swap(&mut self.server, server);
    }

    /// Executes a command that the script calls.
    fn call(&mut self, lua: &Lua, words: &MultiValue) -> mlua::Result<Reply> {
        let version = self.server.version;
        let refuse = |text: &str| Ok(Reply::Error(refusal(lua, text, version).into()));
        if words.is_empty() {
            return refuse(match version {
                Version::Valkey9 => "Please specify at least one argument for this call",
                Version::Redis62 => "Please specify at least one argument for redis.call()",
                _ => "Please specify at least one argument for this redis lib call",
            });
        }
        self.words.clear();
        let mut ends: SmallVec<[usize; 12]> = SmallVec::new();
        let are_words = words.iter().all(|word| {
            let is_word = add_word(&mut self.words, word);
            ends.push(self.words.len());
            is_word
        });
        if !are_words {
            return refuse(match version {
                Version::Valkey9 => "Command arguments must be strings or integers",
                Version::Redis62 => "Lua redis() command arguments must be strings or integers",
                _ => "Lua redis lib command arguments must be strings or integers",
            });
        }
        let mut start = 0;
        let words: SmallVec<[&[u8]; 12]> =
            ends.iter().map(|end| &self.words[std::mem::replace(&mut start, *end)..*end]).collect();
        match self.server.admit_in_script(&words, self.has_written) {
            Ok(spec) => {
                self.has_written |= spec.is_write();
                Ok(self.server.run(&mut self.caller, spec, &words))
            }
            Err(text) => refuse(&text),
        }
    }
}

/// `redis.call`: an error of the command ends the script.
fn call(lua: &Lua, words: MultiValue) -> mlua::Result<Either<String, Value>> {
    match execute(lua, &words)? {
        (Reply::Error(text), _) => Err(Error::external(CommandError(text.into_owned()))),
        // A text goes to the script without a handle of its own.
        (Reply::Bulk(text), _) => match String::from_utf8(text) {
            Ok(text) => Ok(Either::Left(text)),
            Err(error) => lua.create_string(error.as_bytes()).map(Value::String).map(Either::Right),
        },
        (reply, version) => to_lua(lua, &reply, version).map(Either::Right),
    }
}

/// `redis.pcall`: an error of the command is its reply.
fn pcall(lua: &Lua, words: MultiValue) -> mlua::Result<Value> {
    let (reply, version) = execute(lua, &words)?;
    to_lua(lua, &reply, version)
}

/// Executes a command of the script that runs.
fn execute(lua: &Lua, words: &MultiValue) -> mlua::Result<(Reply, Version)> {
    SESSION.with_borrow_mut(|session| Ok((session.call(lua, words)?, session.server.version)))
}

/// The text of an error that a script gets before its command is executed. It has a code if it starts
/// with a dash; Redis 6.2 adds no code but the line.
fn refusal(lua: &Lua, text: &str, version: Version) -> String {
    match (version, text.strip_prefix('-')) {
        (Version::Redis62, _) => format!("{CHUNK}: {}: {text}", line(lua).unwrap_or_default()),
        (_, Some(coded)) => coded.to_owned(),
        (_, None) => format!("ERR {text}"),
    }
}

/// The line of the script that runs.
fn line(lua: &Lua) -> Option<i64> {
    let found = (0..MAX_LEVELS).find_map(|level| {
        let read = |frame: &mlua::debug::Debug<'_>| {
            (frame.source().source.as_deref() == Some(CHUNK), frame.current_line())
        };
        match lua.inspect_stack(level, read) {
            Some((true, line)) => Some(line),
            Some((false, _)) => None,
            None => Some(None),
        }
    });
    found.flatten().and_then(|line| i64::try_from(line).ok())
}

/// The text of an error of a command that was raised, directly or as a table.
fn command_error(raised: &Value) -> Option<String> {
    match raised {
        Value::Error(error) => error.downcast_ref::<CommandError>().map(|error| error.0.clone()),
        Value::Table(table) => {
            let text: Option<mlua::LuaString> = table.raw_get("err").ok()?;
            text.map(|text| text.to_string_lossy())
        }
        _ => None,
    }
}

/// Adds a word of a command to `words`; `false` if it is none. Numbers get all their digits, not the 14
/// that Lua prints.
fn add_word(words: &mut Vec<u8>, value: &Value) -> bool {
    match value {
        Value::String(text) => words.extend_from_slice(&text.as_bytes()),
        Value::Integer(number) if number.unsigned_abs() <= MAX_EXACT.unsigned_abs() => {
            words.extend_from_slice(itoa::Buffer::new().format(*number).as_bytes());
        }
        Value::Integer(number) => words.extend_from_slice(general(*number as f64).as_bytes()),
        Value::Number(number) => words.extend_from_slice(general(*number).as_bytes()),
        _ => return false,
    }
    true
}

/// What a script sees of a reply.
fn to_lua(lua: &Lua, reply: &Reply, version: Version) -> mlua::Result<Value> {
    let field = |name: &str, text: &str| {
        let table = lua.create_table()?;
        table.raw_set(name, text)?;
        Ok(Value::Table(table))
    };
    match reply {
        Reply::Status(text) => field("ok", text),
        Reply::Error(text) => field("err", text),
        Reply::Integer(number) => Ok(Value::Integer(*number)),
        Reply::Bulk(text) => lua.create_string(text).map(Value::String),
        Reply::Verbatim(text) => lua.create_string(text).map(Value::String),
        Reply::Null => Ok(Value::Boolean(false)),
        Reply::Double(number) => {
            let mut digits = Vec::new();
            write_double(&mut digits, *number, version);
            lua.create_string(digits).map(Value::String)
        }
        Reply::Array(items) | Reply::Set(items) | Reply::Push(items) | Reply::Several(items) => {
            let table = lua.create_table_with_capacity(items.len(), 0)?;
            for item in items {
                table.raw_push(to_lua(lua, item, version)?)?;
            }
            Ok(Value::Table(table))
        }
        Reply::Map(pairs) => {
            let table = lua.create_table()?;
            for (key, value) in pairs {
                table.raw_push(to_lua(lua, key, version)?)?;
                table.raw_push(to_lua(lua, value, version)?)?;
            }
            Ok(Value::Table(table))
        }
    }
}

/// The reply that a script returned. Numbers are cut to integers, lists at the first nil.
fn from_lua(value: &Value) -> Reply {
    match value {
        Value::String(text) => Reply::bulk(text.as_bytes()),
        Value::Boolean(true) => Reply::Integer(1),
        Value::Integer(number) => Reply::Integer(*number),
        Value::Number(number) => Reply::Integer(*number as i64),
        Value::Table(table) => {
            let field = |name: &str| match table.raw_get(name) {
                Ok(Value::String(text)) => Some(text.to_string_lossy()),
                _ => None,
            };
            if let Some(text) = field("err") {
                return Reply::Error(text.into());
            }
            if let Some(text) = field("ok") {
                return Reply::Status(text.replace(['\r', '\n'], " ").into());
            }
            let items = (1..).map_while(|at: i64| match table.raw_get(at) {
                Ok(Value::Nil) | Err(_) => None,
                Ok(item) => Some(from_lua(&item)),
            });
            Reply::Array(items.collect())
        }
        _ => Reply::Null,
    }
}
