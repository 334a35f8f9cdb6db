//! `quorlock config`: the settings and where they come from.

use clap::Subcommand;

/// What to do with the configuration.
#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Show every setting and where it came from
    Show,
}

pub(super) const FILES: &str = "\
Files: quorlock.toml in this directory or one above it, then quorlock/config.toml in $XDG_CONFIG_HOME or ~/.config, then \
/etc/quorlock/config.toml. If several files have a setting, the first in this order counts. --config FILE or \
QUORLOCK_CONFIG replaces all of them. A quorlock.toml that belongs to another user, except root, is refused unless it is \
named with one of these two. Every setting may be left out:

  nodes = [\"redis://a\", \"redis://b\", \"redis://c\"]
  require_nodes = false       whether to fail if no nodes are configured
  ttl = \"30s\"                 how long nodes keep a lock that its holder does not extend
  longest_ttl = \"30s\"         the longest ttl that any client of these nodes uses
  wait = \"10s\"                how long to wait for a lock
  node_timeout = \"50ms\"       how long one node may take to answer
  connect_timeout = \"1s\"      how long connecting to one node may take
  drift = 0.01                how much faster a node's clock may run than ours
  restart_guard = \"strict\"    or \"off\": whether nodes that restarted are kept from voting
  durable = false             whether all nodes sync every write to disk
  allow_eviction = false      whether nodes may drop locks when their memory is full
  kill_grace = \"5s\"           from TERM to KILL when a lock is lost
  on_lost = \"term\"            or \"kill\", or \"warn\"";
