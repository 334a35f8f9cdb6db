//! Trouble: what can go wrong in a world, when it does, and how it ends.

use super::World;
use super::cast::Cast;
use super::history::Mood;
use super::link::Link;
use super::node_list::in_any_order;
use super::plant::Plant;
use super::rng::Rng;
use super::weather::Weather;
use quorlock::Name;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// A kind of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// All messages of one link are late.
    Delay,
    /// One connection breaks; what was on its way arrives or not.
    Cut,
    /// Requests are executed twice, the second time late.
    Duplicate,
    /// A client is cut off from some servers in both directions.
    Partition,
    /// Requests arrive, replies do not.
    OneWay,
    /// A server restarts with its memory.
    Crash,
    /// A server restarts without its memory.
    Amnesia,
    /// A server forgets everything while its connections stay.
    Flush,
    /// A server takes commands and neither executes nor answers for a while.
    Stop,
    /// A server's wall clock goes back a little.
    ServerClockBack,
    /// A server's wall clock jumps ahead. Wild worlds only.
    ServerClockAhead,
    /// A server drops one lock. Wild worlds only.
    Evict,
    /// A client stands still; its clocks go on.
    Pause,
    /// A client's machine sleeps.
    Suspend,
    /// A client's wall clock jumps.
    ClientClock,
    /// A client dies and starts anew.
    ClientCrash,
    /// The fence counter of one name vanishes on a minority of servers. Wild worlds only.
    LoseCounter,
}

impl Fault {
    /// All kinds.
    pub const ALL: [Fault; 17] = [
        Fault::Delay,
        Fault::Cut,
        Fault::Duplicate,
        Fault::Partition,
        Fault::OneWay,
        Fault::Crash,
        Fault::Amnesia,
        Fault::Flush,
        Fault::Stop,
        Fault::ServerClockBack,
        Fault::ServerClockAhead,
        Fault::Evict,
        Fault::Pause,
        Fault::Suspend,
        Fault::ClientClock,
        Fault::ClientCrash,
        Fault::LoseCounter,
    ];

    /// Those of plain worlds.
    const PLAIN: usize = 16;
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = format!("{self:?}");
        f.pad(&name)
    }
}

/// How often each kind of trouble came.
pub type Counts = BTreeMap<Fault, u64>;

/// Makes trouble until `end`, one after another, some at the same time.
pub(super) async fn torment(world: World, mut rng: Rng, end: Instant) {
    while Instant::now() < end {
        sleep(rng.span(Duration::from_millis(50), Duration::from_millis(2_500))).await;
        world.cast().audit();
        let kinds = if world.is_plain() { &Fault::ALL[..Fault::PLAIN] } else { &Fault::ALL };
        let mut fault = *rng.pick(kinds);
        let is_wild = matches!(fault, Fault::ServerClockAhead | Fault::Evict | Fault::LoseCounter);
        if world.mood() == Mood::Tame && is_wild {
            fault = Fault::Cut;
        }
        // Fences survive wild worlds only while a majority keeps its counters.
        if world.mood() == Mood::Wild && matches!(fault, Fault::Amnesia | Fault::Flush) {
            fault = Fault::Crash;
        }
        if world.cast().plant() == Some(Plant::CounterLoss) && world.mood() == Mood::Wild {
            let (cast, names, fault) = (world.cast(), world.names(), Fault::LoseCounter);
            Trouble { cast, names, fault, rng: rng.fork() }.lose_counters();
        }
        let trouble = Trouble { cast: world.cast(), names: world.names(), fault, rng: rng.fork() };
        if matches!(fault, Fault::Amnesia | Fault::Flush) {
            let cast = world.cast();
            cast.history.lock().unwrap().forgets(cast.now());
        }
        if trouble.happen() {
            world.count(fault);
        }
    }
}

struct Trouble {
    cast: Cast,
    names: Vec<Name>,
    fault: Fault,
    rng: Rng,
}

impl Trouble {
    /// Begins, and plans its own end. `false` if it found nothing to do.
    fn happen(mut self) -> bool {
        let node = *self.rng.pick(&self.cast.list(0));
        let client = usize::try_from(self.rng.below(self.cast.clients() as u64)).unwrap();
        self.cast.tell(&format!("fault {} at server {node}, client {client}", self.fault));
        match self.fault {
            Fault::Delay => self.bad_weather(client, |weather, rng| {
                weather.delay.1 = rng.span(Duration::from_millis(20), Duration::from_millis(400));
            }),
            Fault::Duplicate => self.bad_weather(client, |weather, _| weather.duplicates = 30),
            Fault::Partition => self.bad_weather(client, |weather, _| {
                weather.no_requests = true;
                weather.no_replies = true;
            }),
            Fault::OneWay => self.bad_weather(client, |weather, _| weather.no_replies = true),
            Fault::Cut => self.cast.link(client, node).iter().for_each(Link::cut),
            Fault::Crash | Fault::Amnesia => self.crash(node),
            Fault::Flush => self.cast.servers[node].lock().unwrap().flush(),
            Fault::Stop => self.stop(node),
            Fault::ServerClockBack => self.jump_server(node, false),
            Fault::ServerClockAhead => self.jump_server(node, true),
            Fault::Evict => return self.cast.servers[node].lock().unwrap().evict(),
            Fault::Pause => self.stand_still(client, false),
            Fault::Suspend => self.stand_still(client, true),
            Fault::ClientClock => self.jump_client(client),
            Fault::ClientCrash => self.cast.crash(client),
            Fault::LoseCounter => return self.lose_counters(),
        }
        true
    }

    /// Changes the weather between a client and some servers, for a while.
    fn bad_weather(&mut self, client: usize, change: impl Fn(&mut Weather, &mut Rng)) {
        let span = self.rng.span(Duration::from_millis(100), Duration::from_secs(6));
        for link in self.cast.links(client) {
            if !self.rng.chance(60) {
                continue;
            }
            let mut weather = link.weather();
            change(&mut weather, &mut self.rng);
            link.set_weather(weather);
            self.cast.agenda.plan(Instant::now() + span, move || link.set_weather(Weather::CALM));
        }
    }

    fn crash(&mut self, node: usize) {
        let keeps_memory = self.fault == Fault::Crash;
        let span = self.rng.span(Duration::from_millis(10), Duration::from_secs(4));
        self.cast.servers[node].lock().unwrap().is_up = false;
        self.cast.cut_all(node);
        let cast = self.cast.clone();
        self.cast.agenda.plan(Instant::now() + span, move || {
            cast.servers[node].lock().unwrap().restart(keeps_memory);
        });
    }

    fn stop(&mut self, node: usize) {
        let span = self.rng.span(Duration::from_millis(20), Duration::from_secs(4));
        self.cast.servers[node].lock().unwrap().is_stopped = true;
        let cast = self.cast.clone();
        self.cast.agenda.plan(Instant::now() + span, move || {
            let stalled = cast.servers[node].lock().unwrap().go_on();
            stalled.into_iter().for_each(|deed| deed());
        });
    }

    /// Drops the counter of a name on a minority of servers, while a majority keeps the highest number that any has.
    fn lose_counters(&mut self) -> bool {
        let (list, name) = (self.cast.first_list(), self.rng.pick(&self.names).clone());
        let counter = |node: usize| self.cast.servers[node].lock().unwrap().counter(&name);
        let highest = list.iter().filter_map(|node| counter(*node)).max();
        let is_careless = self.cast.plant() == Some(Plant::CounterLoss);
        let knows = |node: usize| counter(node) == highest || is_careless;
        let mut lost = 0;
        for node in in_any_order(&list, &mut self.rng) {
            let kept = list.iter().filter(|other| **other != node && knows(**other)).count();
            let minority = (list.len() - 1) / 2;
            if lost < minority && kept > list.len() / 2 {
                lost += usize::from(self.cast.servers[node].lock().unwrap().lose_counter(&name));
            }
        }
        lost > 0
    }

    fn jump_server(&mut self, node: usize, ahead: bool) {
        let micros = i64::try_from(self.rng.below(if ahead { 4_000_000 } else { 500_000 })).unwrap();
        let server = self.cast.servers[node].lock().unwrap();
        server.clock.jump_wall(if ahead { micros } else { -micros });
    }

    fn stand_still(&mut self, client: usize, asleep: bool) {
        let span = self.rng.span(Duration::from_millis(50), Duration::from_secs(6));
        self.cast.freeze(client, span, asleep);
    }

    fn jump_client(&mut self, client: usize) {
        // Within the tolerance of 5 s between clients, so that fences survive memory loss.
        let micros = i64::try_from(self.rng.below(1_000_000)).unwrap() - 500_000;
        self.cast.clock(client).jump_wall(micros);
    }
}
