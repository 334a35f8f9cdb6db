//! Acquiring a lock for a caller, within the limits of the sidecar.

use crate::api::locks::target::{Acquirable, Target};
use crate::api::state::AppState;
use crate::auth::caller::Caller;
use crate::problem::Problem;
use crate::problem::code::ProblemCode;
use crate::sessions::SessionPermit;
use crate::sessions::claims::ClaimedGuard;
use quorlock::{Guard, Lock, Name};
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// How long to wait for the claim to a slot that the nodes forgot, before another slot is tried.
const NEXT_SLOT: Duration = Duration::from_millis(100);

/// What a caller asks for, and its terms.
#[derive(Debug)]
pub(crate) struct AcquireRequest {
    pub(crate) target: Target,
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
    let wanted = request.target.configured(&app.locker, |lock| configure(&request, lock))?;
    admit_names(app, caller, request.target.names())?;
    let guard = tokio::select! {
        biased;
        guard = acquire_unclaimed(app, &wanted, &request) => guard?,
        () = app.closing.cancelled() => return Err(Problem::shutting_down()),
    };
    // Which slot of a semaphore it is was not known before. A caller that may not have it releases it.
    if guard.lease().names() != request.target.names() {
        admit_names(app, caller, guard.lease().names())?;
    }
    // A waiter holds nothing, so it needs a permit only now. Without a permit the dropped guard releases
    // the lock.
    let permit = app.sessions.permit().ok_or_else(|| full(app))?;
    Ok((guard, permit))
}

/// The lock with the settings of the request.
fn configure(request: &AcquireRequest, lock: Lock) -> Lock {
    let mut lock = lock.ttl(request.ttl).watchdog(request.is_hold).outlives_process(!request.is_hold);
    if let Some(owner) = request.owner.as_deref().filter(|owner| !owner.is_empty()) {
        lock = lock.owner(owner);
    }
    if let Some(reason) = request.reason.as_deref().filter(|reason| !reason.is_empty()) {
        lock = lock.reason(reason);
    }
    lock
}

fn admit_names(app: &AppState, caller: &Caller, names: &[Name]) -> Result<(), Problem> {
    let now = Instant::now();
    names.iter().try_for_each(|name| app.new_names.admit(name, caller, now)).map_err(too_many_names)
}

/// Waits until the nodes grant what is wanted and no other caller of this sidecar has a claim to it, at
/// most as long as the caller waits.
///
/// The nodes are asked first. They refuse a lock that another caller has, unless they forgot it.
async fn acquire_unclaimed(
    app: &AppState,
    wanted: &Acquirable,
    request: &AcquireRequest,
) -> Result<ClaimedGuard, Problem> {
    let (wait, waits) = (request.wait, !request.wait.is_zero());
    let _waiting = if waits { Some(app.waiters.permit(request.target.names())?) } else { None };
    let start = app.locker.now();
    let left = || wait.saturating_sub(app.locker.now().since(start));
    loop {
        let guard = acquire_from_nodes(app, wanted, waits.then(left)).await?;
        let (guard, other) = match app.claims.claim(guard) {
            Ok(guard) => return Ok(guard),
            Err(conflict) => conflict,
        };
        let name = other.lease().name();
        tracing::warn!(target: "quorlock", lock = %name, "the nodes forgot a lock that a caller has");
        let _ = guard.release().await;
        let limit = if name.as_slot().is_some() { left().min(NEXT_SLOT) } else { left() };
        if timeout(limit, other.ended()).await.is_err() && left().is_zero() {
            return Err(Problem::held_here(other.lease(), waits));
        }
    }
}

/// Acquires from the nodes; without `wait` it does not wait.
async fn acquire_from_nodes(
    app: &AppState,
    wanted: &Acquirable,
    wait: Option<Duration>,
) -> Result<Guard, Problem> {
    let acquired = wanted.acquire(wait).await;
    let guard = acquired.map_err(|error| match Problem::not_acquired(error, wait.is_some()) {
        slow if slow.code() == ProblemCode::TooSlow => slow.with_nodes(&app.locker),
        other => other,
    })?;
    if !guard.is_held() {
        let name = guard.name().topic();
        let detail = format!("lock `{name}` was granted, but its time is over; use a longer ttl_ms");
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
