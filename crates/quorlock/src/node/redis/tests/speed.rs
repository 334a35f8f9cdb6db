//! How fast one link is; run by hand in a release build: `cargo test --release -p quorlock -- --ignored speed`.

use super::*;
use crate::node::Done;

#[tokio::test(flavor = "current_thread")]
#[ignore = "a measurement, not a check"]
async fn speed_of_acquire_and_release() {
    let server = Server::start(&[]);
    let node = connect(&server.url(), guarded());
    node.init().await.unwrap();
    for clients in [1, 100, 400] {
        let total = if clients == 1 { 20_000 } else { 400_000 };
        let start = std::time::Instant::now();
        let tasks: Vec<_> = (0..clients)
            .map(|client| {
                let node = node.clone();
                tokio::spawn(async move {
                    let lock = name(&format!("client:{client}"));
                    for cycle in 0..total / clients {
                        let vote = Acquire {
                            name: lock.clone(),
                            proposal: Fence::new(cycle + 1),
                            ..acquire("x", 1, 0)
                        };
                        let reply = ask(&node, Command::Acquire(vote)).await;
                        assert!(matches!(reply, Reply::Done(Done::Raised | Done::Unraised { .. })));
                        let release = Command::Release { name: lock.clone(), token: token(1) };
                        assert!(matches!(ask(&node, release).await, Reply::Done(Done::Plain)));
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        let rate = total as f64 / start.elapsed().as_secs_f64();
        println!("{clients} clients: {rate:.0} cycles/s");
    }
}
