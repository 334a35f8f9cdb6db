//! What a client process does: take a lock, read, work, write, let go.

use super::line::{Belief, Line};
use super::register::Register;
use super::script::Script;
use super::stopwatch::now;
use super::{NAMES, QUIET, TTL, WAIT, lockers};
use crate::world::Rng;
use quorlock::{Event, Guard, Held, Locker, Standing};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{io, process, thread};
use tokio::time::sleep;

/// Plays the part that stands in `words`, the arguments of a program, until the standard input ends. `false` if they
/// are not those of a client.
pub fn be_client(words: &[String]) -> bool {
    let Some(script) = Script::parse(words) else { return false };
    let is_quiet = Arc::new(AtomicBool::new(false));
    let quiet = is_quiet.clone();
    thread::spawn(move || {
        // The only order: be quiet.
        for _ in io::stdin().lines().map_while(Result::ok) {
            quiet.store(true, Ordering::Relaxed);
        }
        process::exit(0);
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let mut client = Client::new(&script);
        client.work(&is_quiet).await;
        client.take_turns().await;
        Mouth::say(&Line::Done);
        // Held connections stay until the harness has seen enough.
        std::future::pending::<()>().await;
    });
    true
}

struct Client {
    locker: Locker,
    mouth: Arc<Mouth>,
    register: Register,
    rng: Rng,
}

/// Tells the harness about the lock that this client has. Lines of one hold never come in the wrong order.
#[derive(Default)]
struct Mouth(Mutex<Option<Current>>);

struct Current {
    held: Held,
    was_lost: bool,
}

impl Mouth {
    fn say(line: &Line) {
        println!("{line}");
    }

    fn granted(&self, held: &Held, called: Duration) {
        let mut current = self.0.lock().unwrap();
        let (name, fence) = (held.name().to_string(), held.fence());
        Self::say(&Line::Granted { name, fence, called, belief: Belief::of(held) });
        *current = Some(Current { held: held.share(), was_lost: false });
    }

    /// The library's observers are called in place: a loss is told before anything follows from it.
    fn overhear(&self, event: &Event) {
        let mut current = self.0.lock().unwrap();
        let Some(current) = current.as_mut() else { return };
        match event {
            Event::Extended { .. } => Self::say(&Line::Extended(Belief::of(&current.held))),
            Event::Lost { .. } => {
                current.was_lost = true;
                Self::say(&Line::Lost { at: now() });
            }
            _ => {}
        }
        current.check();
    }

    /// From here on others may hold the lock.
    fn letting_go(&self) {
        if let Some(current) = self.0.lock().unwrap().take() {
            current.check();
            let over = matches!(current.held.standing(), Standing::Lost(_));
            Self::say(&Line::LetGo { at: now(), over });
        }
    }
}

impl Current {
    fn check(&self) {
        if self.was_lost && self.held.is_held() {
            Mouth::say(&Line::Undead { at: now() });
        }
    }
}

impl Client {
    fn new(script: &Script) -> Self {
        let mouth = Arc::new(Mouth::default());
        let ears = mouth.clone();
        let locker = lockers(script.urls.clone(), script.plant)
            .observe(move |event: &Event| ears.overhear(event))
            .build()
            .expect("a good configuration");
        let register = Register::open(&script.resource, script.id.clone());
        Self { locker, mouth, register, rng: Rng::new(script.seed) }
    }

    async fn work(&mut self, is_quiet: &AtomicBool) {
        while !is_quiet.load(Ordering::Relaxed) {
            let name = *self.rng.pick(&NAMES);
            if let Some(guard) = self.take(name).await {
                self.hold(guard).await;
            }
            sleep(self.rng.span(Duration::ZERO, Duration::from_millis(10))).await;
        }
    }

    /// Takes every lock once. For the quiet after the storm.
    async fn take_turns(&mut self) {
        for name in NAMES {
            let start = Instant::now();
            let guard = loop {
                match self.take(name).await {
                    None if start.elapsed() < QUIET => {}
                    taken => break taken,
                }
            };
            Mouth::say(&Line::Turn { name: name.to_owned(), got: guard.is_some() });
            if let Some(guard) = guard {
                self.let_go(guard).await;
            }
        }
    }

    async fn take(&mut self, name: &str) -> Option<Guard> {
        let called = now();
        // Some are patient and wait for a hint; others come back at once and catch a server that has just forgotten.
        let wait = *self.rng.pick(&[WAIT / 40, WAIT / 10, WAIT]);
        let lock = self.locker.named(name).expect("a good name").wait(wait);
        match lock.acquire().await {
            Ok(guard) => {
                self.mouth.granted(&guard, called);
                Some(guard)
            }
            Err(_) => {
                Mouth::say(&Line::Refused);
                None
            }
        }
    }

    /// Reads, thinks, writes, again and again, and stops when the lock is lost. Mostly short; now and then beyond the
    /// ttl, so that the watchdog matters.
    async fn hold(&mut self, guard: Guard) {
        let (longest, step) = match self.rng.chance(2) {
            true => (2 * TTL, Duration::from_millis(80)),
            false => (Duration::from_millis(15), Duration::from_millis(5)),
        };
        let until = Instant::now() + self.rng.span(Duration::from_millis(1), longest);
        let (name, fence) = (guard.name().to_string(), guard.fence());
        while Instant::now() < until && guard.is_held() {
            let seen = self.register.read(&name, fence);
            sleep(self.rng.span(Duration::ZERO, step)).await;
            if !guard.is_held() {
                // It writes all the same: a program cannot look and write in one step.
                Mouth::say(&Line::Late);
            }
            if !self.register.write(&name, fence, &seen) {
                Mouth::say(&Line::FencedOff { at: now(), held: guard.is_held() });
                break;
            }
        }
        self.let_go(guard).await;
    }

    async fn let_go(&mut self, guard: Guard) {
        self.mouth.letting_go();
        if self.rng.chance(20) {
            return drop(guard);
        }
        let _outcome = guard.release().await;
    }
}
