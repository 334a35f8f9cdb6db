//! The commands on a lock that is named by its token: extend, release, force-release.

use crate::output::duration;
use crate::output::failure::Failure;
use clap::{Args, value_parser};
use quorlock::Token;
use std::time::Duration;

/// Extend a lock that was acquired with `quorlock acquire`
///
/// You then hold it for one ttl from now. An extension never makes it shorter.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  quorlock extend deploy --token 0f3a...       (or with QUORLOCK_TOKEN in the environment)
  quorlock extend deploy --ttl 20s --json
  quorlock extend disk --also network --token 0f3a...

Exit codes: 0 extended, 2 usage, 69 no quorum (it is held until its old deadline), 79 it is not held under that token.")]
pub(crate) struct Extend {
    #[command(flatten)]
    pub(crate) lock: HeldLock,

    #[command(flatten)]
    pub(crate) token: TokenArg,

    /// How long the nodes keep the lock from now on [default: 30s, or the longest ttl if that is
    /// shorter]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) ttl: Option<Duration>,
}

/// Release a lock that was acquired with `quorlock acquire`
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  quorlock release deploy --token 0f3a...      (or with QUORLOCK_TOKEN in the environment)
  quorlock release gpu --slot 3 --token 0f3a...

Exit codes: 0 released, 2 usage, 69 no quorum (its ttl frees it), 79 it was gone already: its ttl ran out or another
client removed it, so another client may have changed what it protected.")]
pub(crate) struct Release {
    #[command(flatten)]
    pub(crate) lock: HeldLock,

    #[command(flatten)]
    pub(crate) token: TokenArg,
}

/// Which lock a token holds.
#[derive(Args, Debug)]
pub(crate) struct HeldLock {
    /// The lock
    pub(crate) name: String,

    /// Another name that was acquired together with NAME. Give each of them
    #[arg(long, value_name = "NAME", conflicts_with_all = ["slot", "slots"])]
    pub(crate) also: Vec<String>,

    /// The slot of the semaphore NAME, as `quorlock acquire --slots N --json` printed it
    #[arg(long, value_name = "I", value_parser = value_parser!(u32).range(0..=1023), conflicts_with = "slots")]
    pub(crate) slot: Option<u32>,

    /// Find the slot of the semaphore NAME, which has N slots, by the token
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=1024))]
    pub(crate) slots: Option<u32>,
}

/// The proof that a lock is ours.
#[derive(Args, Debug)]
pub(crate) struct TokenArg {
    /// The token that `quorlock acquire` printed [env: QUORLOCK_TOKEN]
    ///
    /// Other users of this machine can read the arguments of a program: prefer the environment.
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
}

impl TokenArg {
    /// The token from the flag, else from the environment.
    ///
    /// # Errors
    /// Neither has a token.
    pub(crate) fn parse(&self) -> Result<Token, Failure> {
        // An empty variable is what `$(quorlock acquire ...)` leaves when it fails.
        let variable = || std::env::var("QUORLOCK_TOKEN").ok().filter(|token| !token.is_empty());
        let given = self.token.clone().or_else(variable);
        let given = given.ok_or_else(|| {
            Failure::usage("no token was given")
                .help("give --token or QUORLOCK_TOKEN: what `quorlock acquire` printed")
        })?;
        parse_token(&given)
    }
}

/// Parses a token. The error does not repeat `text`, which may be a secret with a typing error.
///
/// # Errors
/// It is no token.
pub(crate) fn parse_token(text: &str) -> Result<Token, Failure> {
    text.trim().parse().map_err(|error: quorlock::TokenError| {
        Failure::usage(format!("the given token is none: {error}"))
            .help("give what `quorlock acquire` printed")
    })
}

/// Take a lock away from its holder
///
/// Only for a holder that is gone for good or must be stopped. The holder is not asked, and goes on
/// working until it notices. Name the holder by its token, which `quorlock status NAME
/// --show-token` prints. If another client holds the lock by now, nothing happens. Of several
/// clients that share the lock, only the named one loses it.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  quorlock status deploy --show-token
  quorlock force-release deploy --token 0f3a... --yes
  quorlock force-release gpu --slot 3 --token 0f3a... --yes

Exit codes: 0 released, 1 you answered no, 2 usage, 69 no quorum, 79 it is not held under that token.")]
pub(crate) struct ForceRelease {
    /// The lock
    pub(crate) name: String,

    /// The slot, if NAME is a semaphore
    #[arg(long, value_name = "I", value_parser = value_parser!(u32).range(0..=1023))]
    pub(crate) slot: Option<u32>,

    /// The token of the current holder
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: String,

    /// Do not ask for confirmation
    #[arg(short, long)]
    pub(crate) yes: bool,
}
