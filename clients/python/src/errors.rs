//! The library's errors as Python exceptions.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use quorlock::{
    AcquireError, ConfigError, ExtendError, Holder, InspectError, ListError, Lost, NameError, NoQuorum,
    NodeReport,
};
use std::fmt::Display;
use std::time::Duration;

/// The exception `kind` of `quorlock/errors.py`, with its message and what it knows.
pub(crate) fn raise<'py>(
    py: Python<'py>,
    kind: &str,
    message: &dyn Display,
    know: impl FnOnce(&Bound<'py, PyDict>) -> PyResult<()>,
) -> PyErr {
    let build = || {
        let facts = PyDict::new(py);
        know(&facts)?;
        let class = py.import("quorlock.errors")?.getattr(kind)?;
        class.call((message.to_string(),), Some(&facts))
    };
    build().map_or_else(|error| error, PyErr::from_value)
}

/// An error of the library that Python can raise.
pub(crate) trait Raise {
    /// The exception.
    fn raise(self, py: Python<'_>) -> PyErr;
}

impl Raise for ConfigError {
    fn raise(self, py: Python<'_>) -> PyErr {
        config_error(py, &self)
    }
}

impl Raise for NameError {
    fn raise(self, py: Python<'_>) -> PyErr {
        config_error(py, &self)
    }
}

impl Raise for AcquireError {
    fn raise(self, py: Python<'_>) -> PyErr {
        let message = self.to_string();
        let raise = |kind: &str, lock: &dyn Display, know: &dyn Fn(&Bound<'_, PyDict>) -> PyResult<()>| {
            raise(py, kind, &message, |facts| {
                facts.set_item("lock", lock.to_string())?;
                know(facts)
            })
        };
        match &self {
            AcquireError::Held { lock, holder, left, waited } => raise("Held", lock, &|facts| {
                facts.set_item("holder", holder.to_string())?;
                facts.set_item("holder_fence", fence_of(holder))?;
                facts.set_item("remaining", left.map(|left| left.as_secs_f64()))?;
                facts.set_item("waited", waited.as_secs_f64())
            }),
            AcquireError::NamesHeld { lock, held, waited } => raise("NamesHeld", lock, &|facts| {
                let names = PyDict::new(py);
                for held in held {
                    names.set_item(held.name.as_str(), held.holder.to_string())?;
                }
                let longest: Option<Duration> = held.iter().filter_map(|held| held.left).max();
                facts.set_item("holders", names)?;
                facts.set_item("holder", held.first().map(|held| held.holder.to_string()))?;
                facts.set_item("remaining", longest.map(|left| left.as_secs_f64()))?;
                facts.set_item("waited", waited.as_secs_f64())
            }),
            AcquireError::NoPermit { lock, slots, waited } => raise("NoPermit", lock, &|facts| {
                facts.set_item("slots", slots)?;
                facts.set_item("waited", waited.as_secs_f64())
            }),
            AcquireError::SlotsDiffer { lock, recorded } => {
                raise("SlotsDiffer", lock, &|facts| facts.set_item("recorded", recorded))
            }
            AcquireError::Contended { lock, attempts, waited } => raise("Contended", lock, &|facts| {
                facts.set_item("attempts", attempts)?;
                facts.set_item("waited", waited.as_secs_f64())
            }),
            AcquireError::NoQuorum { lock, nodes, .. } => {
                raise("NoQuorum", lock, &|facts| facts.set_item("nodes", reports(py, nodes)?))
            }
            AcquireError::TooSlow { lock, took, ttl } => raise("TooSlow", lock, &|facts| {
                facts.set_item("took", took.as_secs_f64())?;
                facts.set_item("ttl", ttl.as_secs_f64())
            }),
            AcquireError::TooManyWaiters { lock, waiters } => {
                raise("TooManyWaiters", lock, &|facts| facts.set_item("waiters", waiters))
            }
            AcquireError::Config { lock, .. } => raise("ConfigError", lock, &|_| Ok(())),
            _ => raise("QuorlockError", &"", &|_| Ok(())),
        }
    }
}

impl Raise for Lost {
    fn raise(self, py: Python<'_>) -> PyErr {
        raise(py, "Lost", &self, |facts| {
            facts.set_item("lock", self.lock.to_string())?;
            facts.set_item("reason", self.reason.kind())
        })
    }
}

impl Raise for ExtendError {
    fn raise(self, py: Python<'_>) -> PyErr {
        match self {
            ExtendError::Lost(lost) => lost.raise(py),
            ExtendError::NoQuorum { ref lock, ref nodes, .. } => no_quorum(py, &self, lock, nodes),
            ExtendError::Config(error) => error.raise(py),
            other => raise(py, "QuorlockError", &other, |_| Ok(())),
        }
    }
}

impl Raise for InspectError {
    fn raise(self, py: Python<'_>) -> PyErr {
        no_quorum(py, &self, &self.lock, &self.nodes)
    }
}

impl Raise for NoQuorum {
    fn raise(self, py: Python<'_>) -> PyErr {
        no_quorum(py, &self, &"", &self.nodes)
    }
}

impl Raise for ListError {
    fn raise(self, py: Python<'_>) -> PyErr {
        match self {
            ListError::Inspect(error) => error.raise(py),
            ListError::NoQuorum { ref nodes, .. } => no_quorum(py, &self, &"", nodes),
            other => raise(py, "QuorlockError", &other, |_| Ok(())),
        }
    }
}

/// A setting that cannot be used.
pub(crate) fn config_error(py: Python<'_>, message: &dyn Display) -> PyErr {
    raise(py, "ConfigError", message, |_| Ok(()))
}

fn no_quorum(py: Python<'_>, message: &dyn Display, lock: &dyn Display, nodes: &[NodeReport]) -> PyErr {
    raise(py, "NoQuorum", message, |facts| {
        facts.set_item("lock", lock.to_string())?;
        facts.set_item("nodes", reports(py, nodes)?)
    })
}

/// What each node answered, in the words of the library.
fn reports<'py>(py: Python<'py>, nodes: &[NodeReport]) -> PyResult<Bound<'py, PyDict>> {
    let answers = PyDict::new(py);
    for report in nodes {
        answers.set_item(report.node.as_ref(), report.to_string())?;
    }
    Ok(answers)
}

fn fence_of(holder: &Holder) -> Option<u64> {
    match holder {
        Holder::Owner { fence, .. } => Some(fence.get()),
        _ => None,
    }
}
