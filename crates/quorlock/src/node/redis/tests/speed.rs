//! How fast one link is; run by hand in a release build: `cargo test --release -p quorlock -- --ignored
//! speed`.

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
        let (start, server_start, own_start) = (std::time::Instant::now(), server_cpu(&server), own_cpu());
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
                        let release = Command::Release {
                            name: lock.clone(),
                            token: token(1),
                            quiet: false,
                            stored_after_token: None,
                            may_be_shared: false,
                            forced: false,
                        };
                        assert!(matches!(
                            ask(&node, release).await,
                            Reply::Done(Done::Plain | Done::Unawaited)
                        ));
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        let per_cycle = |seconds: f64| seconds * 1e6 / total as f64;
        println!(
            "{clients} clients: {:.0} cycles/s, server {:.1} us/cycle, client {:.1} us/cycle",
            total as f64 / start.elapsed().as_secs_f64(),
            per_cycle(server_cpu(&server) - server_start),
            per_cycle(own_cpu() - own_start),
        );
    }
}

/// The processor time that the server has used, in seconds.
fn server_cpu(server: &Server) -> f64 {
    let info = server.text("INFO cpu").unwrap();
    let fields = info.lines().filter_map(|line| line.split_once(':'));
    let used = |field: &str| matches!(field, "used_cpu_user" | "used_cpu_sys");
    fields.filter(|(field, _)| used(field)).map(|(_, seconds)| seconds.parse::<f64>().unwrap()).sum()
}

/// The processor time that this process has used, in seconds.
fn own_cpu() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
