//! The participants of a run: servers, client processes, the proxies between them, and the
//! protected resource.

use crate::nemesis::checker::history::{History, Stop};
use crate::nemesis::checker::hold::Sleep;
use crate::nemesis::checker::promise::Promise;
use crate::nemesis::client::arguments::{ClientArguments, Workload};
use crate::nemesis::client::process::Process;
use crate::nemesis::client::report_line::ReportLine;
use crate::nemesis::contestants::Contestant;
use crate::nemesis::engines::{Cluster, Engine};
use crate::nemesis::faults::link_faults::FaultyLink;
use crate::nemesis::faults::{Counts, Fault};
use crate::nemesis::monotonic::now;
use crate::nemesis::resource::{Ledger, Resource};
use crate::nemesis::{Setting, builder};
use crate::rng::Rng;
use quorlock::{Mode, NodeOutcome};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

/// All participants, cheap to clone. They end only with [`Participants::finish`].
#[derive(Clone)]
pub(crate) struct Participants(Arc<Shared>);

struct Shared {
    setting: Setting,
    cluster: Arc<dyn Cluster>,
    slots: Vec<ClientSlot>,
    resource: Resource,
    history: Mutex<History>,
    faults: Mutex<Counts>,
}

/// A place for a client: when one process dies, another takes its place.
struct ClientSlot {
    links: Vec<Arc<FaultyLink>>,
    process: Mutex<Option<Process>>,
    /// The fault to inject as soon as the client has a lock.
    fault_on_grant: Mutex<Option<PendingFault>>,
}

/// A fault that waits for a grant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingFault {
    pub(crate) fault: Fault,
    pub(crate) span: Duration,
    /// Whether it waits for a client that has a name alone: what any other client wants of it is in
    /// conflict with that.
    pub(crate) needs_writer: bool,
}

/// From the report of a grant to the fault: the client reads the value in this time, so the fault
/// comes before the write.
const READ_TIME: Duration = Duration::from_millis(1);

impl Participants {
    /// Starts servers and clients.
    pub(crate) async fn start(setting: &Setting, rng: &mut Rng) -> Self {
        let cluster = Engine::start(setting).await;
        // Through the real addresses, without an injected bug.
        let ports = cluster.ports();
        let locker = builder(cluster.urls(&ports), None).build().expect("a good configuration");
        for report in locker.init_fresh_nodes().await {
            assert!(matches!(report.outcome, NodeOutcome::Yes), "{report}");
        }
        let mut slots = Vec::new();
        for _ in 0..setting.clients {
            let mut links = Vec::new();
            for port in &ports {
                links.push(FaultyLink::open(*port).await);
            }
            slots.push(ClientSlot { links, process: Mutex::default(), fault_on_grant: Mutex::default() });
        }
        let participants = Self(Arc::new(Shared {
            setting: setting.clone(),
            cluster,
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

    pub(crate) fn cluster(&self) -> &dyn Cluster {
        &*self.0.cluster
    }

    /// How many servers the cluster has.
    pub(crate) fn members(&self) -> usize {
        self.0.setting.nodes
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

    /// The kinds of faults that this run has. Clients of other libraries are spared those that no
    /// network causes.
    pub(crate) fn kinds(&self) -> Vec<Fault> {
        let is_compared = self.0.setting.contestant.is_some();
        let kinds = self.cluster().faults().iter().copied();
        kinds.filter(|fault| !(is_compared && fault.corrupts())).collect()
    }

    /// Injects a fault as soon as the client has a lock. It replaces one that was scheduled before.
    pub(crate) fn inject_on_grant(&self, client: usize, pending: PendingFault) {
        *self.0.slots[client].fault_on_grant.lock().unwrap() = Some(pending);
    }

    /// Sets a client's wall clock.
    pub(crate) fn set_clock(&self, client: usize, ahead_ms: i64) {
        if let Some(process) = self.process(client).as_mut() {
            process.set_wall(ahead_ms);
        }
    }

    /// Kills a client, even while it holds a lock, and starts another in its place. Its last
    /// commands may still arrive.
    pub(crate) fn crash(&self, client: usize, rng: Rng) {
        let mut process = self.process(client);
        let incarnation = process.as_ref().map_or(0, |process| process.incarnation);
        let at = now();
        if process.as_mut().is_some_and(Process::has_ended) {
            self.history().crashes += 1;
        }
        // Reads its reports to the end before its last hold is closed.
        *process = None;
        self.history().record(format!("client {client} was killed"));
        self.history().end(client, at);
        self.history().end_call(client, at);
        *process = Some(self.start_client(client, incarnation + 1, rng));
    }

    /// Starts clients of other libraries again that ended by themselves, as a supervisor would.
    pub(crate) fn replace_crashed(&self) {
        if self.0.setting.contestant.is_none() {
            return;
        }
        for client in 0..self.clients() {
            // One that is being replaced at this moment is not asked.
            let Ok(mut process) = self.0.slots[client].process.try_lock() else { continue };
            if process.as_mut().is_some_and(Process::has_ended) {
                drop(process);
                self.crash(client, Rng::new(client as u64));
            }
        }
    }

    /// Starts the recovery phase in all clients.
    pub(crate) fn end_faults(&self) {
        self.history().fault_phase_end = Some(now());
        self.history().record("the fault phase is over".to_owned());
        for client in 0..self.clients() {
            self.process(client).as_mut().expect("it was started").end_faults();
        }
    }

    /// Ends all participants and returns the checked history. A client that ended by itself breaks
    /// a promise.
    pub(crate) fn finish(&self) -> (History, Ledger) {
        for client in 0..self.clients() {
            let has_ended = self.process(client).as_mut().expect("it was started").has_ended();
            *self.process(client) = None;
            if has_ended {
                self.history().crashes += 1;
                let what = format!("client {client} ended by itself");
                self.history().violate(Promise::Recovery, now(), what);
            }
        }
        for client in 0..self.clients() {
            self.history().end_call(client, now());
        }
        let mut history = self.history().clone();
        if self.0.setting.contestant.is_none_or(|contestant| contestant == Contestant::Quorlock) {
            history.check();
        }
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
        let ports: Vec<u16> = self.links(client).iter().map(|link| link.proxy.port()).collect();
        let contestant = self.0.setting.contestant;
        let arguments = ClientArguments {
            id: format!("{client}.{incarnation}"),
            seed: rng.draw(),
            resource: self.0.resource.socket(),
            injected_bug: self.0.setting.injected_bug,
            workload: if contestant.is_some() { Workload::Plain } else { Workload::All },
            names: self.0.setting.engine.names(),
            urls: self.cluster().urls(&ports),
        };
        let program = match contestant.and_then(Contestant::program) {
            Some(program) => program.with_arguments(&arguments, &ports),
            None => [self.0.setting.program.clone().into()].into_iter().chain(arguments.to_words()).collect(),
        };
        let participants = self.clone();
        Process::start(&program, incarnation, move |line| {
            let granted = match &line {
                ReportLine::Holds(_, grant) => Some(grant.mode == Mode::Exclusive && !grant.is_permit()),
                _ => None,
            };
            if let ReportLine::HandedOver { handle } = &line {
                participants.deliver(client, handle.clone());
            }
            participants.history().record_line(client, line);
            if let Some(is_writer) = granted {
                participants.inject_pending_fault(client, incarnation, is_writer);
            }
        })
    }

    /// Delivers a lock that a client handed over to the next client, on a thread of its own.
    fn deliver(&self, from: usize, handle: String) {
        let participants = self.clone();
        thread::spawn(move || {
            let to = (from + 1) % participants.clients();
            if let Some(process) = participants.process(to).as_mut() {
                process.adopt(&handle);
            }
        });
    }

    /// Injects the fault that is scheduled for this grant, on a thread of its own: the thread that
    /// reads the reports of a client must never wait for it.
    fn inject_pending_fault(&self, client: usize, incarnation: u64, is_writer: bool) {
        let mut pending = self.0.slots[client].fault_on_grant.lock().unwrap();
        let Some(PendingFault { fault, span, .. }) = pending.take_if(|it| is_writer || !it.needs_writer)
        else {
            return;
        };
        drop(pending);
        let participants = self.clone();
        thread::spawn(move || {
            thread::sleep(READ_TIME);
            if fault == Fault::ClientSuspend {
                return participants.suspend(client, span);
            }
            let stop = |process: &Process| process.stop();
            if participants.with_incarnation(client, incarnation, stop) {
                participants.count(fault);
                participants.history().record(format!("client {client} is paused for {span:?}"));
                let from = now();
                thread::sleep(span);
                participants.with_incarnation(client, incarnation, Process::resume);
                participants.history().stops.push(Stop { client, from, to: now() });
            }
        });
    }

    /// Suspends the client's machine. In true time it takes only a moment.
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

    /// Applies `action` to a client process unless it died meanwhile.
    fn with_incarnation(&self, client: usize, incarnation: u64, action: impl FnOnce(&Process)) -> bool {
        let process = self.process(client);
        let alive = process.as_ref().filter(|process| process.incarnation == incarnation);
        alive.map(action).is_some()
    }
}
