//! Who takes part in a fault_phase: servers, client processes, the proxies between them, and what the locks protect.

use super::fault::{Counts, Fault};
use super::link::FaultyLink;
use super::history::{History, Promise, Sleep};
use super::line::ReportLine;
use super::process::Process;
use super::resource::{Ledger, Resource};
use super::arguments::ClientArguments;
use super::monotonic::now;
use super::server::FaultyServer;
use super::{Setting, lockers};
use crate::rng::Rng;
use quorlock::NodeOutcome;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

/// Everybody, cheap to clone. Ends only with [`Participants::finish`].
#[derive(Clone)]
pub(crate) struct Participants(Arc<Shared>);

struct Shared {
    setting: Setting,
    servers: Vec<FaultyServer>,
    slots: Vec<ClientSlot>,
    resource: Resource,
    history: Mutex<History>,
    faults: Mutex<Counts>,
}

/// One client after another in the same place.
struct ClientSlot {
    links: Vec<Arc<FaultyLink>>,
    process: Mutex<Option<Process>>,
    /// What shall befall it as soon as it has a lock.
    fault_on_grant: Mutex<Option<(Fault, Duration)>>,
}

/// From the news of a grant to the disturb: time to read, so that the disturb comes before the write.
const READING: Duration = Duration::from_millis(1);

impl Participants {
    /// Starts servers and clients.
    pub(crate) async fn start(setting: &Setting, rng: &mut Rng) -> Self {
        let servers: Vec<_> = (0..setting.nodes).map(|number| FaultyServer::start(setting.binary, number)).collect();
        // The real addresses, and an honest client.
        let urls = servers.iter().map(|server| server.url(server.port)).collect();
        let locker = lockers(urls, None).build().expect("a good configuration");
        for report in locker.init_fresh_nodes().await {
            assert!(matches!(report.outcome, NodeOutcome::Yes), "{report}");
        }
        let mut slots = Vec::new();
        for _ in 0..setting.clients {
            let mut links = Vec::new();
            for server in &servers {
                links.push(FaultyLink::open(server.port).await);
            }
            slots.push(ClientSlot { links, process: Mutex::default(), fault_on_grant: Mutex::default() });
        }
        let participants = Self(Arc::new(Shared {
            setting: setting.clone(),
            servers,
            slots,
            resource: Resource::start(setting.binary),
            history: Mutex::new(History::new(setting.clients)),
            faults: Mutex::default(),
        }));
        for client in 0..setting.clients {
            *participants.process(client) = Some(participants.start_client(client, 0, rng.fork()));
        }
        participants
    }

    pub(crate) fn servers(&self) -> &[FaultyServer] {
        &self.0.servers
    }

    pub(crate) fn clients(&self) -> usize {
        self.0.slots.len()
    }

    pub(crate) fn links(&self, client: usize) -> &[Arc<FaultyLink>] {
        &self.0.slots[client].links
    }

    pub(crate) fn history(&self) -> MutexGuard<'_, History> {
        self.0.history.lock().unwrap()
    }

    pub(crate) fn count(&self, fault: Fault) {
        *self.0.faults.lock().unwrap().entry(fault).or_default() += 1;
    }

    pub(crate) fn faults(&self) -> Counts {
        self.0.faults.lock().unwrap().clone()
    }

    /// Strikes a client as soon as it has a lock. What it fault_on_grant before does not come.
    pub(crate) fn inject_on_grant(&self, client: usize, fault: Fault, span: Duration) {
        *self.0.slots[client].fault_on_grant.lock().unwrap() = Some((fault, span));
    }

    /// Sets a client's wall clock.
    pub(crate) fn set_clock(&self, client: usize, ahead_ms: i64) {
        if let Some(process) = self.process(client).as_mut() {
            process.set_wall(ahead_ms);
        }
    }

    /// Kills a client, whatever it holds, and starts another in its place. What it had sent may still arrive.
    pub(crate) fn crash(&self, client: usize, rng: Rng) {
        let mut process = self.process(client);
        let incarnation = process.as_ref().map_or(0, |process| process.incarnation);
        let at = now();
        // Dead and heard to the end, before its last hold is closed.
        *process = None;
        self.history().record(format!("client {client} was killed"));
        self.history().end(client, at);
        *process = Some(self.start_client(client, incarnation + 1, rng));
    }

    /// Tells all clients that the fault_phase is over.
    pub(crate) fn end_faults(&self) {
        self.history().record("the fault_phase is over".to_owned());
        for client in 0..self.clients() {
            self.process(client).as_mut().expect("born").end_faults();
        }
    }

    /// Ends everything and gives what is known. Clients that ended by themselves break a promise.
    pub(crate) fn finish(&self) -> (History, Ledger) {
        for client in 0..self.clients() {
            let has_ended = self.process(client).as_mut().expect("born").has_ended();
            *self.process(client) = None;
            if has_ended {
                let what = format!("client {client} ended by itself");
                self.history().violate(Promise::Recovery, now(), what);
            }
        }
        let mut history = self.history().clone();
        history.check();
        let ledger = self.0.resource.close();
        for what in &ledger.fenced_losses {
            history.violate(Promise::NoFencedLoss, now(), what.clone());
        }
        (history, ledger)
    }

    fn process(&self, client: usize) -> MutexGuard<'_, Option<Process>> {
        self.0.slots[client].process.lock().unwrap()
    }

    fn start_client(&self, client: usize, incarnation: u64, mut rng: Rng) -> Process {
        let links = self.links(client).iter().zip(self.servers());
        let arguments = ClientArguments {
            id: format!("{client}.{incarnation}"),
            seed: rng.draw(),
            resource: self.0.resource.socket(),
            bug: self.0.setting.injected_bug,
            urls: links.map(|(link, server)| server.url(link.proxy.port())).collect(),
        };
        let participants = self.clone();
        Process::start(&self.0.setting.program, &arguments, incarnation, move |line| {
            let is_grant = matches!(line, ReportLine::Granted { .. } | ReportLine::Adopted { .. });
            if let ReportLine::GivenAway { handle } = &line {
                participants.deliver(client, handle.clone());
            }
            participants.history().record_line(client, line);
            if is_grant {
                participants.inject_pending_fault(client, incarnation);
            }
        })
    }

    /// Gives a lock that a client gave away to the next one, on a thread of its own.
    fn deliver(&self, from: usize, handle: String) {
        let participants = self.clone();
        thread::spawn(move || {
            let to = (from + 1) % participants.clients();
            if let Some(process) = participants.process(to).as_mut() {
                process.give(&handle);
            }
        });
    }

    /// Lets happen what awaits this client, on a thread of its own: whoever listens to a client must never wait for it.
    fn inject_pending_fault(&self, client: usize, incarnation: u64) {
        let Some((fault, span)) = self.0.slots[client].fault_on_grant.lock().unwrap().take() else { return };
        let participants = self.clone();
        thread::spawn(move || {
            thread::sleep(READING);
            if fault == Fault::ClientSuspend {
                return participants.suspend(client, span);
            }
            let stop = |process: &Process| process.stop();
            if participants.with_incarnation(client, incarnation, stop) {
                participants.count(fault);
                participants.history().record(format!("client {client} stands still for {span:?}"));
                thread::sleep(span);
                participants.with_incarnation(client, incarnation, Process::resume);
            }
        });
    }

    /// The client's machine sleeps. For the true time it takes a moment only.
    fn suspend(&self, client: usize, by: Duration) {
        let process = self.process(client);
        let Some(process) = process.as_ref() else { return };
        process.stop();
        let sleep = Sleep { client, at: now(), by };
        process.sleep(by);
        process.resume();
        let mut history = self.history();
        history.sleeps.push(sleep);
        history.record(format!("the machine of client {client} slept for {by:?}"));
        drop(history);
        self.count(Fault::ClientSuspend);
    }

    /// Does something to a client unless it died meanwhile.
    fn with_incarnation(&self, client: usize, incarnation: u64, action: impl FnOnce(&Process)) -> bool {
        let process = self.process(client);
        let alive = process.as_ref().filter(|process| process.incarnation == incarnation);
        alive.map(action).is_some()
    }
}
