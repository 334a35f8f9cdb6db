//! The selection guide: which question leads where.

use super::engine::Engine;

/// A question of the guide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    OneMachine,
    Postgres,
    StrongConsistency,
    Kubernetes,
    Performance,
    EdgeCasesOk,
}

impl Question {
    pub(super) const ALL: [Question; 6] = [
        Question::OneMachine,
        Question::Postgres,
        Question::StrongConsistency,
        Question::Kubernetes,
        Question::Performance,
        Question::EdgeCasesOk,
    ];

    /// A stable word for programs.
    pub(super) fn key(self) -> &'static str {
        match self {
            Question::OneMachine => "one_machine",
            Question::Postgres => "postgres",
            Question::StrongConsistency => "strong_consistency",
            Question::Kubernetes => "kubernetes",
            Question::Performance => "performance",
            Question::EdgeCasesOk => "edge_cases_ok",
        }
    }

    pub(super) fn text(self) -> &'static str {
        match self {
            Question::OneMachine => "Do all clients of the lock run on one machine?",
            Question::Postgres => "Does the lock protect data in a PostgreSQL database?",
            Question::StrongConsistency => "Must consensus decide who holds the lock, even if it is slower?",
            Question::Kubernetes => "Do you run Kubernetes?",
            Question::Performance => "Are locks acquired often, and does a millisecond count?",
            Question::EdgeCasesOk => {
                "Are two holders at once tolerable if they are very rare, or does the protected resource check the fence?"
            }
        }
    }
}

/// Asks only the questions that decide.
///
/// # Errors
/// What `answer` failed with.
pub(super) fn decide<E>(answer: &mut dyn FnMut(Question) -> Result<bool, E>) -> Result<Engine, E> {
    if answer(Question::OneMachine)? {
        return Ok(Engine::File);
    }
    if answer(Question::Postgres)? {
        return Ok(Engine::Postgres);
    }
    if answer(Question::StrongConsistency)? {
        return Ok(if answer(Question::Kubernetes)? { Engine::Etcd } else { Engine::ZooKeeper });
    }
    if answer(Question::Performance)? {
        return Ok(if answer(Question::EdgeCasesOk)? { Engine::Redlock } else { Engine::OneRedis });
    }
    Ok(if answer(Question::Kubernetes)? { Engine::Lease } else { Engine::Consul })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    #[test]
    fn every_path_leads_to_an_engine() {
        let table = "
            answers  engine
            y        File
            ny       Postgres
            nnyy     Etcd
            nnyn     ZooKeeper
            nnnyy    Redlock
            nnnyn    OneRedis
            nnnny    Lease
            nnnnn    Consul";
        for row in table.lines().skip(2) {
            let cells: Vec<&str> = row.split_whitespace().collect();
            let mut given = cells[0].chars();
            let mut answer = |_: Question| Ok::<_, Infallible>(given.next() == Some('y'));
            let engine = decide(&mut answer).unwrap();
            assert_eq!(format!("{engine:?}"), cells[1], "{row}");
            assert_eq!(given.next(), None, "no question too many: {row}");
        }
    }
}
