//! What a client process does: take a lock, read, work, write, let go or give it away.

mod by_token;
mod handover;
mod recorder;

use super::line::ReportLine;
use super::process::ADOPT;
use super::value::ProtectedValue;
use super::arguments::ClientArguments;
use super::settings::vary;
use super::monotonic::now;
use super::{NAMES, RECOVERY_LIMIT, TTL, WAIT, lockers};
use crate::rng::Rng;
use recorder::Recorder;
use quorlock::{Event, Guard, Holder, LockHandle, Locker};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{io, process, thread};
use tokio::time::sleep;

/// Plays the part that stands in `words`, the arguments of a program, until the standard input ends. `false` if they
/// are not those of a client.
pub fn be_client(words: &[String]) -> bool {
    let Some(arguments) = ClientArguments::parse(words) else { return false };
    let orders = Arc::new(Orders::default());
    let heard = orders.clone();
    thread::spawn(move || {
        for order in io::stdin().lines().map_while(Result::ok) {
            heard.record_line(&order);
        }
        process::exit(0);
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let mut client = Client::new(&arguments);
        client.work(&orders).await;
        client.take_turns().await;
        Recorder::print(&ReportLine::Done);
        // Held connections stay until the harness has seen enough.
        std::future::pending::<()>().await;
    });
    true
}

/// What the harness asked for.
#[derive(Default)]
struct Orders {
    is_recovering: AtomicBool,
    /// Locks to adopt.
    handles: Mutex<Vec<LockHandle>>,
}

impl Orders {
    fn record_line(&self, order: &str) {
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
    value: ProtectedValue,
    rng: Rng,
}

impl Client {
    fn new(arguments: &ClientArguments) -> Self {
        let recorder = Arc::new(Recorder::default());
        let observer = recorder.clone();
        let mut rng = Rng::new(arguments.seed);
        let locker = vary(lockers(arguments.urls.clone(), arguments.injected_bug), &mut rng)
            .observer(move |event: &Event| observer.on_event(event))
            .build()
            .expect("a good configuration");
        let value = ProtectedValue::open(&arguments.resource, arguments.id.clone());
        Self { locker, recorder, value, rng }
    }

    async fn work(&mut self, orders: &Orders) {
        while !orders.is_recovering.load(Ordering::Relaxed) {
            let name = *self.rng.pick(&NAMES);
            if self.rng.chance(2) {
                self.force_release(name).await;
            }
            let handle = orders.handles.lock().unwrap().pop();
            if let Some(handle) = handle {
                self.take_over(handle).await;
            } else if let Some(guard) = self.take(name).await {
                self.hold(guard).await;
            }
            sleep(self.rng.span(Duration::ZERO, Duration::from_millis(10))).await;
        }
    }

    /// Takes every lock once. For the quiet after the fault_phase.
    async fn take_turns(&mut self) {
        for name in NAMES {
            let start = Instant::now();
            let guard = loop {
                match self.take(name).await {
                    None if start.elapsed() < RECOVERY_LIMIT => {}
                    taken => break taken,
                }
            };
            Recorder::print(&ReportLine::Turn { name: name.to_owned(), got: guard.is_some() });
            if let Some(guard) = guard {
                self.let_go(guard).await;
            }
        }
    }

    async fn take(&mut self, name: &str) -> Option<Guard> {
        let called = now();
        // Some are patient and wait for a hint; others come back at once and catch a server that has just forgotten.
        let wait = *self.rng.pick(&[WAIT / 40, WAIT / 10, WAIT]);
        let lock = self.locker.named(name).expect("a good name").wait_timeout(wait);
        let tries_once = self.rng.chance(20);
        if tries_once {
            Recorder::print(&ReportLine::Tried);
        }
        let result = if tries_once { lock.try_acquire().await } else { lock.acquire().await };
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

    /// Frees a name from the holder that an inspection shows, and from no other.
    async fn force_release(&mut self, name: &str) {
        let lock = self.locker.named(name).expect("a good name");
        let Ok(seen) = lock.inspect().await else { return };
        let Holder::Owner { token, .. } = seen.holder else { return };
        sleep(self.rng.span(Duration::ZERO, Duration::from_millis(20))).await;
        Recorder::print(&ReportLine::Forced { token: token.to_string(), at: now() });
        let _outcome = lock.force_release(token).await;
    }

    /// Works under the lock, and lets go or gives it away.
    async fn hold(&mut self, guard: Guard) {
        match self.rng.below(100) {
            0..5 => self.lease(guard).await,
            5..13 => {
                self.work_under(&guard).await;
                self.hand_over(guard).await;
            }
            _ => {
                self.work_under(&guard).await;
                self.let_go(guard).await;
            }
        }
    }

    /// Reads, thinks, writes, again and again, and stops when the lock is lost. Mostly short; now and then beyond the
    /// ttl, so that the watchdog matters.
    async fn work_under(&mut self, guard: &Guard) {
        let (longest, step) = match self.rng.chance(2) {
            true => (2 * TTL, Duration::from_millis(80)),
            false => (Duration::from_millis(15), Duration::from_millis(5)),
        };
        let until = Instant::now() + self.rng.span(Duration::from_millis(1), longest);
        let (name, fence) = (guard.name().to_string(), guard.fence().get());
        while Instant::now() < until && guard.is_held() {
            let seen = self.value.read(&name, fence);
            sleep(self.rng.span(Duration::ZERO, step)).await;
            if !guard.is_held() {
                // It writes all the same: a program cannot look and write in one step.
                Recorder::print(&ReportLine::Late);
            }
            if !self.value.write(&name, fence, &seen) {
                Recorder::print(&ReportLine::FencedOff { at: now(), held: guard.is_held() });
                break;
            }
            if self.rng.chance(10) {
                // Told by the observer; what came of it shows in the lease.
                let _ = guard.extend().await;
            }
        }
    }

    async fn let_go(&mut self, guard: Guard) {
        self.recorder.letting_go();
        if self.rng.chance(20) {
            return drop(guard);
        }
        let _outcome = guard.release().await;
    }
}
