//! Each condition of the Lua scripts.

use super::*;
use crate::node::redis::protocol::compare_and_delete;
use crate::node::redis::protocol::resp::Value;
use crate::node::{Denied, Done, Tie, Wakeup};
use std::io::Write;
use std::os::unix::net::UnixStream;

const WEEK: std::ops::RangeInclusive<u64> = 604_000..=604_800;

fn stamp(lock: &str, by: u8, at_least: u64) -> Command {
    Command::Stamp { name: name(lock), token: token(by), at_least: Fence::new(at_least) }
}

fn extend(lock: &str, by: u8) -> Command {
    Command::Extend {
        name: name(lock),
        token: token(by),
        ttl: NODE_TIMEOUT,
        tie: Tie::Loose,
        mode: quorlock_core::Mode::Exclusive,
        may_be_shared: false,
    }
}

fn stamped(reply: Reply) -> u64 {
    if let Reply::Done(Done::Stamped { to }) = reply { to.get() } else { panic!("{reply:?}") }
}

/// A node whose user may do everything but for `rules`.
fn limited(server: &Server, rules: &str) -> Arc<RedisNode> {
    server.run_command(&format!("ACL SETUSER bob reset on >pw ~* &* +@all {rules}"));
    connect(&(server.url() + "?user=bob&password=pw"), calm())
}

/// Servers word it differently inside a script.
fn is_denied_to_the_user(error: &NodeError) -> bool {
    match error {
        NodeError::NoPermission { .. } => true,
        NodeError::Server { message } => message.contains("can't run this command"),
        _ => false,
    }
}

/// Goal: two holders that stamp to one number get two.
#[tokio::test]
async fn a_stamp_to_the_counters_own_number_goes_above_it() {
    let server = Server::start(&[]);
    let node = connect(&server.url(), calm());
    ask(&node, vote("a", 1, 100)).await;
    assert_eq!(stamped(ask(&node, stamp("a", 1, 100)).await), 101);
    assert_eq!(stamped(ask(&node, stamp("a", 1, 101)).await), 102);
    assert_eq!(view(&node, "a").await.counter, Some(Fence::new(102)));
}

#[tokio::test]
async fn a_stamp_begins_a_counter_where_there_is_none() {
    let server = Server::start(&[]);
    let node = connect(&server.url(), calm());
    ask(&node, vote("a", 1, 100)).await;
    server.run_command("DEL quorlock:fence:{a}");
    assert_eq!(stamped(ask(&node, stamp("a", 1, 40)).await), 40);
    assert_eq!(view(&node, "a").await.counter, Some(Fence::new(40)));
}

/// Goal: a value of which only the token is left, as older or other programs write it, can be stamped.
#[tokio::test]
async fn a_stamp_of_a_value_without_a_label_adds_the_fence() {
    let server = Server::start(&[]);
    let node = connect(&server.url(), calm());
    server.run_command(&format!("SET a {} PX 20000", token(1)));
    assert_eq!(stamped(ask(&node, stamp("a", 1, 9)).await), 9);
    assert_eq!(server.text("GET a").unwrap(), format!("{} 9", token(1)));
}

/// Goal: a long job that only extends keeps its counter as long as one that releases.
#[tokio::test]
async fn an_extend_keeps_the_counter_for_a_week() {
    let server = Server::start(&[]);
    let node = connect(&server.url(), calm());
    ask(&node, vote("a", 1, 7)).await;
    assert_eq!(server.text("TTL quorlock:fence:{a}").unwrap(), "-1");
    assert!(matches!(ask(&node, extend("a", 1)).await, Reply::Done(Done::Plain)));
    let left = server.run_command("TTL quorlock:fence:{a}").number().unwrap();
    assert!(WEEK.contains(&left), "{left}");
}

/// Goal: a counter that cannot be kept costs no lock.
#[tokio::test]
async fn a_lock_is_extended_and_released_although_its_counter_cannot_be_kept() {
    let server = Server::start(&[]);
    let node = limited(&server, "-expire");
    assert!(matches!(ask(&node, vote("a", 1, 7)).await, Reply::Done(Done::Raised)));
    assert!(matches!(ask(&node, extend("a", 1)).await, Reply::Done(Done::Plain)));
    assert!(matches!(ask(&node, release("a", 1)).await, Reply::Done(_)));
    assert_eq!(server.text("EXISTS a").unwrap(), "0");
}

/// Goal: a name that the user may not read is listed, because it may be held.
#[tokio::test]
async fn a_name_that_cannot_be_read_is_listed_as_one_that_may_be_held() {
    let server = Server::start(&[]);
    let holder = connect(&server.url(), calm());
    ask(&holder, vote("held", 1, 7)).await;
    ask(&holder, vote("free", 1, 7)).await;
    ask(&holder, release("free", 1)).await;
    let listed = async |node: Arc<RedisNode>| format!("{:?}", node.names().await.unwrap());
    let all = listed(connect(&server.url(), calm())).await;
    assert!(all.contains("held") && !all.contains("free"), "{all}");
    let blind = listed(limited(&server, "resetkeys ~quorlock:*")).await;
    assert!(blind.contains("held") && blind.contains("free"), "{blind}");
}

#[tokio::test]
async fn a_value_that_names_the_token_elsewhere_is_another_programs() {
    let server = Server::start(&[]);
    let node = connect(&server.url(), calm());
    server.run_command(&format!("SET a x{}", token(1)));
    for command in [release("a", 1), extend("a", 1), stamp("a", 1, 9)] {
        let reply = ask(&node, command).await;
        assert!(matches!(reply, Reply::Denied(Denied::Taken)), "{reply:?}");
    }
    assert_eq!(server.text("GET a").unwrap(), format!("x{}", token(1)));
}

/// Goal: a user that may not read a name does not know its holder. Taken for a denial, a release would
/// not be sent again.
#[tokio::test]
async fn a_name_that_cannot_be_read_is_an_error_and_no_denial() {
    let server = Server::start(&[]);
    let node = limited(&server, "-get");
    assert!(matches!(ask(&node, vote("a", 1, 7)).await, Reply::Done(Done::Raised)));
    for command in [extend("a", 1), stamp("a", 1, 9), release("a", 1)] {
        let error = cause(ask(&node, command).await);
        assert!(is_denied_to_the_user(&error), "{error}");
    }
    server.run_command("ACL SETUSER bob +get");
    until("the release is sent again", || server.text("EXISTS a").as_deref() == Some("0")).await;
}

#[tokio::test]
async fn a_name_that_cannot_be_deleted_is_not_reported_as_free() {
    let server = Server::start(&[]);
    let node = limited(&server, "-del");
    assert!(matches!(ask(&node, vote("a", 1, 7)).await, Reply::Done(Done::Raised)));
    let error = cause(ask(&node, release("a", 1)).await);
    assert!(is_denied_to_the_user(&error), "{error}");
    assert_eq!(server.text("EXISTS a").unwrap(), "1");
    server.run_command("ACL SETUSER bob +del");
    until("the release is sent again", || server.text("EXISTS a").as_deref() == Some("0")).await;
}

/// Goal: a release that cannot see whether there are waiters sends its hint, which costs little, instead
/// of none.
#[tokio::test]
async fn a_release_that_cannot_see_waiters_sends_a_hint() {
    for rules in ["-exists", "-pubsub", "-exists -pubsub"] {
        let server = Server::start(&[]);
        let (holder, waiter) = (limited(&server, rules), connect(&server.url(), calm()));
        let wakeup = Wakeup::new();
        waiter.wait_connected().await;
        waiter.watch(&name("a"), &wakeup);
        assert!(matches!(ask(&waiter, vote("b", 2, 7)).await, Reply::Done(Done::Raised)));
        assert!(matches!(ask(&holder, vote("a", 1, 7)).await, Reply::Done(Done::Raised)), "{rules}");
        assert!(matches!(ask(&holder, release("a", 1)).await, Reply::Done(Done::Plain)), "{rules}");
        let notified = tokio::time::timeout(NODE_TIMEOUT, wakeup.notified()).await;
        assert!(notified.is_ok(), "{rules}: no hint");
    }
}

/// A subscriber to hints about the name "a".
fn subscriber(server: &Server) -> UnixStream {
    let stream = UnixStream::connect(server.socket()).unwrap();
    stream.set_read_timeout(Some(NODE_TIMEOUT)).unwrap();
    assert!(server::ask(&stream, "SUBSCRIBE quorlock:free:{a}").is_some());
    stream
}

fn hint(subscriber: &UnixStream) -> String {
    let Some(Value::Array(fields)) = server::answer(subscriber) else { panic!("no hint") };
    String::from_utf8_lossy(fields[2].text().unwrap()).into_owned()
}

/// Goal: waiters try one after the other by their number, and count a release of several nodes once, by
/// its first eight digits.
#[tokio::test]
async fn a_hint_has_the_number_of_its_receivers_and_which_release_it_is() {
    let server = Server::start(&[]);
    let node = connect(&server.url(), calm());
    let subscribers = [subscriber(&server), subscriber(&server), subscriber(&server)];
    let expected = format!("3 {}", &token(1).as_str()[..8]);
    server.run_command("SET quorlock:waiting 1");
    ask(&node, vote("a", 1, 7)).await;
    assert!(matches!(ask(&node, release("a", 1)).await, Reply::Done(Done::Plain)));
    assert!(subscribers.iter().all(|subscriber| hint(subscriber) == expected));

    // The hint behind a release without the script is the same.
    let mut out = Vec::new();
    compare_and_delete::hint(&mut out, &name("a"), &token(1));
    let mut stream = UnixStream::connect(server.socket()).unwrap();
    stream.write_all(&out).unwrap();
    assert_eq!(server::answer(&stream).unwrap().number(), Some(3));
    assert!(subscribers.iter().all(|subscriber| hint(subscriber) == expected));
}

/// Goal: hints cost the server something, so where no client waits for anything none is given.
#[tokio::test]
async fn no_hint_is_given_where_the_server_knows_of_no_waiter() {
    let server = Server::start(&[]);
    let node = connect(&server.url(), calm());
    let _subscriber = subscriber(&server);
    ask(&node, vote("a", 1, 7)).await;
    assert!(matches!(ask(&node, release("a", 1)).await, Reply::Done(Done::Unawaited)));
    let calls = server.text("INFO commandstats").unwrap();
    assert!(!calls.contains("cmdstat_publish"), "{calls}");
}

/// Goal: a name that is locked and released for longer than a week keeps its counter all the time.
#[tokio::test]
async fn the_expiry_of_a_counter_is_renewed_after_an_hour_on_one_connection() {
    let server = Server::start(&[]);
    let clock = Arc::new(Ahead::default());
    let node = connect(&server.url(), Context { clock: clock.clone(), ..calm() });
    let mut proposal = 0;
    // Quiet, because a release that has other flags must not keep the counter for that reason.
    let release = Command::Release {
        name: name("a"),
        token: token(1),
        quiet: true,
        stored_after_token: None,
        may_be_shared: false,
        forced: false,
    };
    let mut cycle = async || {
        proposal += 1;
        assert!(matches!(ask(&node, vote("a", 1, proposal)).await, Reply::Done(_)));
        assert!(matches!(ask(&node, release.clone()).await, Reply::Done(_)));
        server.text("TTL quorlock:fence:{a}").unwrap().parse::<i64>().unwrap()
    };
    assert!(cycle().await > 600_000);
    server.run_command("PERSIST quorlock:fence:{a}");
    assert_eq!(cycle().await, -1, "once an hour is enough");
    clock.set(3_700);
    assert!(cycle().await > 600_000);
}
