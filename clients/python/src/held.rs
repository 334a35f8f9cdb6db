//! A held lock.

use crate::call::Call;
use crate::delivery::Delivery;
use crate::engine::{Engine, Owned};
use crate::errors::raise;
use crate::settings::Seconds;
use crate::views::unix_seconds;
use pyo3::prelude::*;
use pyo3::types::PyString;
use quorlock::{Fence, Guard, Lease, LeaseState, LossReason, Mode, Name, Owner, ReleaseOutcome};
use std::sync::{Mutex, PoisonError};
use tokio::time::timeout;

/// A guard that is released in the background when dropped, on whichever thread.
pub(crate) struct OwnedGuard(Owned<Guard>);

impl OwnedGuard {
    /// `guard`, which was acquired on `engine`.
    pub(crate) fn new(engine: &'static Engine, guard: Guard) -> Self {
        Self(Owned::new(engine, guard))
    }
}

impl Drop for OwnedGuard {
    fn drop(&mut self) {
        if let (Some(engine), Some(guard)) = (self.0.engine(), self.0.take()) {
            engine.release_later(guard);
        }
    }
}

/// What a guard was acquired as.
#[derive(Default)]
pub(crate) struct Kind {
    /// The slots of a permit.
    pub(crate) slots: Vec<u32>,
    /// What a leader published.
    pub(crate) value: Option<String>,
}

/// A held lock, kept alive in the background and released when dropped.
#[pyclass(frozen)]
pub(crate) struct Held {
    /// `None` once it was released or given away. Locked only while the GIL is held.
    guard: Mutex<Option<OwnedGuard>>,
    lease: Owned<Lease>,
    engine: &'static Engine,
    kind: Kind,
}

impl Held {
    /// What `guard` holds.
    pub(crate) fn new(engine: &'static Engine, guard: OwnedGuard, kind: Kind) -> Option<Self> {
        let lease = guard.0.get()?.lease();
        Some(Self { guard: Mutex::new(Some(guard)), lease: Owned::new(engine, lease), engine, kind })
    }

    /// The lease, if this process took it.
    fn lease(&self, py: Python<'_>) -> PyResult<&Lease> {
        self.lease.get().ok_or_else(|| {
            raise(py, "Lost", &"the lock belongs to the process that this one was forked from", |facts| {
                facts.set_item("reason", "forked")
            })
        })
    }

    fn take_guard(&self) -> Option<Guard> {
        let guard = self.guard.lock().unwrap_or_else(PoisonError::into_inner).take();
        guard.and_then(|mut guard| guard.0.take())
    }

    fn with_guard(&self, act: impl FnOnce(&Guard)) {
        let guard = self.guard.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(guard) = guard.as_ref().and_then(|guard| guard.0.get()) {
            act(guard);
        }
    }
}

#[pymethods]
impl Held {
    #[getter]
    fn names(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        Ok(self.lease(py)?.names().iter().map(|name: &Name| name.as_str().to_owned()).collect())
    }

    #[getter]
    fn fence(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(Fence::get(self.lease(py)?.fence()))
    }

    #[getter]
    fn token(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.lease(py)?.token().as_str().to_owned())
    }

    #[getter]
    fn is_shared(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.lease(py)?.mode() == Mode::Shared)
    }

    #[getter]
    fn votes(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.lease(py)?.votes())
    }

    #[getter]
    fn owner(&self, py: Python<'_>) -> PyResult<String> {
        let owner: Owner = self.lease(py)?.owner();
        Ok(owner.to_string())
    }

    #[getter]
    fn slots(&self) -> Vec<u32> {
        self.kind.slots.clone()
    }

    #[getter]
    fn value(&self) -> Option<&str> {
        self.kind.value.as_deref()
    }

    /// Seconds for which it is held for sure; 0 if it is lost.
    fn remaining(&self) -> f64 {
        self.lease.get().map_or(0.0, |lease| lease.remaining().as_secs_f64())
    }

    /// Seconds to the deadline, even after a loss was announced before it.
    fn time_left(&self) -> f64 {
        self.lease.get().map_or(0.0, |lease| lease.time_left().as_secs_f64())
    }

    /// The deadline as Unix time.
    fn expires_at(&self, py: Python<'_>) -> PyResult<f64> {
        Ok(unix_seconds(self.lease(py)?.expires_at()))
    }

    /// Whether it is held for sure.
    fn is_held(&self) -> bool {
        self.lease.get().is_some_and(Lease::is_held)
    }

    /// Why it is not held, as an exception that is not raised; `None` if it is held or must be verified.
    fn loss(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let lease = match self.lease(py) {
            Ok(lease) => lease,
            Err(error) => return Some(error.into_value(py).into_any()),
        };
        let LeaseState::Lost(reason) = lease.state() else { return None };
        Some(loss(py, lease, reason).into_value(py).into_any())
    }

    /// Releases it: "released", "already_gone" or "unconfirmed".
    fn release(&self, py: Python<'_>) -> PyResult<Call> {
        let guard = self.take_guard();
        let release = async move {
            match guard {
                Some(guard) => guard.release().await,
                None => ReleaseOutcome::AlreadyGone,
            }
        };
        let engine = Engine::of_process(py)?;
        Ok(Call::new(engine, release, |py, outcome| Ok(PyString::new(py, outcome.kind()).into())))
    }

    /// Extends it by its ttl, or by `ttl`.
    #[pyo3(signature = (ttl=None))]
    fn extend(&self, py: Python<'_>, ttl: Option<Seconds>) -> PyResult<Call> {
        let ttl = ttl.map(|ttl| ttl.duration(py)).transpose()?;
        let lease = self.lease(py)?.clone();
        let extend = async move {
            match ttl {
                Some(ttl) => lease.extend_by(ttl).await,
                None => lease.extend().await,
            }
        };
        Ok(Call::fallible(self.engine, extend, |py, left| {
            Ok(left.as_secs_f64().into_pyobject(py)?.into_any().unbind())
        }))
    }

    /// Waits until it is lost or released, at most for `limit`; whether it is.
    #[pyo3(signature = (limit=None))]
    fn wait_lost(&self, py: Python<'_>, limit: Option<Seconds>) -> PyResult<Call> {
        let limit = limit.map(|limit| limit.duration(py)).transpose()?;
        let lease = self.lease(py)?.clone();
        let lost = async move {
            match limit {
                Some(limit) => timeout(limit, lease.lost()).await.is_ok(),
                None => {
                    lease.lost().await;
                    true
                }
            }
        };
        Ok(Call::new(self.engine, lost, |py, is_lost| {
            Ok(is_lost.into_pyobject(py)?.to_owned().into_any().unbind())
        }))
    }

    /// Calls `callback` once it is lost; not if it is released before.
    fn on_lost(&self, py: Python<'_>, callback: Py<PyAny>) -> PyResult<()> {
        let (engine, lease) = (self.engine, self.lease(py)?.clone());
        engine.runtime.spawn(async move {
            if lease.lost().await.reason != LossReason::Released {
                engine.deliver(Delivery::Callback(callback));
            }
        });
        Ok(())
    }

    /// Holds it shared from now on.
    fn downgrade(&self, py: Python<'_>) -> PyResult<()> {
        self.lease(py)?;
        let _runtime = self.engine.runtime.enter();
        self.with_guard(Guard::downgrade);
        Ok(())
    }

    /// Stops keeping it alive without releasing it: text with which another process takes it over.
    fn give_away(&self, py: Python<'_>) -> PyResult<Call> {
        let lease = self.lease(py)?;
        let Some(guard) = self.take_guard() else { return Err(loss(py, lease, LossReason::Released)) };
        Ok(Call::fallible(self.engine, guard.into_handle(), |py, handle| {
            let text = serde_json::to_string(&handle)
                .map_err(|error| raise(py, "QuorlockError", &error, |_| Ok(())))?;
            Ok(PyString::new(py, &text).into())
        }))
    }
}

/// The exception for a lease that is lost.
fn loss(py: Python<'_>, lease: &Lease, reason: LossReason) -> PyErr {
    let names = lease.names().iter().map(Name::as_str).collect::<Vec<_>>().join("`, `");
    raise(py, "Lost", &format!("lock `{names}` was lost: {reason}"), |facts| {
        facts.set_item("lock", &names)?;
        facts.set_item("reason", reason.kind())
    })
}
