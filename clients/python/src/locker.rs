//! Nodes and configuration: where locks come from.

use crate::call::Call;
use crate::engine::{Engine, Owned};
use crate::errors::{Raise, config_error, raise};
use crate::held::{Kind, OwnedGuard};
use crate::settings::{LockSettings, LockerSettings, RawLockSettings, RawLockerSettings, Seconds};
use crate::target::{Target, What, held};
use crate::views;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use quorlock::{LockHandle, Token};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Nodes and configuration. A forked process makes connections of its own.
#[pyclass(frozen)]
pub(crate) struct Locker {
    settings: LockerSettings,
    /// Locked only while the GIL is held, so that a forked process does not find it locked for ever.
    library: Mutex<Option<Owned<quorlock::Locker>>>,
}

impl Locker {
    /// How long its locks wait at most, if that was set.
    pub(crate) fn wait(&self) -> Option<Duration> {
        self.settings.locks.wait
    }

    /// The library's locker of this process.
    pub(crate) fn current(&self, py: Python<'_>) -> PyResult<(&'static Engine, quorlock::Locker)> {
        let engine = Engine::of_process(py)?;
        let mut library = self.library.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(library) = library.as_ref().and_then(Owned::get) {
            return Ok((engine, library.clone()));
        }
        let built = self.settings.build().map_err(|error| error.raise(py))?;
        *library = Some(Owned::new(engine, built.clone()));
        Ok((engine, built))
    }
}

#[pymethods]
impl Locker {
    #[new]
    fn new(py: Python<'_>, settings: RawLockerSettings) -> PyResult<Self> {
        let settings = LockerSettings::new(py, settings)?;
        // Finds every error of the configuration. The engine starts with the first call.
        settings.build().map_err(|error| error.raise(py))?;
        Ok(Self { settings, library: Mutex::new(None) })
    }

    /// A lock on all `names` together.
    fn names(
        slf: Py<Self>,
        py: Python<'_>,
        names: Vec<String>,
        is_shared: bool,
        settings: RawLockSettings,
    ) -> PyResult<Target> {
        Target::new(py, slf, What::Names { names, is_shared }, LockSettings::new(py, settings)?)
    }

    /// `count` permits of the semaphore `name`.
    fn permits(
        slf: Py<Self>,
        py: Python<'_>,
        name: String,
        slots: u32,
        count: usize,
        settings: RawLockSettings,
    ) -> PyResult<Target> {
        Target::new(py, slf, What::Permits { name, slots, count }, LockSettings::new(py, settings)?)
    }

    /// The leadership of the election `name`.
    fn leadership(
        slf: Py<Self>,
        py: Python<'_>,
        name: String,
        settings: RawLockSettings,
    ) -> PyResult<Target> {
        Target::new(py, slf, What::Leadership { name }, LockSettings::new(py, settings)?)
    }

    /// All locks that are held, and whether these are all.
    fn list(&self, py: Python<'_>) -> PyResult<Call> {
        let (engine, library) = self.current(py)?;
        let list = async move { library.list().await };
        Ok(Call::fallible(engine, list, |py, listing| {
            let held = views::statuses(py, &listing.held)?;
            Ok((held, listing.complete).into_pyobject(py)?.into_any().unbind())
        }))
    }

    /// Connects to a majority of the nodes.
    fn connect(&self, py: Python<'_>) -> PyResult<Call> {
        let (engine, library) = self.current(py)?;
        let connect = async move { library.connect().await };
        Ok(Call::fallible(engine, connect, |py, ()| Ok(py.None())))
    }

    /// Declares all nodes fresh: why each could not be, or `None`.
    fn init_fresh_nodes(&self, py: Python<'_>) -> PyResult<Call> {
        let (engine, library) = self.current(py)?;
        let init = async move { library.init_fresh_nodes().await };
        Ok(Call::new(engine, init, |py, reports| {
            let troubles = PyDict::new(py);
            for report in &reports {
                let trouble = match report.outcome {
                    quorlock::NodeOutcome::Yes => None,
                    _ => Some(report.to_string()),
                };
                troubles.set_item(report.node.as_ref(), trouble)?;
            }
            Ok(troubles.into_any().unbind())
        }))
    }

    /// Waits until every node has answered everything.
    fn flush(&self, py: Python<'_>) -> PyResult<Call> {
        let (engine, library) = self.current(py)?;
        Ok(Call::new(engine, async move { library.flush().await }, |py, ()| Ok(py.None())))
    }

    /// Why each node cannot vote, or `None` if it can.
    fn health<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (_, library) = self.current(py)?;
        let troubles = PyDict::new(py);
        for node in library.health() {
            let trouble = node.health.trouble.map(|trouble| trouble.to_string());
            troubles.set_item(node.node.as_ref(), trouble)?;
        }
        Ok(troubles)
    }

    /// Extends the lock that is held with `token`.
    fn extend_token(&self, py: Python<'_>, names: Vec<String>, token: &str, ttl: Seconds) -> PyResult<Call> {
        let (token, ttl) = (parse_token(py, token)?, ttl.duration(py)?);
        let (engine, library) = self.current(py)?;
        let lock = library.all(names).map_err(|error| error.raise(py))?;
        let extend = async move { lock.extend_token(token, ttl).await };
        Ok(Call::fallible(engine, extend, |py, outcome| {
            Ok(outcome.left.as_secs_f64().into_pyobject(py)?.into_any().unbind())
        }))
    }

    /// Releases the lock that is held with `token`; `is_forced` if it is that of another client.
    fn release_token(
        &self,
        py: Python<'_>,
        names: Vec<String>,
        token: &str,
        is_forced: bool,
    ) -> PyResult<Call> {
        let token = parse_token(py, token)?;
        let (engine, library) = self.current(py)?;
        let lock = library.all(names).map_err(|error| error.raise(py))?;
        let release = async move {
            match is_forced {
                true => lock.force_release(token).await,
                false => lock.release_token(token).await,
            }
        };
        Ok(Call::new(engine, release, |py, outcome| Ok(PyString::new(py, outcome.kind()).into())))
    }

    /// Takes over a lock that another process gave away.
    fn adopt(&self, py: Python<'_>, handle: &str) -> PyResult<Call> {
        let handle: LockHandle = serde_json::from_str(handle).map_err(|error| {
            raise(py, "ConfigError", &format!("not a lock that was given away: {error}"), |_| Ok(()))
        })?;
        let (engine, library) = self.current(py)?;
        let adopt = async move { library.adopt(&handle).await.map(|guard| OwnedGuard::new(engine, guard)) };
        Ok(Call::fallible(engine, adopt, move |py, guard| held(py, engine, guard, Kind::default())))
    }
}

fn parse_token(py: Python<'_>, token: &str) -> PyResult<Token> {
    token.parse().map_err(|error| config_error(py, &error))
}
