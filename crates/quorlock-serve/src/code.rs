//! Every kind of problem: a stable word, a status and a title.

use axum::http::StatusCode;

/// A stable word for a problem, with the status that it is told with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
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
    Contended,
    Lost,
    BodyTooLarge,
    WrongContentType,
    WrongHost,
    Crowded,
    TooManyNames,
    Internal,
    NoQuorum,
    TooSlow,
    Full,
    ShuttingDown,
}

impl Code {
    const ALL: [Self; 23] = [
        Code::BadRequest,
        Code::BadName,
        Code::BadToken,
        Code::BadTtl,
        Code::Unauthorized,
        Code::Forbidden,
        Code::CrossSite,
        Code::NotFound,
        Code::MethodNotAllowed,
        Code::WaitOver,
        Code::Held,
        Code::Contended,
        Code::Lost,
        Code::BodyTooLarge,
        Code::WrongContentType,
        Code::WrongHost,
        Code::Crowded,
        Code::TooManyNames,
        Code::Internal,
        Code::NoQuorum,
        Code::TooSlow,
        Code::Full,
        Code::ShuttingDown,
    ];

    /// Word, status and title.
    pub(crate) fn facts(self) -> (&'static str, StatusCode, &'static str) {
        use StatusCode as S;
        match self {
            Code::BadRequest => ("bad_request", S::BAD_REQUEST, "The request cannot be understood"),
            Code::BadName => ("bad_name", S::BAD_REQUEST, "This cannot be the name of a lock"),
            Code::BadToken => ("bad_token", S::BAD_REQUEST, "This is no token"),
            Code::BadTtl => ("bad_ttl", S::BAD_REQUEST, "This ttl cannot be used"),
            Code::Unauthorized => ("unauthorized", S::UNAUTHORIZED, "A valid secret is needed"),
            Code::Forbidden => ("forbidden", S::FORBIDDEN, "The caller may not do this"),
            Code::CrossSite => ("cross_site", S::FORBIDDEN, "Pages of other sites may not call"),
            Code::NotFound => ("not_found", S::NOT_FOUND, "There is nothing here"),
            Code::MethodNotAllowed => {
                ("method_not_allowed", S::METHOD_NOT_ALLOWED, "This needs another method")
            }
            Code::WaitOver => ("wait_over", S::REQUEST_TIMEOUT, "The lock was held all the time"),
            Code::Held => ("held", S::CONFLICT, "The lock is held"),
            Code::Contended => ("contended", S::CONFLICT, "No client has a majority"),
            Code::Lost => ("lost", S::GONE, "The lock is not held under this token"),
            Code::BodyTooLarge => ("body_too_large", S::PAYLOAD_TOO_LARGE, "The body is too large"),
            Code::WrongContentType => {
                ("wrong_content_type", S::UNSUPPORTED_MEDIA_TYPE, "The body must be JSON")
            }
            Code::WrongHost => ("wrong_host", S::MISDIRECTED_REQUEST, "This host is not served here"),
            Code::Crowded => ("crowded", S::TOO_MANY_REQUESTS, "Too many wait already"),
            Code::TooManyNames => ("too_many_names", S::TOO_MANY_REQUESTS, "Too many new names"),
            Code::Internal => ("internal", S::INTERNAL_SERVER_ERROR, "Something is broken here"),
            Code::NoQuorum => ("no_quorum", S::SERVICE_UNAVAILABLE, "Too few nodes can vote"),
            Code::TooSlow => ("too_slow", S::SERVICE_UNAVAILABLE, "The nodes agreed too late"),
            Code::Full => ("full", S::SERVICE_UNAVAILABLE, "The sidecar has no room"),
            Code::ShuttingDown => ("shutting_down", S::SERVICE_UNAVAILABLE, "The sidecar is shutting down"),
        }
    }
}

/// The word and the HTTP status of every problem that a sidecar tells.
pub fn problem_codes() -> Vec<(&'static str, u16)> {
    Code::ALL.iter().map(|code| code.facts()).map(|(word, status, _)| (word, status.as_u16())).collect()
}
