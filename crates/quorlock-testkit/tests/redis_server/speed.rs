//! How long a script call takes on the simulated server.

use crate::resp::encode;
use quorlock::SystemClock;
use quorlock_testkit::simulator::redis_server::{RedisServer, Version};
use std::sync::Arc;
use std::time::Instant;

const CALLS: u32 = 200_000;
const RELEASE: &str = include_str!("../../../quorlock/src/node/redis/protocol/lua/release.lua");

fn words(words: &[&str]) -> Vec<u8> {
    encode(&words.iter().map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>())
}

/// Prints the time of a vote and of its release. Run it with `--release -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn a_release_takes_microseconds() {
    let mut server = RedisServer::new(Version::Redis7, Arc::new(SystemClock), 1);
    let connection = server.connect();
    server.receive(connection, &words(&["SCRIPT", "LOAD", RELEASE]));
    let hash = sha1_smol::Sha1::from(RELEASE).hexdigest();
    let token = "00112233445566778899aabbccddeeff";
    let value = format!("{token} 1763240000000000 me@host 42 1763240000000000");
    let vote = [
        words(&["SET", "a", &value, "NX", "PX", "10000"]),
        words(&["ZADD", "quorlock:fence:{a}", "GT", "CH", "1763240000000000", "f"]),
    ]
    .concat();
    let release = words(&["EVALSHA", &hash, "2", "quorlock:waiting", "a", token]);
    server.take_output(connection);
    for (what, with_release) in [("votes", false), ("votes and releases", true)] {
        let start = Instant::now();
        for _ in 0..CALLS {
            server.receive(connection, &vote);
            if with_release {
                server.receive(connection, &release);
            }
            let output = server.take_output(connection);
            assert!(
                !with_release || output.ends_with(b"*1\r\n:2\r\n"),
                "{}",
                String::from_utf8_lossy(&output)
            );
        }
        println!("{what}: {:?} each", start.elapsed() / CALLS);
    }
}
