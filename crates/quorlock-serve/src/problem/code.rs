//! Every kind of problem: a stable word, a status and a title.

use axum::http::StatusCode;

/// A kind of problem. Its word is stable, so clients can match on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProblemCode {
    BadRequest,
    BadName,
    BadToken,
    BadTtl,
    Unauthorized,
    Forbidden,
    CrossSite,
    NotFound,
    MethodNotAllowed,
    WaitOver,
    Held,
    NamesHeld,
    NoPermit,
    SlotsDiffer,
    Contended,
    Lost,
    BodyTooLarge,
    WrongContentType,
    WrongHost,
    TooManyWaiters,
    TooManyNames,
    Internal,
    NoQuorum,
    TooSlow,
    Full,
    ShuttingDown,
}

impl ProblemCode {
    const ALL: [Self; 26] = [
        ProblemCode::BadRequest,
        ProblemCode::BadName,
        ProblemCode::BadToken,
        ProblemCode::BadTtl,
        ProblemCode::Unauthorized,
        ProblemCode::Forbidden,
        ProblemCode::CrossSite,
        ProblemCode::NotFound,
        ProblemCode::MethodNotAllowed,
        ProblemCode::WaitOver,
        ProblemCode::Held,
        ProblemCode::NamesHeld,
        ProblemCode::NoPermit,
        ProblemCode::SlotsDiffer,
        ProblemCode::Contended,
        ProblemCode::Lost,
        ProblemCode::BodyTooLarge,
        ProblemCode::WrongContentType,
        ProblemCode::WrongHost,
        ProblemCode::TooManyWaiters,
        ProblemCode::TooManyNames,
        ProblemCode::Internal,
        ProblemCode::NoQuorum,
        ProblemCode::TooSlow,
        ProblemCode::Full,
        ProblemCode::ShuttingDown,
    ];

    /// Word, status and title.
    pub(crate) fn facts(self) -> (&'static str, StatusCode, &'static str) {
        use StatusCode as S;
        match self {
            ProblemCode::BadRequest => ("bad_request", S::BAD_REQUEST, "The request cannot be understood"),
            ProblemCode::BadName => ("bad_name", S::BAD_REQUEST, "This cannot be the name of a lock"),
            ProblemCode::BadToken => ("bad_token", S::BAD_REQUEST, "This is no token"),
            ProblemCode::BadTtl => ("bad_ttl", S::BAD_REQUEST, "This ttl cannot be used"),
            ProblemCode::Unauthorized => ("unauthorized", S::UNAUTHORIZED, "A valid secret is needed"),
            ProblemCode::Forbidden => ("forbidden", S::FORBIDDEN, "The caller may not do this"),
            ProblemCode::CrossSite => ("cross_site", S::FORBIDDEN, "Pages of other sites may not call"),
            ProblemCode::NotFound => ("not_found", S::NOT_FOUND, "There is nothing here"),
            ProblemCode::MethodNotAllowed => {
                ("method_not_allowed", S::METHOD_NOT_ALLOWED, "This needs another method")
            }
            ProblemCode::WaitOver => ("wait_over", S::REQUEST_TIMEOUT, "The lock was held all the time"),
            ProblemCode::Held => ("held", S::CONFLICT, "The lock is held"),
            ProblemCode::NamesHeld => ("names_held", S::CONFLICT, "Some of the names are held"),
            ProblemCode::NoPermit => ("no_permit", S::CONFLICT, "All slots are taken"),
            ProblemCode::SlotsDiffer => {
                ("slots_differ", S::CONFLICT, "The semaphore is in use with another number of slots")
            }
            ProblemCode::Contended => ("contended", S::CONFLICT, "No client has a majority"),
            ProblemCode::Lost => ("lost", S::GONE, "The lock is not held under this token"),
            ProblemCode::BodyTooLarge => ("body_too_large", S::PAYLOAD_TOO_LARGE, "The body is too large"),
            ProblemCode::WrongContentType => {
                ("wrong_content_type", S::UNSUPPORTED_MEDIA_TYPE, "The body must be JSON")
            }
            ProblemCode::WrongHost => ("wrong_host", S::MISDIRECTED_REQUEST, "This host is not served here"),
            ProblemCode::TooManyWaiters => {
                ("too_many_waiters", S::TOO_MANY_REQUESTS, "Too many calls wait already")
            }
            ProblemCode::TooManyNames => ("too_many_names", S::TOO_MANY_REQUESTS, "Too many new names"),
            ProblemCode::Internal => ("internal", S::INTERNAL_SERVER_ERROR, "Something is broken here"),
            ProblemCode::NoQuorum => ("no_quorum", S::SERVICE_UNAVAILABLE, "Too few nodes can vote"),
            ProblemCode::TooSlow => ("too_slow", S::SERVICE_UNAVAILABLE, "The nodes agreed too late"),
            ProblemCode::Full => ("full", S::SERVICE_UNAVAILABLE, "The sidecar has no room"),
            ProblemCode::ShuttingDown => {
                ("shutting_down", S::SERVICE_UNAVAILABLE, "The sidecar is shutting down")
            }
        }
    }
}

/// The word and the HTTP status of every problem that a sidecar reports.
pub fn problem_codes() -> Vec<(&'static str, u16)> {
    ProblemCode::ALL
        .iter()
        .map(|code| code.facts())
        .map(|(word, status, _)| (word, status.as_u16()))
        .collect()
}
