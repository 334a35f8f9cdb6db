//! What nodes store, as the data classes of `quorlock/views.py`.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use quorlock::{Fence, Holder, Inspection, Leader, Owner, Token};
use std::time::{SystemTime, UNIX_EPOCH};

/// An inspection as a `Status`.
pub(crate) fn status<'py>(py: Python<'py>, found: &Inspection) -> PyResult<Bound<'py, PyAny>> {
    let (mode, holders, foreign) = match &found.holder {
        Holder::Owner { token, fence, owner } => {
            (Some("exclusive"), vec![holder(py, *token, *fence, owner)?], None)
        }
        Holder::Shared { readers } => {
            let readers = readers.iter().map(|reader| holder(py, reader.token, reader.fence, &reader.owner));
            (Some("shared"), readers.collect::<PyResult<_>>()?, None)
        }
        Holder::Foreign(value) => (Some("exclusive"), Vec::new(), Some(value)),
        _ => (None, Vec::new(), None),
    };
    let troubles = PyDict::new(py);
    for node in &found.nodes {
        troubles.set_item(node.node.as_ref(), node.view.as_ref().err().map(ToString::to_string))?;
    }
    let facts = PyDict::new(py);
    facts.set_item("name", found.name.as_str())?;
    facts.set_item("held", found.is_held())?;
    facts.set_item("mode", mode)?;
    facts.set_item("holders", holders)?;
    facts.set_item("foreign", foreign)?;
    facts.set_item("remaining", found.left.map(|left| left.as_secs_f64()))?;
    facts.set_item("fence", found.fence.map(Fence::get))?;
    facts.set_item("votes", found.votes)?;
    facts.set_item("quorum", found.quorum.needed())?;
    facts.set_item("nodes", troubles)?;
    make(py, "Status", &facts)
}

/// Several inspections as a list.
pub(crate) fn statuses<'py>(py: Python<'py>, found: &[Inspection]) -> PyResult<Bound<'py, PyAny>> {
    let list = PyList::empty(py);
    for found in found {
        list.append(status(py, found)?)?;
    }
    Ok(list.into_any())
}

/// A leader as a `Leader`.
pub(crate) fn leader<'py>(py: Python<'py>, found: &Leader) -> PyResult<Bound<'py, PyAny>> {
    let facts = PyDict::new(py);
    facts.set_item("value", &found.value)?;
    facts.set_item("term", found.term.get())?;
    facts.set_item("owner", &found.owner.who)?;
    facts.set_item("pid", found.owner.pid)?;
    facts.set_item("since", unix_seconds(found.owner.since))?;
    make(py, "Leader", &facts)
}

/// A time as Python's `time.time()` has it.
pub(crate) fn unix_seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

fn holder<'py>(py: Python<'py>, token: Token, fence: Fence, owner: &Owner) -> PyResult<Bound<'py, PyAny>> {
    let facts = PyDict::new(py);
    facts.set_item("owner", &owner.who)?;
    facts.set_item("pid", owner.pid)?;
    facts.set_item("since", unix_seconds(owner.since))?;
    facts.set_item("reason", owner.reason.as_deref())?;
    facts.set_item("fence", fence.get())?;
    facts.set_item("token", token.as_str())?;
    make(py, "Holder", &facts)
}

fn make<'py>(py: Python<'py>, class: &str, facts: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyAny>> {
    py.import("quorlock.views")?.getattr(class)?.call((), Some(facts))
}
