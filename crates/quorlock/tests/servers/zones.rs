//! Clients in three zones, each next to one server and far from the others, which try at the same moment.

use crate::setting::secs;
use quorlock::{AcquireError, Holder, Locker};
use quorlock_testkit::proxy::Fault;
use quorlock_testkit::{Proxy, Servers};
use std::time::Duration;
use tokio::time::timeout;

/// One locker in each zone. The proxies are the wires between zones.
async fn zones(servers: &Servers, delay: Duration) -> (Vec<Locker>, Vec<Proxy>) {
    let (mut lockers, mut wires) = (Vec::new(), Vec::new());
    for zone in 0..servers.len() {
        let mut urls = Vec::new();
        for (number, server) in servers.iter().enumerate() {
            if number == zone {
                urls.push(server.url());
                continue;
            }
            let wire = Proxy::start(server.port()).await;
            urls.push(wire.url());
            wires.push(wire);
        }
        let locker = Locker::builder().nodes(urls).node_timeout(Duration::from_millis(500)).build().unwrap();
        if zone == 0 {
            quorlock_testkit::init_nodes(&locker).await;
        }
        // Connections are made before the votes that the test is about.
        let warm = locker.named(format!("warm{zone}")).unwrap();
        drop(warm.acquire().await.unwrap());
        lockers.push(locker);
    }
    for wire in &wires {
        wire.set(Fault::Distance(delay)).await;
    }
    (lockers, wires)
}

/// Goal: a cron job on three servers runs on one of them, although each gets the vote of its own zone first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_three_zones_that_try_at_the_same_moment_one_gets_the_lock() {
    let servers = Servers::start(3);
    for delay in [20, 5, 1] {
        let (lockers, _wires) = zones(&servers, Duration::from_millis(delay)).await;
        for trial in 0..8 {
            let name = format!("job-{delay}-{trial}");
            let tries: Vec<_> = lockers
                .iter()
                .map(|locker| {
                    let lock = locker.named(&name).unwrap();
                    tokio::spawn(async move { timeout(secs(30), lock.try_acquire()).await.unwrap() })
                })
                .collect();
            let mut results = Vec::new();
            for tried in tries {
                results.push(tried.await.unwrap());
            }
            assert_eq!(results.iter().flatten().count(), 1, "{delay} ms, trial {trial}: {results:?}");
            for refused in results.iter().filter_map(|result| result.as_ref().err()) {
                let named = matches!(refused, AcquireError::Held { holder: Holder::Owner { .. }, .. });
                assert!(named, "{delay} ms, trial {trial}: {refused}");
            }
        }
    }
}
