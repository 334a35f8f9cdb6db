//! Taking a lock for a caller, within the bounds of the sidecar.

use crate::app::App;
use crate::code::Code;
use crate::problem::Problem;
use crate::sessions::Room;
use quorlock::{Guard, Name};
use std::time::Duration;

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
pub(crate) async fn take(app: &App, wish: Wish) -> Result<(Guard, Room), Problem> {
    if app.closing.is_cancelled() {
        return Err(Problem::shutting_down());
    }
    if app.sessions.is_full() {
        return Err(full(app));
    }
    let lock = app.locker.named(wish.name.as_str())?;
    let mut lock = lock
        .ttl(wish.ttl)?
        .wait(wish.wait)
        .watchdog(wish.is_kept)
        .outlives_process(!wish.is_kept)
        .cancel_on(app.closing.clone());
    if let Some(owner) = wish.owner.filter(|owner| !owner.is_empty()) {
        lock = lock.owner(owner);
    }
    if let Some(reason) = wish.reason.filter(|reason| !reason.is_empty()) {
        lock = lock.reason(reason);
    }
    let waits = !wish.wait.is_zero();
    let taken = if waits {
        let _place = app.waiters.join(&wish.name)?;
        lock.acquire().await
    } else {
        lock.try_acquire().await
    };
    let guard = taken.map_err(|error| match Problem::not_acquired(error, waits) {
        slow if slow.code() == Code::TooSlow => slow.with_nodes(&app.locker),
        other => other,
    })?;
    if !guard.is_held() {
        let detail = format!("lock `{}` was granted, but its time is over; use a longer ttl_ms", wish.name);
        return Err(Problem::new(Code::TooSlow, detail).with_nodes(&app.locker));
    }
    // Whoever waits holds nothing, so the place is taken when there is something to keep. Without one the guard lets go.
    let room = app.sessions.room().ok_or_else(|| full(app))?;
    Ok((guard, room))
}

fn full(app: &App) -> Problem {
    let detail = format!(
        "{} locks are held through this sidecar already; release some, or ask another sidecar",
        app.limits.sessions
    );
    Problem::new(Code::Full, detail).retry_after(None)
}
