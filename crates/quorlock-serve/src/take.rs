//! Taking a lock for a caller, within the bounds of the sidecar.

use crate::access::Caller;
use crate::app::App;
use crate::claims::Lent;
use crate::code::Code;
use crate::problem::Problem;
use crate::sessions::Room;
use quorlock::{Guard, Lock, Name};
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// What a caller wants.
#[derive(Debug)]
pub(crate) struct Wish {
    pub(crate) name: Name,
    pub(crate) ttl: Duration,
    /// How long to wait; zero for a single try.
    pub(crate) wait: Duration,
    pub(crate) owner: Option<String>,
    pub(crate) reason: Option<String>,
    /// Whether the sidecar keeps it alive, as it belongs to a connection.
    pub(crate) is_kept: bool,
}

/// Takes the lock, and room for it among the sessions.
///
/// # Cancel safety
/// Cancel safe: dropped half-way, nothing of it stays.
pub(crate) async fn take(app: &App, caller: &Caller, wish: Wish) -> Result<(Lent, Room), Problem> {
    if app.closing.is_cancelled() {
        return Err(Problem::shutting_down());
    }
    if app.sessions.is_full() {
        return Err(full(app));
    }
    let lock = wanted(app, &wish)?;
    app.new_names.admit(&wish.name, caller, Instant::now()).map_err(too_many_names)?;
    let lent = tokio::select! {
        biased;
        lent = lend(app, &lock, wish.wait) => lent?,
        () = app.closing.cancelled() => return Err(Problem::shutting_down()),
    };
    // Whoever waits holds nothing, so the place is taken when there is something to keep. Without one the guard lets go.
    let room = app.sessions.room().ok_or_else(|| full(app))?;
    Ok((lent, room))
}

/// The lock as the caller wants it.
fn wanted(app: &App, wish: &Wish) -> Result<Lock, Problem> {
    let mut lock = app
        .locker
        .named(wish.name.as_str())?
        .ttl(wish.ttl)?
        .watchdog(wish.is_kept)
        .outlives_process(!wish.is_kept)
        .cancel_on(app.closing.clone());
    if let Some(owner) = wish.owner.as_deref().filter(|owner| !owner.is_empty()) {
        lock = lock.owner(owner);
    }
    if let Some(reason) = wish.reason.as_deref().filter(|reason| !reason.is_empty()) {
        lock = lock.reason(reason);
    }
    Ok(lock)
}

/// Waits until the nodes grant the lock and no other caller of this sidecar has it, at most for `wait`.
///
/// The nodes are asked first. They deny what a caller of ours has, unless they forgot it.
async fn lend(app: &App, lock: &Lock, wait: Duration) -> Result<Lent, Problem> {
    let _place = if wait.is_zero() { None } else { Some(app.waiters.join(lock.name())?) };
    let start = app.locker.now();
    let left = || wait.saturating_sub(app.locker.now().since(start));
    loop {
        let guard = granted(app, lock, left(), !wait.is_zero()).await?;
        let (guard, earlier) = match app.claims.claim(guard) {
            Ok(lent) => return Ok(lent),
            Err(conflict) => conflict,
        };
        tracing::warn!(target: "quorlock", lock = %lock.name(), "the nodes forgot a lock that a caller has");
        let _ = guard.release().await;
        if timeout(left(), earlier.over()).await.is_err() {
            return Err(Problem::held_here(earlier.held(), !wait.is_zero()));
        }
    }
}

async fn granted(app: &App, lock: &Lock, wait: Duration, waits: bool) -> Result<Guard, Problem> {
    let taken = if waits { lock.clone().wait(wait).acquire().await } else { lock.try_acquire().await };
    let guard = taken.map_err(|error| match Problem::not_acquired(error, waits) {
        slow if slow.code() == Code::TooSlow => slow.with_nodes(&app.locker),
        other => other,
    })?;
    if !guard.is_held() {
        let detail = format!("lock `{}` was granted, but its time is over; use a longer ttl_ms", lock.name());
        return Err(Problem::new(Code::TooSlow, detail).with_nodes(&app.locker));
    }
    Ok(guard)
}

fn too_many_names(left: Duration) -> Problem {
    let detail = "too many new names in a short time, and the nodes keep each for a week; \
                  try later, use fewer names, or raise --max-new-names";
    Problem::new(Code::TooManyNames, detail).retry_after(Some(left))
}

fn full(app: &App) -> Problem {
    let detail = format!(
        "{} locks are held through this sidecar already; release some, or ask another sidecar",
        app.limits.sessions
    );
    Problem::new(Code::Full, detail).retry_after(None)
}
