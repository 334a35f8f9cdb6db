//! One moment of the modelled world.

/// What a client sends to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Vote,
    /// The stamp of the first round or of the second.
    Stamp(usize),
    Extend,
    Repair,
    Release,
}

const COMMANDS: [Command; 6] =
    [Command::Vote, Command::Stamp(0), Command::Stamp(1), Command::Extend, Command::Repair, Command::Release];

/// Commands that were sent and not executed yet, oldest first: four bits each, 0 at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Queue(u32);

impl Queue {
    pub(crate) fn push(&mut self, command: Command) {
        let code = COMMANDS.iter().position(|known| *known == command).unwrap() + 1;
        assert!(self.len() < 8, "a queue longer than its bits");
        self.0 |= u32::try_from(code).unwrap() << (4 * self.len());
    }

    pub(crate) fn pop(&mut self) -> Option<Command> {
        let first = self.iter().next();
        self.0 >>= 4;
        first
    }

    pub(crate) fn contains(self, command: Command) -> bool {
        self.iter().any(|queued| queued == command)
    }

    /// All commands of this kind are lost on their way.
    pub(crate) fn drop_all(&mut self, command: Command) {
        let before = std::mem::take(self);
        before.iter().filter(|queued| *queued != command).for_each(|queued| self.push(queued));
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn len(self) -> usize {
        (8 - self.0.leading_zeros() / 4) as usize
    }

    fn iter(self) -> impl Iterator<Item = Command> {
        (0..8).map(move |at| self.0 >> (4 * at) & 15).take_while(|code| *code != 0).map(command)
    }
}

fn command(code: u32) -> Command {
    COMMANDS[code as usize - 1]
}

/// What a client has heard from a node in the round under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Heard {
    /// It was not asked, or the answer has been used.
    #[default]
    Nothing,
    /// It was asked and has not answered.
    Waiting,
    Confirmed,
    Voted,
    Denied,
    Stamped(u8),
    Extended,
    /// The name is not there.
    Gone,
    /// No answer, or one that does not count.
    Missing,
}

/// What a client knows of the epoch of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Knowledge {
    /// It has verified the one that the node has now.
    #[default]
    Current,
    /// It has verified one that the node has lost since, whether it has noticed that or not.
    Stale,
}

/// What lies between one client and one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Link {
    pub(crate) queue: Queue,
    pub(crate) heard: Heard,
    /// Whether the node voted for the client's attempt; in stamp rounds only.
    pub(crate) is_voter: bool,
    pub(crate) knows: Knowledge,
    /// From which tick on the client counts the node's votes; 0 when that has passed.
    pub(crate) counts_from: u8,
    /// Whether the node executed the client's release.
    pub(crate) is_released: bool,
}

/// A name that a node stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Stored {
    pub(crate) client: u8,
    /// The tick at which it expires.
    pub(crate) until: u8,
}

/// The epoch of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Epoch {
    /// It has lost its memory, and no client has begun an epoch since.
    None,
    /// The tick from which on it may vote; 0 when that has passed.
    VotesFrom(u8),
    /// The same, and its clock has jumped past that tick.
    Jumped(u8),
}

/// One node with all that concerns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Node<const C: usize> {
    pub(crate) stored: Option<Stored>,
    pub(crate) counter: u8,
    pub(crate) epoch: Epoch,
    /// Whether the forced release reached it.
    pub(crate) is_forced: bool,
    /// Until when it remembers that; 0 when that has passed.
    pub(crate) marked_until: u8,
    pub(crate) links: [Link; C],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Phase {
    #[default]
    Idle,
    Voting,
    Stamping,
    /// It asks the voters again.
    Confirming,
    Holding,
    Extending,
    /// It released the lock.
    Closed,
    /// It was refused, or lost the lock.
    Over,
}

/// One client, which makes one attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Client {
    pub(crate) phase: Phase,
    /// When the attempt, or the last round that extended the lock, started: the lease counts from
    /// here.
    pub(crate) lease_from: u8,
    /// When the round to extend that is under way started.
    pub(crate) round_from: u8,
    /// The highest fence that had been returned when the attempt started.
    pub(crate) before: u8,
    /// Stamp rounds begun.
    pub(crate) rounds: u8,
    pub(crate) targets: [u8; 2],
    pub(crate) proposal: u8,
    /// The fence that it was granted, 0 if none.
    pub(crate) fence: u8,
}

impl Client {
    /// Whether it believes to hold the lock.
    pub(crate) fn holds(&self) -> bool {
        matches!(self.phase, Phase::Holding | Phase::Extending)
    }

    pub(crate) fn is_done(&self) -> bool {
        matches!(self.phase, Phase::Closed | Phase::Over)
    }
}

/// What must never be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Violation {
    TwoHolders,
    DuplicateFence,
    /// A fence that is not above one returned before the attempt started.
    NotAboveEarlier,
    /// Of two holders in turn, the later one has the smaller fence.
    HoldingOrder,
    /// A lock is still held one ttl after it was released by force on a majority.
    HeldAfterForce,
    /// A node that kept its memory has a lower counter than before.
    CounterLowered,
    /// A node stores a lock again after its release by the holder.
    Resurrected,
}

/// `N` nodes and `C` clients at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World<const N: usize, const C: usize> {
    pub(crate) now: u8,
    pub(crate) nodes: [Node<C>; N],
    pub(crate) clients: [Client; C],
    /// Losses of memory so far.
    pub(crate) losses: u8,
    /// Jumps of clocks so far.
    pub(crate) jumps: u8,
    /// The tick at which the forced release reached the first node, and the last one.
    pub(crate) forced: Option<(u8, u8)>,
    pub(crate) broken: Option<Violation>,
}

impl<const N: usize, const C: usize> World<N, C> {
    /// All nodes are empty and may vote, and all clients know that.
    pub(crate) fn initial() -> Self {
        let node = Node {
            stored: None,
            counter: 0,
            epoch: Epoch::VotesFrom(0),
            is_forced: false,
            marked_until: 0,
            links: [Link::default(); C],
        };
        Self {
            now: 0,
            nodes: [node; N],
            clients: [Client::default(); C],
            losses: 0,
            jumps: 0,
            forced: None,
            broken: None,
        }
    }

    /// The same for all worlds that differ only in the order of the nodes.
    pub(crate) fn with_nodes_in_order(mut self) -> Self {
        self.nodes.sort_unstable();
        self
    }

    /// The first two clients change places.
    pub(crate) fn with_clients_swapped(mut self) -> Self {
        self.clients.swap(0, 1);
        for node in &mut self.nodes {
            node.links.swap(0, 1);
            if let Some(stored) = &mut node.stored {
                stored.client = 1 - stored.client;
            }
        }
        self
    }

    /// What decides between worlds that are the same but for the order of things.
    pub(crate) fn sort_key(&self) -> impl Ord + use<N, C> {
        (self.clients, self.nodes)
    }

    pub(crate) fn highest_fence(&self) -> u8 {
        self.clients.iter().map(|client| client.fence).max().unwrap_or(0)
    }

    /// Ends what `client` does, as if it had left nothing behind.
    pub(crate) fn vanish(&mut self, client: usize, phase: Phase) {
        let fence = self.clients[client].fence;
        self.clients[client] = Client { phase, fence, ..Client::default() };
        for node in &mut self.nodes {
            node.stored.take_if(|stored| usize::from(stored.client) == client);
            node.links[client] = Link::default();
        }
    }

    /// Ends what `client` does: answers no longer matter, but what is on its way to nodes still
    /// arrives.
    pub(crate) fn end(&mut self, client: usize, phase: Phase) {
        let Client { fence, proposal, targets, .. } = self.clients[client];
        self.clients[client] = Client { phase, fence, proposal, targets, ..Client::default() };
        for node in &mut self.nodes {
            let link = &mut node.links[client];
            *link = Link { queue: link.queue, is_released: link.is_released, ..Link::default() };
        }
        self.forget_numbers(client);
    }

    /// Forgets the numbers of a client that ended once no command needs them, so that equal worlds
    /// are recognised.
    pub(crate) fn forget_numbers(&mut self, client: usize) {
        if self.clients[client].is_done() && self.nodes.iter().all(|node| node.links[client].queue.is_empty())
        {
            let Client { phase, fence, .. } = self.clients[client];
            self.clients[client] = Client { phase, fence, ..Client::default() };
        }
    }

    /// Whether `client` may still count a vote of `node`.
    pub(crate) fn may_count(&self, client: usize, node: usize) -> bool {
        match self.clients[client].phase {
            Phase::Idle => true,
            Phase::Voting => self.nodes[node].links[client].heard == Heard::Waiting,
            _ => false,
        }
    }

    pub(crate) fn send(&mut self, client: usize, node: usize, command: Command) {
        self.nodes[node].links[client].queue.push(command);
    }

    /// Records a violation; the first one stays.
    pub(crate) fn violate(&mut self, violation: Violation) {
        self.broken.get_or_insert(violation);
    }
}
