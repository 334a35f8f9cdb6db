//! The commands on a lock from outside of any process that holds it.

use super::Terms;
use crate::duration;
use crate::failure::Failure;
use clap::Args;
use quorlock::Token;
use std::time::Duration;

/// Take a lock and print its token
///
/// For scripts that cannot be wrapped by `quorlock run`, which is safer: nobody keeps this lock alive. It is yours for
/// its ttl; extend it in time with `quorlock extend`, give it back with `quorlock release`. It does not end with this
/// process. The token is the proof that it is yours: keep it to yourself.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  QUORLOCK_TOKEN=$(quorlock acquire deploy --ttl 30s --reason 'release 12') || exit
  export QUORLOCK_TOKEN
  ./first-half  && quorlock extend deploy
  ./second-half && quorlock release deploy

Exit codes: 0 taken, 2 usage, 69 no quorum, 75 busy or wait over, 128+n stopped by signal n while waiting.")]
pub(crate) struct Acquire {
    /// The lock: any text without control or invisible characters
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) terms: Terms,
}

/// Extend a lock that was taken with `quorlock acquire`
///
/// It is then held for one ttl from now. It never becomes shorter.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  quorlock extend deploy --token 0f3a...       (or with QUORLOCK_TOKEN in the environment)
  quorlock extend deploy --ttl 20s --json

Exit codes: 0 extended, 2 usage, 69 no quorum (it is held until its old deadline), 79 it is not held under that token.")]
pub(crate) struct Extend {
    /// The lock
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) proof: Proof,

    /// How long the nodes keep the lock from now on [default: 30s, or the longest ttl if that is shorter]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) ttl: Option<Duration>,
}

/// Give back a lock that was taken with `quorlock acquire`
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  quorlock release deploy --token 0f3a...      (or with QUORLOCK_TOKEN in the environment)

Exit codes: 0 released, 2 usage, 69 no quorum (its ttl frees it), 79 it was gone already: its time ran out or somebody
removed it, so what it protected may have been touched by others.")]
pub(crate) struct Release {
    /// The lock
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) proof: Proof,
}

/// The proof that a lock is ours.
#[derive(Args, Debug)]
pub(crate) struct Proof {
    /// The token that `quorlock acquire` printed [env: QUORLOCK_TOKEN]
    ///
    /// Others on this machine can read the arguments of a program: prefer the environment.
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
}

impl Proof {
    /// The token from the flag, else from the environment.
    pub(crate) fn token(&self) -> Result<Token, Failure> {
        // An empty variable is what `$(quorlock acquire ...)` leaves when it fails.
        let variable = || std::env::var("QUORLOCK_TOKEN").ok().filter(|token| !token.is_empty());
        let given = self.token.clone().or_else(variable);
        let given = given.ok_or_else(|| {
            Failure::usage("no token was given")
                .help("give --token or QUORLOCK_TOKEN: what `quorlock acquire` printed")
        })?;
        token(&given)
    }
}

/// Reads a token. What was given instead is not repeated, as it may be a secret with a typing error.
pub(crate) fn token(text: &str) -> Result<Token, Failure> {
    text.trim().parse().map_err(|error: quorlock::TokenError| {
        Failure::usage(format!("the given token is none: {error}"))
            .help("give what `quorlock acquire` printed")
    })
}

/// Show who holds a lock, or all held locks
///
/// Without a name, lists the locks of quorlock that are held. A lock that another program took with plain SET NX
/// commands is shown only by its name.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  quorlock status
  quorlock status deploy
  quorlock status deploy --show-token          (the token is what `quorlock force-release` asks for)

Exit codes: 0 whether held or free, 2 usage, 69 no quorum.")]
pub(crate) struct Status {
    /// The lock; all held locks if left out
    pub(crate) name: Option<String>,

    /// Show the holder's token, too. Whoever knows it can release the lock
    #[arg(long, requires = "name")]
    pub(crate) show_token: bool,
}

/// Follow who holds a lock, or all held locks
///
/// On a terminal the view is drawn anew at every interval; q or Ctrl-C ends it. Elsewhere each look is one line, or
/// one JSON object per line with --json.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  quorlock watch
  quorlock watch deploy --interval 250ms
  quorlock watch --json | jq '.locks | length'")]
pub(crate) struct Watch {
    /// The lock; all held locks if left out
    pub(crate) name: Option<String>,

    /// How long to wait from one look to the next
    #[arg(long, value_name = "DURATION", value_parser = interval, default_value = "1s")]
    pub(crate) interval: Duration,
}

/// An interval that does not flood the nodes.
fn interval(text: &str) -> Result<Duration, String> {
    let interval = duration::parse(text)?;
    let allowed = Duration::from_millis(100)..=Duration::from_secs(3600);
    if allowed.contains(&interval) { Ok(interval) } else { Err("give 100ms to 1h".to_owned()) }
}

/// Take a lock away from its holder
///
/// Only for a holder that is gone for good or must be stopped: it is not asked, and works on until it notices. Name
/// the holder by its token, which `quorlock status NAME --show-token` tells: if somebody else has the lock by now,
/// nothing happens.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  quorlock status deploy --show-token
  quorlock force-release deploy --token 0f3a... --yes

Exit codes: 0 released, 1 you said no, 2 usage, 69 no quorum, 79 it is not held under that token.")]
pub(crate) struct ForceRelease {
    /// The lock
    pub(crate) name: String,

    /// The token of who holds it now
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: String,

    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
}
