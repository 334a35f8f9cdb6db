//! What a client process does: acquire locks, work under them, and release them or hand them over.

pub(crate) mod arguments;
mod by_token;
mod handover;
pub(crate) mod process;
mod recorder;
pub(crate) mod report_line;
mod settings;
mod target;
mod work;

use crate::nemesis::monotonic::now;
use crate::nemesis::resource::protected_value::ProtectedValues;
use crate::nemesis::{NAMES, RECOVERY_LIMIT, SEMAPHORE, SLOTS, builder};
use crate::rng::Rng;
use arguments::{ClientArguments, Workload};
use process::ADOPT;
use quorlock::{Event, Guard, Holder, LockHandle, Locker, Semaphore};
use recorder::Recorder;
use report_line::{Origin, ReportLine};
use settings::vary;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{io, thread};
use target::Target;
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
    semaphore: Semaphore,
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
        let semaphore = locker.semaphore(SEMAPHORE, SLOTS).expect("a good semaphore");
        let values = ProtectedValues::open(&arguments.resource, arguments.id.clone(), Recorder::accesses);
        let (workload, names) = (arguments.workload, &NAMES[..arguments.names.min(NAMES.len())]);
        Self { locker, semaphore, recorder, values, rng, workload, names }
    }

    async fn work(&mut self, orders: &Orders) {
        while !orders.is_recovering.load(Ordering::Relaxed) {
            if self.does_all() && self.rng.chance(2) {
                self.force_release().await;
            }
            let handle = orders.handles.lock().unwrap().pop();
            if let Some(handle) = handle {
                self.accept(handle).await;
            } else {
                let target = self.draw_target();
                if let Some(guard) = self.acquire(&target).await {
                    self.use_lock(guard).await;
                }
            }
            sleep(self.rng.span(Duration::ZERO, Duration::from_millis(10))).await;
        }
    }

    /// Acquires everything once. For the recovery phase.
    async fn recover(&mut self) {
        for target in self.recovery_targets() {
            let start = Instant::now();
            let guard = loop {
                match self.acquire(&target).await {
                    None if start.elapsed() < RECOVERY_LIMIT => {}
                    acquired => break acquired,
                }
            };
            Recorder::print(&ReportLine::Recovered { name: target.word(), got: guard.is_some() });
            if let Some(guard) = guard {
                self.release(guard).await;
            }
        }
    }

    async fn acquire(&mut self, target: &Target) -> Option<Guard> {
        let called = now();
        let wait = self.draw_wait();
        let tries_once = self.does_all() && self.rng.chance(20);
        if tries_once {
            Recorder::print(&ReportLine::Tried);
        }
        Recorder::print(&ReportLine::Calling { operation: "acquire".to_owned(), at: called });
        let result = self.ask_for(target, wait, tries_once).await;
        Recorder::print(&ReportLine::Returned { at: now() });
        match result {
            Ok(guard) => {
                self.recorder.holds(Origin::Granted, &guard.lease(), called);
                Some(guard)
            }
            Err(_) => {
                Recorder::print(&ReportLine::Refused);
                None
            }
        }
    }

    /// Releases a name, or a slot, from a holder that an inspection shows, and from no other.
    async fn force_release(&mut self) {
        let lock = match self.rng.chance(80) {
            true => self.locker.named(self.rng.pick(self.names)).expect("a good name"),
            false => {
                let slot = u32::try_from(self.rng.below(u64::from(SLOTS))).expect("few slots");
                self.locker.slot(SEMAPHORE, slot).expect("a good name")
            }
        };
        let Ok(seen) = lock.inspect().await else { return };
        let token = match seen.holder {
            Holder::Owner { token, .. } => token,
            Holder::Shared { readers } if !readers.is_empty() => self.rng.pick(&readers).token,
            _ => return,
        };
        sleep(self.rng.span(Duration::ZERO, Duration::from_millis(20))).await;
        let (name, at) = (lock.name().to_string(), now());
        Recorder::print(&ReportLine::Forced { name, token: token.to_string(), at });
        let _outcome = lock.force_release(token).await;
    }

    fn does_all(&self) -> bool {
        self.workload == Workload::All
    }
}
