//! What can be acquired: a lock, a permit of a semaphore, a leadership.

use crate::call::Call;
use crate::engine::{Engine, Owned};
use crate::errors::{Raise, config_error};
use crate::held::{Held, Kind, OwnedGuard};
use crate::settings::{LockSettings, Seconds};
use crate::views;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use quorlock::{AcquireError, ConfigError, Guard, LeaderChange, Lock};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::timeout;

/// What is acquired.
pub(crate) enum What {
    /// One name, or several together.
    Names { names: Vec<String>, is_shared: bool },
    /// Slots of a semaphore.
    Permits { name: String, slots: u32, count: usize },
    /// The leadership of an election.
    Leadership { name: String },
}

/// A thing that can be acquired.
#[pyclass(frozen)]
pub(crate) struct Target {
    locker: Py<crate::locker::Locker>,
    what: What,
    settings: Arc<LockSettings>,
}

impl Target {
    /// A target on the nodes of `locker`. Fails if the library refuses its names.
    pub(crate) fn new(
        py: Python<'_>,
        locker: Py<crate::locker::Locker>,
        what: What,
        settings: LockSettings,
    ) -> PyResult<Self> {
        let target = Self { locker, what, settings: Arc::new(settings) };
        let (_, library) = target.locker.get().current(py)?;
        match &target.what {
            What::Names { names, .. } => library.all(names).map(|_| ()),
            What::Permits { name, slots, .. } => library.semaphore(name, *slots).map(|_| ()),
            What::Leadership { name } => library.election(name).map(|_| ()).map_err(ConfigError::from),
        }
        .map_err(|error| error.raise(py))?;
        Ok(target)
    }
}

#[pymethods]
impl Target {
    /// Acquires it. Tries only once if `is_try`. A candidate publishes `value`.
    #[pyo3(signature = (is_try, wait=None, value=None))]
    fn acquire(
        &self,
        py: Python<'_>,
        is_try: bool,
        wait: Option<Seconds>,
        value: Option<String>,
    ) -> PyResult<Call> {
        let wait = wait.map(|wait| wait.duration(py)).transpose()?;
        let limit = wait.or(self.settings.wait).or(self.locker.get().wait());
        let is_try = is_try || limit.is_some_and(|limit| limit.is_zero());
        let wait = if is_try { Some(Duration::ZERO) } else { wait };
        let settings = self.settings.clone();
        let set = move |lock: Lock| {
            let lock = settings.apply(lock);
            wait.into_iter().fold(lock, Lock::wait_timeout)
        };
        let (engine, library) = self.locker.get().current(py)?;
        Ok(match &self.what {
            What::Names { names, is_shared } => {
                let lock = match names.as_slice() {
                    [name] => library.named(name).map_err(ConfigError::from),
                    _ => library.all(names),
                };
                let lock = set(lock.map_err(|error| error.raise(py))?);
                let lock = if *is_shared { lock.shared() } else { lock };
                acquire(engine, async move {
                    let guard = if is_try { lock.try_acquire().await } else { lock.acquire().await }?;
                    Ok((guard, Kind::default()))
                })
            }
            What::Permits { name, slots, count } => {
                let semaphore = library.semaphore(name, *slots).map_err(|error| error.raise(py))?.with(set);
                let count = *count;
                acquire(engine, async move {
                    let permit = match (is_try, count) {
                        (true, 1) => semaphore.try_acquire().await,
                        _ => semaphore.acquire_many(count).await,
                    }?;
                    let slots = permit.slots().to_vec();
                    Ok((permit.into_guard(), Kind { slots, value: None }))
                })
            }
            What::Leadership { name } => {
                let election = library.election(name).map_err(|error| error.raise(py))?.with(set);
                let Some(value) = value else {
                    return Err(config_error(py, &"a candidate publishes a value"));
                };
                acquire(engine, async move {
                    let leadership = election.campaign(value.clone()).await?;
                    Ok((leadership.into_guard(), Kind { slots: Vec::new(), value: Some(value) }))
                })
            }
        })
    }

    /// What the nodes store for each of its names, or for each slot that is taken.
    fn status(&self, py: Python<'_>) -> PyResult<Call> {
        let (engine, library) = self.locker.get().current(py)?;
        let names = match &self.what {
            What::Names { names, .. } => names.clone(),
            What::Leadership { name } => vec![name.clone()],
            What::Permits { name, slots, .. } => {
                let semaphore = library.semaphore(name, *slots).map_err(|error| error.raise(py))?;
                let permits = async move { semaphore.permits().await };
                return Ok(Call::fallible(engine, permits, |py, found| {
                    Ok(views::statuses(py, &found)?.unbind())
                }));
            }
        };
        let lock = library.all(names).map_err(|error| error.raise(py))?;
        let inspect = async move { lock.inspect_all().await };
        Ok(Call::fallible(engine, inspect, |py, found| Ok(views::statuses(py, &found)?.unbind())))
    }

    /// Who leads; `None` if no candidate does.
    fn leader(&self, py: Python<'_>) -> PyResult<Call> {
        let (engine, election) = self.election(py)?;
        let leader = async move { election.leader().await };
        Ok(Call::fallible(engine, leader, |py, found| match found {
            Some(found) => Ok(views::leader(py, &found)?.unbind()),
            None => Ok(py.None()),
        }))
    }

    /// Follows who leads.
    fn observe(&self, py: Python<'_>) -> PyResult<Observation> {
        let (engine, election) = self.election(py)?;
        Ok(Observation(Owned::new(engine, Arc::new(Mutex::new(election.observe())))))
    }
}

impl Target {
    fn election(&self, py: Python<'_>) -> PyResult<(&'static Engine, quorlock::Election)> {
        let (engine, library) = self.locker.get().current(py)?;
        let What::Leadership { name } = &self.what else {
            return Err(PyRuntimeError::new_err("this is no election"));
        };
        let settings = self.settings.clone();
        let election = library.election(name).map_err(|error| error.raise(py))?;
        Ok((engine, election.with(move |lock| settings.apply(lock))))
    }
}

/// Who leads an election, change by change.
#[pyclass(frozen)]
pub(crate) struct Observation(Owned<Arc<Mutex<quorlock::Observation>>>);

#[pymethods]
impl Observation {
    /// The next change within `limit`: `(True, leader)`, `(True, None)` if no candidate leads any more,
    /// `(False, None)` if there was none.
    fn next(&self, py: Python<'_>, limit: Seconds) -> PyResult<Call> {
        let limit = limit.duration(py)?;
        let (Some(engine), Some(observation)) = (self.0.engine(), self.0.get().cloned()) else {
            return Err(PyRuntimeError::new_err("it belongs to the process that this one was forked from"));
        };
        let next = async move { timeout(limit, observation.lock().await.next()).await.ok().transpose() };
        Ok(Call::fallible(engine, next, |py, change| {
            let leader = match &change {
                Some(LeaderChange::Elected(leader)) => Some(views::leader(py, leader)?),
                _ => None,
            };
            Ok((change.is_some(), leader).into_pyobject(py)?.into_any().unbind())
        }))
    }
}

/// A call that acquires, and makes a `Held` of what it was granted.
pub(crate) fn acquire(
    engine: &'static Engine,
    work: impl Future<Output = Result<(Guard, Kind), AcquireError>> + Send + 'static,
) -> Call {
    let acquire = async move { work.await.map(|(guard, kind)| (OwnedGuard::new(engine, guard), kind)) };
    Call::fallible(engine, acquire, move |py, (guard, kind)| held(py, engine, guard, kind))
}

/// A `Held` for Python.
pub(crate) fn held(
    py: Python<'_>,
    engine: &'static Engine,
    guard: OwnedGuard,
    kind: Kind,
) -> PyResult<Py<PyAny>> {
    let held = Held::new(engine, guard, kind);
    let held = held.ok_or_else(|| PyRuntimeError::new_err("the process was forked"))?;
    Ok(Py::new(py, held)?.into_any())
}
