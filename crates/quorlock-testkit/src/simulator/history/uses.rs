//! How often clients did each of the less common things.

/// What clients did besides acquiring, holding and releasing one name exclusively.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uses {
    /// Acquire calls that tried once.
    pub tries: u64,
    /// Locks that were handed over by a handle.
    pub handles: u64,
    /// Locks that were adopted.
    pub adoptions: u64,
    /// Extensions through the guard, without the watchdog.
    pub extensions: u64,
    /// Extensions by token.
    pub token_extensions: u64,
    /// Releases by token.
    pub token_releases: u64,
    /// Forced releases of what an inspection showed.
    pub forced_releases: u64,
    /// Changes of the node list, all clients each.
    pub list_changes: u64,
    /// Shared holds that were granted, of one name or several.
    pub shared: u64,
    /// Several names that were granted together, exclusively or shared.
    pub sets: u64,
    /// Permits of a semaphore that were granted, with one slot or several.
    pub permits: u64,
    /// Elections that were won.
    pub leaderships: u64,
    /// Exclusive holds that became shared.
    pub downgrades: u64,
    /// Shared holds that became exclusive.
    pub upgrades: u64,
    /// Calls for that which were refused.
    pub refused_upgrades: u64,
}

impl Uses {
    /// Each with its name.
    pub fn list(&self) -> [(&'static str, u64); 15] {
        [
            ("tries", self.tries),
            ("handles handed over", self.handles),
            ("adoptions", self.adoptions),
            ("extensions by guard", self.extensions),
            ("extensions by token", self.token_extensions),
            ("releases by token", self.token_releases),
            ("forced releases", self.forced_releases),
            ("node list changes", self.list_changes),
            ("shared holds", self.shared),
            ("several names", self.sets),
            ("permits", self.permits),
            ("leaderships", self.leaderships),
            ("downgrades", self.downgrades),
            ("upgrades", self.upgrades),
            ("upgrades refused", self.refused_upgrades),
        ]
    }

    /// Adds those of another world.
    pub fn add(&mut self, other: &Uses) {
        self.tries += other.tries;
        self.handles += other.handles;
        self.adoptions += other.adoptions;
        self.extensions += other.extensions;
        self.token_extensions += other.token_extensions;
        self.token_releases += other.token_releases;
        self.forced_releases += other.forced_releases;
        self.list_changes += other.list_changes;
        self.shared += other.shared;
        self.sets += other.sets;
        self.permits += other.permits;
        self.leaderships += other.leaderships;
        self.downgrades += other.downgrades;
        self.upgrades += other.upgrades;
        self.refused_upgrades += other.refused_upgrades;
    }
}
