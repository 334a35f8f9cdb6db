//! The addresses under which a reverse proxy publishes the sidecar.

use axum::http::Uri;
use std::str::FromStr;

/// Where browsers and programs find the sidecar: `https://locks.example.com`, with a port unless it is
/// the default one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    scheme: &'static str,
    /// In lower case, without the default port.
    authority: String,
}

/// A text is not an origin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not an origin; write http://HOST or https://HOST, with :PORT unless it is the default one"
)]
pub struct OriginError {
    text: String,
}

impl Origin {
    /// Whether a header `Host` names it.
    pub(crate) fn is_host(&self, host: &str) -> bool {
        without_default_port(self.scheme, host).eq_ignore_ascii_case(&self.authority)
    }

    /// Whether a header `Origin` names it.
    pub(crate) fn is_origin(&self, origin: &str) -> bool {
        origin.parse().is_ok_and(|origin: Self| origin == *self)
    }
}

impl FromStr for Origin {
    type Err = OriginError;

    fn from_str(text: &str) -> Result<Self, OriginError> {
        let bad = || OriginError { text: text.to_owned() };
        let uri: Uri = text.parse().map_err(|_| bad())?;
        let scheme = match uri.scheme_str() {
            Some("http") => "http",
            Some("https") => "https",
            _ => return Err(bad()),
        };
        let authority = uri.authority().ok_or_else(bad)?.as_str();
        let is_bare = uri.path() == "/" && uri.query().is_none() && !text.ends_with('?');
        if authority.contains('@') || !is_bare {
            return Err(bad());
        }
        Ok(Self { scheme, authority: without_default_port(scheme, authority).to_ascii_lowercase() })
    }
}

fn without_default_port<'a>(scheme: &str, authority: &'a str) -> &'a str {
    let default = if scheme == "https" { ":443" } else { ":80" };
    authority.strip_suffix(default).unwrap_or(authority)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_a_scheme_and_an_authority() {
        let origin: Origin = "https://Locks.example.com/".parse().unwrap();
        for host in ["locks.example.com", "LOCKS.example.com:443"] {
            assert!(origin.is_host(host), "{host}");
        }
        for host in ["locks.example.com:80", "example.com", "locks.example.com.evil.example", ""] {
            assert!(!origin.is_host(host), "{host}");
        }
        assert!(origin.is_origin("https://locks.example.com"));
        for other in
            ["http://locks.example.com", "https://locks.example.com:8443", "null", "https://evil.example"]
        {
            assert!(!origin.is_origin(other), "{other}");
        }
        assert!("http://[::1]:7420".parse::<Origin>().unwrap().is_host("[::1]:7420"));
        for text in
            ["", "locks.example.com", "ftp://a", "https://", "https://a/b", "https://a?b", "https://u:p@a"]
        {
            assert!(text.parse::<Origin>().is_err(), "{text}");
        }
    }
}
