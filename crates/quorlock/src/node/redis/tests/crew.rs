//! The task that serves all servers of a locker.

use super::*;
use crate::entropy::Entropy;
use crate::node::Done;
use rustix::process::Signal;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread;
use tokio::runtime::{Builder, Handle};

fn raised(reply: &Reply) -> bool {
    matches!(reply, Reply::Done(Done::Raised))
}

#[tokio::test]
async fn one_task_serves_all_servers_and_ends_with_the_last_of_them() {
    let servers = [Server::start(&[]), Server::start(&[])];
    let around = calm();
    let tasks = Handle::current().metrics();
    for round in ["first", "again"] {
        let [one, other] = servers.each_ref().map(|server| connect(&server.url(), around.clone()));
        assert!(raised(&ask(&one, vote(round, 1, 7)).await));
        assert!(raised(&ask(&other, vote(round, 1, 7)).await));
        assert_eq!(tasks.num_alive_tasks(), 1);
        drop(one);
        assert!(raised(&ask(&other, vote(&format!("{round} alone"), 1, 7)).await));
        drop(other);
        until("the task ends", || tasks.num_alive_tasks() == 0).await;
    }
}

#[test]
fn whoever_is_left_without_a_runtime_joins_the_next() {
    let servers = [Server::start(&[]), Server::start(&[])];
    let around = calm();
    let nodes = servers.each_ref().map(|server| connect(&server.url(), around.clone()));
    for round in 0..3 {
        // Which one begins is not always the same; the runtime ends with its block.
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        for number in [round % 2, 1 - round % 2] {
            let reply = runtime.block_on(ask(&nodes[number], vote(&format!("n{round}"), 1, 7)));
            assert!(raised(&reply), "{reply:?}");
        }
    }
}

/// Goal: a runtime that is alive but idle holds up only whoever was started there.
#[test]
fn each_runtime_drives_what_was_started_in_it() {
    let servers = [Server::start(&[]), Server::start(&[])];
    let around = calm();
    let [one, other] = servers.each_ref().map(|server| connect(&server.url(), around.clone()));
    let idle = Builder::new_current_thread().enable_all().build().unwrap();
    assert!(raised(&idle.block_on(ask(&one, vote("a", 1, 7)))));
    let busy = Builder::new_current_thread().enable_all().build().unwrap();
    assert!(raised(&busy.block_on(ask(&other, vote("a", 1, 7)))));
}

/// Goal: what fails in one connection leaves the others alone.
#[tokio::test]
async fn a_panic_ends_one_connection_only() {
    #[derive(Debug)]
    struct Broken;
    impl Entropy for Broken {
        fn fill(&self, _: &mut [u8]) {
            panic!("this source is broken, as the test wants it");
        }
    }
    let server = Server::start(&[]);
    let around = calm();
    let good = connect(&server.url(), around.clone());
    assert!(raised(&ask(&good, vote("a", 1, 7)).await));
    server.signal(Signal::STOP);
    let nodes: Nodes = [good.clone()];
    let mut asked = Round::send(&nodes, NodeSet::first(1), vote("b", 1, 7), PATIENCE, Enough::ONE);
    // It needs random numbers before it tries again.
    let bad = connect("unix:///there/is/none", Surroundings { entropy: Arc::new(Broken), ..around });
    for _ in 0..3 {
        // Whichever error it is told by.
        cause(ask(&bad, vote("c", 1, 7)).await);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    server.signal(Signal::CONT);
    assert!(raised(&asked.next().await.unwrap().1));
}

/// Goal: those who were answered together are heard together. One after another, they would need a write each.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_a_crowd_sends_goes_in_few_writes() {
    const CROWD: usize = 50;
    const TURNS: usize = 20;
    let server = Server::start(&[]);
    let node = connect(&server.url(), guarded());
    node.init().await.unwrap();
    server.run_command("CONFIG RESETSTAT");
    let crowd: Vec<_> = (0..CROWD)
        .map(|number| {
            let node = node.clone();
            tokio::spawn(async move {
                let lock = format!("n{number}");
                for turn in 1..=TURNS {
                    assert!(raised(&ask(&node, vote(&lock, 1, turn as u64)).await));
                    assert!(matches!(ask(&node, release(&lock, 1)).await, Reply::Done(_)));
                }
            })
        })
        .collect();
    for task in crowd {
        task.await.unwrap();
    }
    // Every write with a vote in it reads the epoch once.
    let calls = server.text("INFO commandstats").unwrap();
    let line = calls.lines().find_map(|line| line.strip_prefix("cmdstat_getrange:calls=")).unwrap();
    let writes: usize = line.split(',').next().unwrap().parse().unwrap();
    assert!(writes < CROWD * TURNS / 3, "{writes} writes");
}

/// Goal: a server that never stops talking is no reason not to hear the others.
#[tokio::test]
async fn a_server_that_floods_its_connection_does_not_drown_the_others() {
    for greets in [true, false] {
        let (babbler, server) = (Server::start(&[]), Server::start(&[]));
        let around = calm();
        let directory = tempfile::tempdir().unwrap();
        let url = babble_over(&babbler, &directory.path().join("socket"), greets);
        let first = connect(&url, around.clone());
        if greets {
            assert!(raised(&ask(&first, vote("a", 1, 7)).await));
        } else {
            post(&first, &vote("a", 1, 7));
        }
        let second = connect(&server.url(), around);
        for turn in 0..5 {
            assert!(raised(&ask(&second, vote(&format!("n{turn}"), 1, 7)).await));
        }
        assert!(first.health().trouble.is_none());
    }
}

/// Leads from `socket` to `server`, if it `greets`, until that has answered a vote; after that, pushes without end and meaning
/// come. Gives its URL.
fn babble_over(server: &Server, socket: &Path, greets: bool) -> String {
    let listener = UnixListener::bind(socket).unwrap();
    let mut server = UnixStream::connect(server.socket()).unwrap();
    thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut buffer = [0; 16 * 1024];
        while greets {
            let asked = client.read(&mut buffer).unwrap();
            server.write_all(&buffer[..asked]).unwrap();
            let is_vote = buffer[..asked].windows(6).any(|word| word == b"\r\nNX\r\n");
            // So few answers come whole.
            let answered = server.read(&mut buffer).unwrap();
            client.write_all(&buffer[..answered]).unwrap();
            if is_vote {
                break;
            }
        }
        let babble = b">2\r\n+pong\r\n+pong\r\n".repeat(10_000);
        // Until the test has heard enough.
        while client.write_all(&babble).is_ok() {}
    });
    format!("unix://{}", socket.display())
}
