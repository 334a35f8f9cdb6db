//! Lock libraries whose clients a storm can run: `peers/storm` has a small program around each.

use crate::nemesis::client::arguments::ClientArguments;
use crate::nemesis::{NODE_TIMEOUT, TTL, WAIT};
use crate::processes::spawn::find_program;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// A lock library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contestant {
    /// This library.
    Quorlock,
    /// Go, on go-redis.
    Redsync,
    /// npm redlock, on ioredis.
    NodeRedlock,
    /// Python, on redis-py.
    RedlockPy,
    /// Rust, on the redis crate.
    Rslock,
    /// Java: `RedissonRedLock`.
    Redisson,
    /// Go, on rueidis; on one server.
    Rueidislock,
}

/// How to start the client of a library, without its own arguments.
pub(crate) struct Program(Vec<OsString>);

impl Contestant {
    /// All of them.
    pub const ALL: [Contestant; 7] = [
        Contestant::Quorlock,
        Contestant::Redsync,
        Contestant::NodeRedlock,
        Contestant::RedlockPy,
        Contestant::Rslock,
        Contestant::Redisson,
        Contestant::Rueidislock,
    ];

    /// What it is called on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Contestant::Quorlock => "quorlock",
            Contestant::Redsync => "redsync",
            Contestant::NodeRedlock => "node-redlock",
            Contestant::RedlockPy => "redlock-py",
            Contestant::Rslock => "rslock",
            Contestant::Redisson => "redisson",
            Contestant::Rueidislock => "rueidislock",
        }
    }

    /// The settings of its clients, as a note below the table.
    pub fn settings(self) -> &'static str {
        match self {
            Contestant::Quorlock => {
                "waits for 2 s at most; watchdog, fences and restart guard as they come; servers that sync \
                 every write are marked durable"
            }
            Contestant::Redsync => {
                "its own 32 tries, 50 to 250 ms apart; `Extend` for long holds; validity is `Until`"
            }
            Contestant::NodeRedlock => {
                "its own 10 retries, 200 ms and jitter apart; `extend` for long holds; validity is `expiration`"
            }
            Contestant::RedlockPy => {
                "its own 3 tries, 200 ms apart; no extension, so no hold over half of the ttl; validity is `validity`"
            }
            Contestant::Rslock => {
                "its own 3 tries, up to 200 ms apart; `extend` for long holds; validity is `validity_time`; \
                 its limit for a node is 500 ms and cannot be set"
            }
            Contestant::Redisson => {
                "`RedissonRedLock.tryLock(2 s)` with its watchdog (`lockWatchdogTimeout` is the ttl), no retries of \
                 commands; it reports neither validity nor loss, so a hold lasts until its release"
            }
            Contestant::Rueidislock => {
                "`WithContext` for 2 s at most, `KeyMajority` 1; extends by itself; a hold lasts until its context ends; \
                 it locks on one server, here the one that syncs every write; with `FallbackSETPX`, because \
                 server clocks jump ahead"
            }
        }
    }

    /// What is missing and how to install it; `None` if its clients can run.
    pub fn missing(self) -> Option<String> {
        let needs = match self {
            Contestant::Quorlock => return None,
            Contestant::Redsync | Contestant::Rueidislock => "Go",
            Contestant::NodeRedlock => "Node.js with npm",
            Contestant::RedlockPy => "Python with venv",
            Contestant::Rslock => "cargo",
            Contestant::Redisson => "a JDK and Maven",
        };
        let is_here = self.program().is_some_and(|Program(words)| Path::new(&words[0]).is_file())
            && self.installed().iter().all(|path| path.exists());
        (!is_here).then(|| format!("{self} is not installed: run peers/setup (it needs {needs})"))
    }

    /// How to start its client; `None` for this library, whose client is a part of the harness.
    pub(crate) fn program(self) -> Option<Program> {
        let found = |name| find_program(name).unwrap_or_default();
        let words: Vec<OsString> = match self {
            Contestant::Quorlock => return None,
            Contestant::Redsync | Contestant::Rueidislock => {
                vec![peers().join(".deps/storm-go").into(), self.name().into()]
            }
            Contestant::NodeRedlock => {
                vec![found("node").into(), peers().join("storm/node/client.js").into()]
            }
            Contestant::RedlockPy => {
                vec![
                    peers().join(".deps/venv/bin/python").into(),
                    peers().join("storm/python/client.py").into(),
                ]
            }
            Contestant::Rslock => vec![peers().join("target/release/storm").into()],
            Contestant::Redisson => {
                let classes = [peers().join(".deps/storm-java"), peers().join("java/target/dependency/*")];
                let path = classes.map(|part| part.to_string_lossy().into_owned()).join(":");
                // A small, quick start: many of them share a machine with the servers.
                let options =
                    ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx256m", "-cp"];
                let words = [found("java").into()].into_iter().chain(options.map(OsString::from));
                words.chain([path.into(), "StormClient".into()]).collect()
            }
        };
        Some(Program(words))
    }

    /// What its program needs besides itself.
    fn installed(self) -> Vec<PathBuf> {
        let paths: &[&str] = match self {
            Contestant::NodeRedlock => &["node/node_modules/redlock", "node/node_modules/ioredis"],
            Contestant::Redisson => &[".deps/storm-java/StormClient.class", "java/target/dependency"],
            _ => &[],
        };
        paths.iter().map(|path| peers().join(path)).collect()
    }

    /// How long a call may take by its documentation and these settings, on nodes that take the whole
    /// node timeout: tries, the delays between them, and the release after a failed one.
    pub(crate) fn call_limit(self) -> Duration {
        let ms = Duration::from_millis;
        match self {
            Contestant::Quorlock | Contestant::Redisson | Contestant::Rueidislock => WAIT + 2 * NODE_TIMEOUT,
            Contestant::Redsync => 32 * (ms(250) + 2 * NODE_TIMEOUT),
            Contestant::NodeRedlock => 11 * (ms(300) + NODE_TIMEOUT) + NODE_TIMEOUT,
            // One node after the other, for the lock and for its release.
            Contestant::RedlockPy => 3 * (ms(200) + 10 * NODE_TIMEOUT),
            Contestant::Rslock => 3 * (ms(200) + 2 * ms(1_500)),
        }
    }
}

impl Program {
    /// The program with the arguments of a client that reaches the nodes through `ports`.
    pub(crate) fn with_arguments(self, arguments: &ClientArguments, ports: &[u16]) -> Vec<OsString> {
        let millis = |span: Duration| OsString::from(span.as_millis().to_string());
        let mut words = self.0;
        words.extend([arguments.id.clone().into(), arguments.seed.to_string().into()]);
        words.push(arguments.resource.clone().into());
        words.extend([TTL, NODE_TIMEOUT, WAIT].map(millis));
        words.extend(ports.iter().map(|port| OsString::from(format!("redis://127.0.0.1:{port}"))));
        words
    }
}

impl fmt::Display for Contestant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Contestant {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|contestant| contestant.name() == name);
        let names = || Self::ALL.map(Self::name).join(", ");
        found.ok_or_else(|| format!("unknown contestant `{name}`; there are {}", names()))
    }
}

fn peers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../peers")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nemesis::client::arguments::Workload;

    #[test]
    fn every_contestant_is_found_by_its_name() {
        for contestant in Contestant::ALL {
            assert_eq!(contestant.name().parse(), Ok(contestant));
        }
        assert!("nobody".parse::<Contestant>().unwrap_err().contains("node-redlock"));
    }

    #[test]
    fn a_client_gets_the_limits_of_the_storm_and_plain_addresses() {
        let (id, resource) = ("1.0".to_owned(), "/r".into());
        let arguments = ClientArguments {
            id,
            seed: 7,
            resource,
            injected_bug: None,
            workload: Workload::Plain,
            names: 3,
            urls: Vec::new(),
        };
        let words = Program(vec!["p".into()]).with_arguments(&arguments, &[1, 2]);
        let expected =
            ["p", "1.0", "7", "/r", "1000", "100", "2000", "redis://127.0.0.1:1", "redis://127.0.0.1:2"];
        assert_eq!(words, expected);
    }
}
