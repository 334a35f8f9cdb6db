//! Keeps pages of other sites from calling the sidecar through a user's browser.

use crate::auth::Access;
use crate::auth::caller::{Ingress, Peer};
use crate::auth::origin::Origin;
use crate::problem::Problem;
use crate::problem::code::ProblemCode;
use axum::extract::Request;
use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, Method};
use std::net::{IpAddr, Ipv6Addr};

/// Refuses requests that a page of another site sent, or that call this machine by another site's name.
/// `origins` are where a reverse proxy publishes the sidecar.
pub(crate) fn check(access: &Access, origins: &[Origin], request: &Request) -> Result<(), Problem> {
    let Ingress { peer, is_encrypted, .. } = Ingress::of(request.extensions());
    let authority = request.uri().authority().map(|authority| authority.as_str());
    let host = authority.or_else(|| text(request.headers(), HOST.as_str()));
    if access.allows_anonymous(request.headers(), peer)
        && !host.is_some_and(|host| is_served(origins, peer, is_encrypted, host))
    {
        let detail =
            "call it by its address, name this host with --origin, or show a secret of the token file";
        return Err(Problem::new(ProblemCode::WrongHost, detail));
    }
    if is_cross_site(origins, request, host) {
        let detail = "call from the sidecar's own page, or from a program other than a browser";
        return Err(Problem::new(ProblemCode::CrossSite, detail));
    }
    Ok(())
}

/// Whether callers without a secret may call by this `host`. Another site can make its name resolve to
/// this machine (DNS rebinding), and its pages would then have the same origin. It cannot do so with an
/// address, nor over TLS, because the sidecar's certificate does not match that name.
fn is_served(origins: &[Origin], peer: Peer, is_encrypted: bool, host: &str) -> bool {
    origins.iter().any(|origin| origin.is_host(host))
        || match peer {
            Peer::Unix => true,
            Peer::Loopback => is_loopback(host),
            Peer::Remote => is_encrypted || is_loopback(host) || address(host).is_some(),
        }
}

fn is_cross_site(origins: &[Origin], request: &Request, host: Option<&str>) -> bool {
    let headers = request.headers();
    let is_followed_link = request.method() == Method::GET
        && request.uri().path() == "/"
        && text(headers, "sec-fetch-mode") == Some("navigate");
    // Links to the page are allowed: it is the same for every caller and cannot be framed.
    if is_followed_link {
        return false;
    }
    let from_elsewhere = headers.contains_key("sec-fetch-site")
        && !matches!(text(headers, "sec-fetch-site"), Some("same-origin" | "none"));
    let origin = text(headers, ORIGIN.as_str());
    let is_published = || origin.is_some_and(|origin| origins.iter().any(|known| known.is_origin(origin)));
    from_elsewhere || headers.contains_key(ORIGIN) && !is_own(origin, host) && !is_published()
}

/// Whether `origin` is the origin of `host` itself.
fn is_own(origin: Option<&str>, host: Option<&str>) -> bool {
    let named = origin.and_then(|origin| origin.split_once("://")).map(|(_, named)| named);
    matches!((named, host), (Some(named), Some(host)) if named.eq_ignore_ascii_case(host))
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Whether `host`, with or without a port, is the loopback name or address.
fn is_loopback(host: &str) -> bool {
    without_port(host).eq_ignore_ascii_case("localhost") || address(host).is_some_and(|ip| ip.is_loopback())
}

/// The IP address in `host`, with or without a port.
fn address(host: &str) -> Option<IpAddr> {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split_once(']')?.0.parse::<Ipv6Addr>().ok().map(IpAddr::V6);
    }
    without_port(host).parse().ok()
}

fn without_port(host: &str) -> &str {
    host.rsplit_once(':').map_or(host, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_names_are_recognised() {
        for host in ["localhost", "LOCALHOST:7420", "127.0.0.1:1", "127.8.9.1", "[::1]:7420", "[::1]"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in
            ["", "evil.example", "localhost.evil.example:7420", "10.0.0.1", "[::2]:1", "127.0.0.1.nip.io"]
        {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn only_the_sidecars_own_page_has_the_same_origin() {
        assert!(is_own(Some("http://localhost:7420"), Some("localhost:7420")));
        for origin in [Some("null"), Some("http://localhost:3000"), Some("http://evil.example"), None] {
            assert!(!is_own(origin, Some("localhost:7420")), "{origin:?}");
        }
    }
}
