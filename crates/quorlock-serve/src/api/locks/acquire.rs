//! Acquiring a lock for a caller, within the limits of the sidecar.

use crate::api::state::AppState;
use crate::auth::caller::Caller;
use crate::problem::Problem;
use crate::problem::code::ProblemCode;
use crate::sessions::SessionPermit;
use crate::sessions::claims::ClaimedGuard;
use quorlock::{Guard, Lock, Name};
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// The lock that a caller asks for.
#[derive(Debug)]
pub(crate) struct AcquireRequest {
    pub(crate) name: Name,
    pub(crate) ttl: Duration,
    /// How long to wait; zero for a single try.
    pub(crate) wait: Duration,
    pub(crate) owner: Option<String>,
    pub(crate) reason: Option<String>,
    /// Whether the lock belongs to the connection: the sidecar then keeps it alive.
    pub(crate) is_hold: bool,
}

/// Acquires the lock, and a permit to hold it.
///
/// # Cancel safety
/// Cancel safe: dropped half-way, nothing of it stays.
pub(crate) async fn acquire(
    app: &AppState,
    caller: &Caller,
    request: AcquireRequest,
) -> Result<(ClaimedGuard, SessionPermit), Problem> {
    if app.closing.is_cancelled() {
        return Err(Problem::shutting_down());
    }
    if app.sessions.is_full() {
        return Err(full(app));
    }
    let lock = configure(app, &request)?;
    app.new_names.admit(&request.name, caller, Instant::now()).map_err(too_many_names)?;
    let guard = tokio::select! {
        biased;
        guard = acquire_unclaimed(app, &lock, request.wait) => guard?,
        () = app.closing.cancelled() => return Err(Problem::shutting_down()),
    };
    // A waiter holds nothing, so it needs a permit only now. Without a permit the dropped guard releases
    // the lock.
    let permit = app.sessions.permit().ok_or_else(|| full(app))?;
    Ok((guard, permit))
}

/// The lock with the settings of the request.
fn configure(app: &AppState, request: &AcquireRequest) -> Result<Lock, Problem> {
    let mut lock = app
        .locker
        .named(request.name.as_str())?
        .ttl(request.ttl)
        .watchdog(request.is_hold)
        .outlives_process(!request.is_hold)
        .cancel_on(app.closing.clone());
    if let Some(owner) = request.owner.as_deref().filter(|owner| !owner.is_empty()) {
        lock = lock.owner(owner);
    }
    if let Some(reason) = request.reason.as_deref().filter(|reason| !reason.is_empty()) {
        lock = lock.reason(reason);
    }
    Ok(lock)
}

/// Waits until the nodes grant the lock and no other caller of this sidecar has a claim to it, at most
/// for `wait`.
///
/// The nodes are asked first. They refuse a lock that another caller has, unless they forgot it.
async fn acquire_unclaimed(app: &AppState, lock: &Lock, wait: Duration) -> Result<ClaimedGuard, Problem> {
    let _waiting = if wait.is_zero() { None } else { Some(app.waiters.permit(lock.name())?) };
    let start = app.locker.now();
    let left = || wait.saturating_sub(app.locker.now().since(start));
    loop {
        let guard = acquire_from_nodes(app, lock, left(), !wait.is_zero()).await?;
        let (guard, other) = match app.claims.claim(guard) {
            Ok(guard) => return Ok(guard),
            Err(conflict) => conflict,
        };
        tracing::warn!(target: "quorlock", lock = %lock.name(), "the nodes forgot a lock that a caller has");
        let _ = guard.release().await;
        if timeout(left(), other.ended()).await.is_err() {
            return Err(Problem::held_here(other.lease(), !wait.is_zero()));
        }
    }
}

async fn acquire_from_nodes(
    app: &AppState,
    lock: &Lock,
    wait: Duration,
    waits: bool,
) -> Result<Guard, Problem> {
    let acquired =
        if waits { lock.clone().wait_timeout(wait).acquire().await } else { lock.try_acquire().await };
    let guard = acquired.map_err(|error| match Problem::not_acquired(error, waits) {
        slow if slow.code() == ProblemCode::TooSlow => slow.with_nodes(&app.locker),
        other => other,
    })?;
    if !guard.is_held() {
        let detail = format!("lock `{}` was granted, but its time is over; use a longer ttl_ms", lock.name());
        return Err(Problem::new(ProblemCode::TooSlow, detail).with_nodes(&app.locker));
    }
    Ok(guard)
}

fn too_many_names(left: Duration) -> Problem {
    let detail = "too many new names in a short time, and the nodes keep each for a week; \
                  try later, use fewer names, or raise --max-new-names";
    Problem::new(ProblemCode::TooManyNames, detail).retry_after(Some(left))
}

fn full(app: &AppState) -> Problem {
    let detail = format!(
        "{} locks are held through this sidecar already; release some, or ask another sidecar",
        app.limits.sessions
    );
    Problem::new(ProblemCode::Full, detail).retry_after(None)
}
