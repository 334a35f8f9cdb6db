//! Lost answers, servers that are down, and agents that are not what they should be.

use super::*;
use quorlock_testkit::Proxy;
use quorlock_testkit::proxy::Fault;

async fn proxy(consul: &Consul) -> (Proxy, String) {
    let proxy = Proxy::start(consul.client_ports()[0]).await;
    let url = format!("consul://127.0.0.1:{}", proxy.port());
    (proxy, url)
}

/// Goal: S8 for an acquire that was executed although its client never heard of it.
#[tokio::test]
async fn an_acquire_whose_answer_was_lost_is_undone() {
    if !Consul::is_here() {
        return;
    }
    let consul = Consul::start(1);
    let (proxy, url) = proxy(&consul).await;
    let node = node_within(&url, Duration::from_millis(250));
    ask(&node, &acquire("a", 1, 5, 30 * TTL, false)).await;
    ask(&node, &release("a", 1)).await;
    for (fault, holder) in [(Fault::SwallowReplies, 2), (Fault::Swallow, 3), (Fault::Garbage, 4)] {
        proxy.set(fault).await;
        let failed = ask(&node, &acquire("a", holder, 5 + u64::from(holder), 30 * TTL, false)).await;
        assert!(failed.starts_with("failed"), "{fault:?}: {failed}");
        proxy.set(Fault::Pass).await;
        until("it is undone", SOON, async || !ask(&node, &release("a", holder)).await.starts_with("failed"))
            .await;
        assert!(inspect(&node, "a").await.starts_with("free"), "{fault:?}");
    }
    assert_eq!(ask(&node, &acquire("a", 9, 90, TTL, false)).await, "raised");
}

/// Goal: a hold whose extension was answered to nobody stays, whichever session has it, and ends with its release.
#[tokio::test]
async fn an_extension_whose_answer_was_lost_keeps_the_hold() {
    if !Consul::is_here() {
        return;
    }
    let consul = Consul::start(1);
    let (proxy, url) = proxy(&consul).await;
    let node = node_within(&url, Duration::from_millis(250));
    ask(&node, &acquire("a", 1, 5, TTL, false)).await;
    proxy.set(Fault::SwallowReplies).await;
    let failed = ask(&node, &extend("a", 1, 30 * TTL, false)).await;
    assert!(failed.starts_with("failed"), "{failed}");
    proxy.set(Fault::Pass).await;
    until("it is extended", SOON, async || ask(&node, &extend("a", 1, 60 * TTL, false)).await == "done")
        .await;
    assert!(
        inspect(&node, "a").await.starts_with("ann1@web fence 5 left 600"),
        "{}",
        inspect(&node, "a").await
    );
    assert_eq!(ask(&node, &release("a", 1)).await, "done");
}

#[tokio::test]
async fn a_release_that_failed_is_made_up_for_when_the_cluster_is_back() {
    if !Consul::is_here() {
        return;
    }
    let mut consul = Consul::start(1);
    let node = node(&consul.url());
    assert_eq!(ask(&node, &acquire("a", 1, 5, 30 * TTL, false)).await, "raised");
    consul.kill(0);
    let failed = ask(&node, &release("a", 1)).await;
    assert!(failed.starts_with("failed"), "{failed}");
    assert!(node.health().trouble.is_some());
    for (text, number) in [("a", 2), ("b", 3)] {
        let failed = ask(&node, &acquire(text, number, 6, TTL, false)).await;
        assert!(failed.starts_with("failed"), "{failed}");
        assert_eq!(ask(&node, &release(text, number)).await, "taken", "there is nothing to undo");
    }
    consul.restart(0);
    until("it is free", SOON, async || inspect(&node, "a").await == "free, counter 5").await;
}

/// A server restarts while an acquire is under way.
#[tokio::test]
async fn an_acquire_during_a_restart_is_granted_or_leaves_nothing() {
    if !Consul::is_here() {
        return;
    }
    let mut consul = Consul::start(1);
    let node = node_within(&consul.url(), Duration::from_millis(500));
    node.wait_connected().await;
    consul.pause(0);
    let failed = ask(&node, &acquire("a", 1, 5, 30 * TTL, false)).await;
    assert!(failed.starts_with("failed"), "{failed}");
    consul.restart(0);
    until("it is undone", SOON, async || !ask(&node, &release("a", 1)).await.starts_with("failed")).await;
    until("it is free", SOON, async || inspect(&node, "a").await.starts_with("free")).await;
    until("it is taken", SOON, async || ask(&node, &acquire("a", 2, 9, TTL, false)).await == "raised").await;
}

/// Goal: two clients that name the agents of two clusters in another order do not both get a lock.
#[tokio::test]
async fn agents_of_two_clusters_in_one_address_are_refused() {
    if !Consul::is_here() {
        return;
    }
    let (one, other) = (Consul::start(1), Consul::start(1));
    let hosts = [&one, &other].map(|consul| consul.url().trim_start_matches("consul://").to_owned());
    for (first, second) in [(0, 1), (1, 0)] {
        let node = node_within(&format!("consul://{},{}", hosts[first], hosts[second]), SOON);
        let refused = ask(&node, &acquire("a", 1, 5, TTL, false)).await;
        assert!(
            refused.contains("another cluster") && hosts.iter().any(|host| refused.contains(host)),
            "{refused}"
        );
        assert!(node.examine().await.is_err());
    }
}

#[tokio::test]
async fn a_cluster_that_lost_its_data_is_refused() {
    if !Consul::is_here() {
        return;
    }
    let mut consul = Consul::start(1);
    let node = node(&consul.url());
    for holder in 1..100 {
        ask(&node, &acquire("a", holder, 5, TTL, false)).await;
        ask(&node, &release("a", holder)).await;
    }
    ask(&node, &acquire("a", 200, 900, 30 * TTL, false)).await;
    consul.restart_empty(0);
    let start = std::time::Instant::now();
    until("it is refused", SOON, async || {
        let reply = ask(&node, &acquire("b", 201, 901, TTL, false)).await;
        assert_ne!(reply, "raised");
        ask(&node, &release("b", 201)).await;
        reply.contains("went back")
    })
    .await;
    eprintln!("refused after {:?}", start.elapsed());
}

/// What a token of `rules` may do, or why not.
async fn with_rules(consul: &Consul, rules: &str) -> String {
    let token = consul.token_with(rules);
    let node = node_within(&consul.url_of(&[0], Some(&token)), SOON);
    let reply = ask(&node, &acquire("a", 1, 5, TTL, false)).await;
    ask(&node, &release("a", 1)).await;
    let shown = format!("{node:?} {} {reply} {:?}", node.id(), node.examine().await);
    assert!(!shown.contains(&token), "{shown}");
    reply
}

/// Goal: the least rights that the manual names are enough, and what is missing is said.
#[tokio::test]
async fn a_token_needs_the_rights_of_the_manual() {
    if !Consul::is_here() {
        return;
    }
    let consul = Consul::start_with_acl(1);
    let manual = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/engines-consul.md");
    let manual = std::fs::read_to_string(manual).unwrap();
    let rules: Vec<&str> = manual.lines().filter(|line| line.contains("{ policy = ")).collect();
    assert_eq!(rules.len(), 3, "{rules:?}");
    let all = rules.join("\n");
    for missing in &rules {
        let some = all.replace(missing, "");
        let reply = with_rules(&consul, &some).await;
        assert!(
            reply.starts_with("failed: permission denied") && reply.contains("write"),
            "{missing}: {reply}"
        );
    }
    assert_eq!(with_rules(&consul, &all).await, "raised");
    let node = node_within(&consul.url_of(&[0], Some("11111111-2222-3333-4444-555555555555")), SOON);
    let reply = ask(&node, &acquire("a", 1, 5, TTL, false)).await;
    assert_eq!(reply, "failed: authentication failed: the cluster does not know the token");
    let node = node_within(&consul.url(), SOON);
    let reply = ask(&node, &acquire("a", 1, 5, TTL, false)).await;
    assert!(reply.starts_with("failed: permission denied"), "{reply}");
}

#[tokio::test]
async fn an_examination_reports_version_leader_and_rights_and_writes_no_lock() {
    if !Consul::is_here() {
        return;
    }
    let consul = Consul::start(1);
    let node = node_within(&consul.url(), SOON);
    let Ok(Facts::Store(facts)) = node.examine().await else { panic!("no facts") };
    assert!(facts.version.starts_with("consul 1."), "{facts:?}");
    assert!(facts.has_leader && facts.members == Some(1) && facts.errors.is_empty(), "{facts:?}");
    assert_eq!(consul.keys("quorlock/"), ["quorlock/cluster-id"]);
    assert_eq!(consul.call("GET", "/v1/session/list", "").as_array().map_or(0, Vec::len), 0);
}
