//! What is special about a world: which faults it has, and how its clients are configured.

use crate::rng::Rng;
use crate::simulator::history::WorldKind;
use crate::simulator::network::stream::LogIn;
use crate::simulator::{InjectedBug, Setting};

/// Separates the stream of the traits from that of everything else.
const TRAITS: u64 = 0x1f83_d9ab_fb41_bd6b;

/// The traits of one world.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorldTraits {
    pub(crate) kind: WorldKind,
    /// Clients only acquire, hold and release.
    pub(crate) is_plain: bool,
    /// Server clocks jump ahead after memory loss, and no process starts later.
    pub(crate) has_jumps: bool,
    /// Clients have no restart guard, and servers forget nothing.
    pub(crate) is_unguarded: bool,
    /// Clients never wait for a lock, so that releases need no hint.
    pub(crate) is_impatient: bool,
    /// Clients also share locks, hold several names together, and take permits.
    pub(crate) has_modes: bool,
    pub(crate) login: LogIn,
}

impl WorldTraits {
    pub(crate) fn draw(setting: &Setting, kind: WorldKind) -> Self {
        let mut rng = Rng::new(setting.seed ^ TRAITS);
        let mut trait_of = |percent: u64, bug: InjectedBug| {
            let percent = if setting.injected_bug == Some(bug) { 100 } else { percent };
            rng.chance(percent)
        };
        let has_jumps = trait_of(20, InjectedBug::ServerClockQuarantine) && kind == WorldKind::Tame;
        let is_unguarded =
            trait_of(10, InjectedBug::PartialReplyKept) && kind == WorldKind::Tame && !has_jumps;
        let is_impatient = trait_of(10, InjectedBug::FastReleaseBlind) && !setting.plain;
        // A comparison is about clients with the guard, and a bug of the guard shows only with it.
        let is_unguarded = is_unguarded && (!setting.plain || setting.injected_bug.is_some());
        let login = if rng.chance(20) { LogIn::Password } else { LogIn::Open };
        // A bug shows sooner in a world without what it has nothing to do with.
        let has_modes = match setting.injected_bug {
            Some(bug) => bug.needs_modes(),
            None => rng.chance(60),
        };
        let (is_plain, has_modes) = (setting.plain, has_modes && !setting.plain);
        Self { kind, is_plain, has_jumps, is_unguarded, is_impatient, has_modes, login }
    }

    /// Whether an operator changes the list of nodes.
    pub(crate) fn changes_lists(self) -> bool {
        // Every list takes counters away, so fences survive changes only with clocks that are right.
        self.kind == WorldKind::Tame && !self.has_jumps && !self.is_unguarded && !self.is_plain
    }
}
