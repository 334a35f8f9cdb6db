use super::*;
use proptest::prelude::*;

fn url(text: &str) -> NodeUrl {
    text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn server(text: &str) -> Server {
    match url(text).place {
        Place::Server(server) => server,
        other => panic!("{text} is {other:?}"),
    }
}

fn refused(text: &str) -> UrlError {
    text.parse::<NodeUrl>().unwrap_err()
}

/// Goal: an address that is copied from a log or an error means the same node.
#[test]
fn what_is_shown_means_the_same_node_whatever_is_in_the_path() {
    for (given, shown) in [
        ("file:/a%3Ffilesystem=any", "file:/a%3Ffilesystem=any"),
        ("file:/a%20b%25/", "file:/a%20b%25/"),
        ("file:%2F/a", "file:%2F/a"),
        ("unix:///a%3Fdb=3,b@c", "unix:///a%3Fdb=3%2Cb%40c"),
        ("memory:%2Fa%20", "memory:%2Fa%20"),
        ("file:/locks/ä", "file:/locks/ä"),
    ] {
        assert_eq!(url(given).to_string(), shown);
        assert!(url(shown) == url(given), "{given}");
    }
}

#[test]
fn every_part_of_a_server_address_is_read() {
    let read = server("redis://ann:s%40cret@Cache.Example:7000/3?durable=yes");
    assert_eq!(read.user.as_deref(), Some("ann"));
    assert_eq!(read.password.as_deref(), Some("s@cret"));
    assert_eq!((read.db, read.durable), (3, Some(true)));
    assert_eq!(read.endpoint, Endpoint::Tcp { host: "cache.example".into(), port: 7000, tls: None });
}

#[test]
fn the_port_defaults_and_ipv6_needs_brackets() {
    for (text, short) in [
        ("redis://a", "a:6379"),
        ("valkey://a:/", "a:6379"),
        ("redis://[::1]", "[::1]:6379"),
        ("rediss://[FE80::1]:7000/1", "[fe80::1]:7000"),
    ] {
        assert_eq!(url(text).short(), short, "{text}");
    }
    assert!(matches!(refused("redis://::1"), UrlError::Missing { .. } | UrlError::Port { .. }));
    assert!(matches!(refused("redis://[::1"), UrlError::Host { .. }));
    assert!(matches!(refused("redis://[zz]:1"), UrlError::Host { .. }));
}

#[test]
fn a_socket_takes_its_credentials_as_options() {
    let read = server("unix:///run/redis.sock?db=2&user=u&password=p%26q@x");
    assert_eq!(read.endpoint, Endpoint::Unix("/run/redis.sock".into()));
    assert_eq!(read.db, 2);
    assert_eq!(read.password.as_deref(), Some("p&q@x"));
}

/// Goal: the form that other clients read is not taken for a path, which is shown everywhere.
#[test]
fn a_socket_may_carry_credentials_before_its_path() {
    let read = server("unix://ann:s%40cret@/run/redis.sock?db=2");
    assert_eq!(read.endpoint, Endpoint::Unix("/run/redis.sock".into()));
    assert_eq!((read.user.as_deref(), read.password.as_deref()), (Some("ann"), Some("s@cret")));
    assert_eq!(server("unix:///run/a@b.sock").endpoint, Endpoint::Unix("/run/a@b.sock".into()));
    assert_eq!(server("unix:run/redis.sock").endpoint, Endpoint::Unix("run/redis.sock".into()));
}

#[test]
fn a_directory_of_another_machine_is_refused_and_not_taken_for_a_relative_one() {
    assert_eq!(url("file://localhost/var/x").identity(), "file:/var/x");
    assert!(matches!(refused("file://var/x"), UrlError::Elsewhere { .. }));
    assert_eq!(url("file:var/x").identity(), "file:var/x");
}

#[test]
fn tls_takes_files_and_plain_tcp_does_not() {
    let read = server("valkeys://a?ca=/ca.pem&cert=/c.pem&key=/k.pem");
    let Endpoint::Tcp { tls: Some(tls), .. } = read.endpoint else {
        panic!("no TLS");
    };
    assert_eq!(tls.ca, Some("/ca.pem".into()));
    assert_eq!(tls.identity, Some(("/c.pem".into(), "/k.pem".into())));
    assert!(matches!(refused("redis://a?ca=/ca.pem"), UrlError::Option { .. }));
    assert!(matches!(refused("rediss://a?cert=/c"), UrlError::Value { option: "key", .. }));
}

#[cfg(feature = "etcd")]
#[test]
fn the_members_of_a_cluster_are_one_address() {
    let Place::Cluster(read) = url("etcd://ann:s%40cret@A,b:7000,[::1]/team%2Fx/").place else { panic!() };
    let member = |host: &str, port| Endpoint::Tcp { host: host.into(), port, tls: None };
    assert_eq!(read.endpoints, [member("a", 2379), member("b", 7000), member("::1", 2379)]);
    assert_eq!((read.user.as_deref(), read.password.as_deref()), (Some("ann"), Some("s@cret")));
    assert_eq!(read.prefix, "team/x");
    let shown = url("etcds://ann:hunter2@a,b?ca=/ca.pem");
    assert_eq!((shown.to_string().as_str(), shown.kind()), ("etcds://a:2379,b:2379", NodeKind::Etcd));
    assert!(
        !format!("{shown:?} {:?} {} {}", shown.place, shown.identity(), shown.short()).contains("hunter2")
    );
    assert_ne!(url("etcd://a/one").identity(), url("etcd://a/two").identity());
    assert!(matches!(refused("etcd://a/team/lock/x"), UrlError::Value { option: "prefix", .. }));
    assert!(matches!(refused("etcd://a,,b"), UrlError::Missing { what: "host", .. }));
    assert!(matches!(refused("etcd://ann@a"), UrlError::Missing { what: "password", .. }));
    assert!(matches!(refused("etcd://a?db=1"), UrlError::Option { option, .. } if option == "db"));
    assert!(matches!(refused("etcd://a?ca=/ca.pem"), UrlError::Option { .. }));
}

#[cfg(not(feature = "etcd"))]
#[test]
fn a_kind_that_was_not_built_is_named() {
    let error = refused("etcd://a");
    assert!(
        matches!(error, UrlError::NotBuilt { .. }) && error.to_string().contains("feature `etcd`"),
        "{error}"
    );
}

#[test]
fn a_list_keeps_the_members_of_a_cluster_together() {
    for (text, urls) in [
        ("redis://a, redis://b,,", vec!["redis://a", "redis://b"]),
        ("etcd://a,b:1,c/p?user=u", vec!["etcd://a,b:1,c/p?user=u"]),
        ("etcd://a,b,etcds://c,d,file:,memory:x", vec!["etcd://a,b", "etcds://c,d", "file:", "memory:x"]),
        ("redis://a,b", vec!["redis://a", "b"]),
        ("", vec![]),
    ] {
        assert_eq!(split_list(text), urls, "{text}");
    }
}

#[test]
fn files_and_memory_may_leave_the_place_open() {
    assert_eq!(url("file:").place, Place::Directory(Directory::default()));
    for text in ["file:/var/x", "file:///var/x", "file:///var//x/"] {
        assert_eq!(url(text).identity(), "file:/var/x", "{text}");
    }
    let any = url("file:/var/x?filesystem=any");
    assert!(matches!(&any.place, Place::Directory(directory) if directory.any_file_system));
    assert_eq!(
        (any.identity().as_str(), any.to_string().as_str()),
        ("file:/var/x", "file:/var/x?filesystem=any")
    );
    assert_eq!(url("file:/var/x?filesystem=local"), url("file:/var/x"));
    assert_eq!(url("file:/var/a%3Fb").identity(), "file:/var/a?b");
    assert_eq!(url("file:?filesystem=any").to_string(), "file:?filesystem=any");
    assert!(matches!(refused("file:/var/x?filesystem=nfs"), UrlError::Value { option: "filesystem", .. }));
    assert!(matches!(refused("file:/var/x?durable=yes"), UrlError::Option { .. }));
    assert_eq!(url("memory:").kind(), NodeKind::Memory);
    assert_ne!(url("memory:a").identity(), url("memory:b").identity());
}

#[test]
fn spellings_of_one_server_have_one_identity() {
    let same = ["redis://HOST", "valkey://host:6379", "redis://u:p@host/7", "redis://host?durable=no"];
    for text in same {
        assert_eq!(url(text).identity(), "redis:host:6379", "{text}");
    }
    assert_ne!(url("redis://host:6380").identity(), url(same[0]).identity());
}

#[test]
fn nonsense_is_refused_by_name() {
    assert!(matches!(refused("http://a"), UrlError::Scheme { scheme } if scheme == "http"));
    assert!(matches!(refused("reds:/a"), UrlError::Scheme { scheme } if scheme == "reds"));
    assert!(matches!(refused("redis://a:99999"), UrlError::Port { .. }));
    assert!(matches!(refused("redis://a:0"), UrlError::Port { .. }));
    assert!(matches!(refused("redis://a/x"), UrlError::Database { .. }));
    assert!(matches!(refused("redis://a?colour=red"), UrlError::Option { .. }));
    assert!(matches!(refused("redis://a?durable=maybe"), UrlError::Value { .. }));
    assert!(matches!(refused("redis://"), UrlError::Missing { .. }));
    assert!(matches!(refused("unix://"), UrlError::Missing { .. }));
    assert!(matches!(refused("redis://u:%zz@a"), UrlError::Encoding { part: "password" }));
}

#[test]
fn an_address_without_a_scheme_gets_a_hint() {
    for (given, meant) in [
        ("localhost", "redis://localhost"),
        ("127.0.0.1:6379", "redis://127.0.0.1:6379"),
        ("redis:6379", "redis://redis:6379"),
        ("[::1]:7000", "redis://[::1]:7000"),
        ("etcd-1:2379", "etcd://etcd-1:2379"),
    ] {
        let error = refused(given).to_string();
        assert!(error.ends_with(&format!("did you mean `{meant}`?")), "{error}");
    }
    for given in ["redis:", "", "host:port", "u:hunter2", "file", "memory"] {
        assert!(!matches!(given.parse::<NodeUrl>(), Err(UrlError::NoScheme { .. })), "{given}");
    }
    assert!("memory:7".parse::<NodeUrl>().is_ok());
}

#[test]
fn only_an_address_with_a_password_has_one() {
    for (text, has_one) in [
        ("redis://a", false),
        ("redis://user@a", false),
        ("redis://:secret@a", true),
        ("unix:///s?password=secret", true),
        ("etcd://user:secret@a,b", true),
        ("file:/d", false),
    ] {
        if let Ok(url) = text.parse::<NodeUrl>() {
            assert_eq!(url.has_password(), has_one, "{text}");
        }
    }
}

#[test]
fn nothing_shows_the_password() {
    let good = url("redis://ann:hunter2@h:1/2");
    assert_eq!(good.to_string(), "redis://h:1/2");
    for shown in [format!("{good:?}"), format!("{:?}", good.place), good.identity(), good.short()] {
        assert!(!shown.contains("hunter2"), "{shown}");
    }
    for bad in [
        "redis://u:hunter2@h:x",
        "redis://u:hunter2@h/x",
        "redis://u:hunter2@[h",
        "redis://u:hunter2@h?x=1",
        "reds://u:hunter2@h",
        "unix:///s?password=hunter2&db=x",
        "u:hunter2@h",
        "redis://u:hunter2?x=1@h:99999",
        // The host was forgotten, or the scheme.
        "redis://u:hunter2",
        "redis://u:hunter2/0",
        "hunter2@h",
        "hunter2@h:6379",
        "u:hunter2@h:6379/0",
        // Special characters that were not encoded.
        "redis://h?password=x&hunter2",
        "redis://h?user=u&password=x&hunter2=y",
        "redis://h?password=hunter2%",
        "redis://u:hunter2#@h#",
        "unix://u:hunter2@/s?colour=red",
    ] {
        let error = refused(bad);
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{bad}: {error}");
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in any::<String>()) {
        let _ = text.parse::<NodeUrl>();
    }

    #[test]
    fn no_address_like_text_panics(
        text in "(redis|rediss|unix|file|memory)://[a-z:@/?%&=\\[\\].0-9é]{0,40}"
    ) {
        if let Ok(url) = text.parse::<NodeUrl>() {
            let _ = (url.to_string(), url.identity(), url.short());
        }
    }

    /// Goal: one character too many never shows a password.
    #[test]
    fn a_misspelt_address_does_not_show_its_password(
        before in "(redis|rediss|valkey)://[a-z]{0,4}:", after in "@(h|h\\.org|\\[::1\\])(:[0-9]{1,5})?(/[0-9])?(\\?db=1)?",
        slip in "[/?#@:%&=\\[\\] .,;é\\\\]", at in any::<prop::sample::Index>()
    ) {
        let places: Vec<usize> = before.char_indices().map(|(at, _)| at)
            .chain(after.char_indices().map(|(at, _)| before.len() + "hunter2".len() + at)).collect();
        let mut text = format!("{before}hunter2{after}");
        text.insert_str(*at.get(&places), &slip);
        let shown = match text.parse::<NodeUrl>() {
            Ok(url) => format!("{url} {url:?} {} {}", url.short(), url.identity()),
            Err(error) => format!("{error} {error:?}"),
        };
        prop_assert!(!shown.contains("hunter2"), "{text}: {shown}");
    }

    #[test]
    fn what_is_shown_means_the_same_node(
        host in "[a-z][a-z0-9.-]{0,20}", port in 1u16.., db in 0u32..16
    ) {
        let first = url(&format!("redis://user:pass@{host}:{port}/{db}"));
        let again = url(&first.to_string());
        prop_assert_eq!(first.identity(), again.identity());
    }
}
