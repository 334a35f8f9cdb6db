//! What a client process does: acquire a lock, read, work, write, and release it or hand it over.

pub(crate) mod arguments;
mod by_token;
mod handover;
pub(crate) mod process;
mod recorder;
pub(crate) mod report_line;
mod settings;

use crate::nemesis::monotonic::now;
use crate::nemesis::resource::protected_value::ProtectedValues;
use crate::nemesis::{NAMES, RECOVERY_LIMIT, TTL, WAIT, builder};
use crate::rng::Rng;
use arguments::{ClientArguments, Workload};
use process::ADOPT;
use quorlock::{Event, Guard, Holder, LockHandle, Locker};
use recorder::Recorder;
use report_line::ReportLine;
use settings::vary;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{io, thread};
use tokio::time::sleep;

/// Runs as the client that `words`, the arguments of a program, describe, until the standard input
/// ends. `false` if they are not those of a client.
pub fn run_client(words: &[String]) -> bool {
    let Some(arguments) = ClientArguments::parse(words) else { return false };
    let orders = Arc::new(Orders::default());
    let received = orders.clone();
    thread::spawn(move || {
        for order in io::stdin().lines().map_while(Result::ok) {
            received.receive(&order);
        }
        std::process::exit(0);
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let mut client = Client::new(&arguments);
        client.work(&orders).await;
        client.recover().await;
        Recorder::print(&ReportLine::Done);
        // Connections stay until the harness kills the process.
        std::future::pending::<()>().await;
    });
    true
}

/// What the harness ordered.
#[derive(Default)]
struct Orders {
    is_recovering: AtomicBool,
    /// Locks to adopt.
    handles: Mutex<Vec<LockHandle>>,
}

impl Orders {
    fn receive(&self, order: &str) {
        match order.strip_prefix(ADOPT) {
            Some(handle) => {
                let handle = serde_json::from_str(handle).expect("a handle is read as it was written");
                self.handles.lock().unwrap().push(handle);
            }
            None => self.is_recovering.store(true, Ordering::Relaxed),
        }
    }
}

struct Client {
    locker: Locker,
    recorder: Arc<Recorder>,
    values: ProtectedValues,
    rng: Rng,
    workload: Workload,
    names: &'static [&'static str],
}

impl Client {
    fn new(arguments: &ClientArguments) -> Self {
        let recorder = Arc::new(Recorder::default());
        let observer = recorder.clone();
        let mut rng = Rng::new(arguments.seed);
        let builder = builder(arguments.urls.clone(), arguments.injected_bug);
        let builder = match arguments.workload {
            Workload::All => vary(builder, &mut rng),
            Workload::Plain => builder,
        };
        let locker = builder
            .observer(move |event: &Event| observer.on_event(event))
            .build()
            .expect("a good configuration");
        let values = ProtectedValues::open(&arguments.resource, arguments.id.clone(), Recorder::accesses);
        let (workload, names) = (arguments.workload, &NAMES[..arguments.names.min(NAMES.len())]);
        Self { locker, recorder, values, rng, workload, names }
    }

    async fn work(&mut self, orders: &Orders) {
        while !orders.is_recovering.load(Ordering::Relaxed) {
            let name = *self.rng.pick(self.names);
            if self.does_all() && self.rng.chance(2) {
                self.force_release(name).await;
            }
            let handle = orders.handles.lock().unwrap().pop();
            if let Some(handle) = handle {
                self.accept(handle).await;
            } else if let Some(guard) = self.acquire(name).await {
                self.use_lock(guard).await;
            }
            sleep(self.rng.span(Duration::ZERO, Duration::from_millis(10))).await;
        }
    }

    /// Acquires every lock once. For the recovery phase.
    async fn recover(&mut self) {
        for name in self.names {
            let start = Instant::now();
            let guard = loop {
                match self.acquire(name).await {
                    None if start.elapsed() < RECOVERY_LIMIT => {}
                    acquired => break acquired,
                }
            };
            Recorder::print(&ReportLine::Recovered { name: (*name).to_owned(), got: guard.is_some() });
            if let Some(guard) = guard {
                self.release(guard).await;
            }
        }
    }

    async fn acquire(&mut self, name: &str) -> Option<Guard> {
        let called = now();
        // Some calls wait for a hint; others give up soon, come again, and find a server that has
        // just forgotten.
        let wait = if self.does_all() { *self.rng.pick(&[WAIT / 40, WAIT / 10, WAIT]) } else { WAIT };
        let lock = self.locker.named(name).expect("a good name").wait_timeout(wait);
        let tries_once = self.does_all() && self.rng.chance(20);
        if tries_once {
            Recorder::print(&ReportLine::Tried);
        }
        Recorder::print(&ReportLine::Calling { operation: "acquire".to_owned(), at: called });
        let result = if tries_once { lock.try_acquire().await } else { lock.acquire().await };
        Recorder::print(&ReportLine::Returned { at: now() });
        match result {
            Ok(guard) => {
                self.recorder.granted(&guard.lease(), called);
                Some(guard)
            }
            Err(_) => {
                Recorder::print(&ReportLine::Refused);
                None
            }
        }
    }

    /// Releases a name from the holder that an inspection shows, and from no other.
    async fn force_release(&mut self, name: &str) {
        let lock = self.locker.named(name).expect("a good name");
        let Ok(seen) = lock.inspect().await else { return };
        let Holder::Owner { token, .. } = seen.holder else { return };
        sleep(self.rng.span(Duration::ZERO, Duration::from_millis(20))).await;
        Recorder::print(&ReportLine::Forced { token: token.to_string(), at: now() });
        let _outcome = lock.force_release(token).await;
    }

    fn does_all(&self) -> bool {
        self.workload == Workload::All
    }

    /// Works under the lock, and releases it or hands it over.
    async fn use_lock(&mut self, guard: Guard) {
        let choice = if self.does_all() { self.rng.below(100) } else { 100 };
        match choice {
            0..5 => self.continue_by_token(guard).await,
            5..13 => {
                self.work_under(&guard).await;
                self.hand_over(guard).await;
            }
            _ => {
                self.work_under(&guard).await;
                self.release(guard).await;
            }
        }
    }

    /// Reads, thinks, writes, again and again, and stops when the lock is lost. Mostly short; now
    /// and then beyond the ttl, so that the watchdog matters.
    async fn work_under(&mut self, guard: &Guard) {
        let (longest, step) = match self.rng.chance(2) {
            true => (2 * TTL, Duration::from_millis(80)),
            false => (Duration::from_millis(15), Duration::from_millis(5)),
        };
        let until = Instant::now() + self.rng.span(Duration::from_millis(1), longest);
        let (name, fence) = (guard.name().to_string(), guard.fence().get());
        while Instant::now() < until && guard.is_held() {
            let seen = self.values.read(&name, fence);
            sleep(self.rng.span(Duration::ZERO, step)).await;
            if !guard.is_held() {
                // It writes all the same: a program cannot check and write in one step.
                Recorder::print(&ReportLine::Late);
            }
            if !self.values.write(&name, fence, &seen) {
                Recorder::print(&ReportLine::FencedOff { at: now(), held: guard.is_held() });
                break;
            }
            if self.does_all() && self.rng.chance(10) {
                // The observer reports the result.
                let _ = guard.extend().await;
            }
        }
    }

    async fn release(&mut self, guard: Guard) {
        self.recorder.releasing();
        if self.does_all() && self.rng.chance(20) {
            return drop(guard);
        }
        Recorder::print(&ReportLine::Calling { operation: "release".to_owned(), at: now() });
        let _outcome = guard.release().await;
        Recorder::print(&ReportLine::Returned { at: now() });
    }
}
