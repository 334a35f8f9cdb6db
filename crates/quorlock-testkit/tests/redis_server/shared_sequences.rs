//! Random commands of shared locks and slots, and on the members of the collections that they use.

use crate::pair::Varies;
use crate::sequences::{
    EXTEND, FENCES, NAMES, REPAIR, Random, STAMP, TOKENS, call, fence_key, readers_key, ttl, words,
};

const SHARED: [&str; 5] = [
    include_str!("../../../quorlock/src/node/redis/protocol/lua/share.lua"),
    include_str!("../../../quorlock/src/node/redis/protocol/lua/upgrade.lua"),
    include_str!("../../../quorlock/src/node/redis/protocol/lua/downgrade.lua"),
    include_str!("../../../quorlock/src/node/redis/protocol/lua/readers.lua"),
    include_str!("../../../quorlock/src/node/redis/protocol/lua/slots.lua"),
];

/// A command on the members of a sorted set or the fields of a hash.
pub(crate) fn member_command(random: &mut Random, name: &str, fence: &str) -> Vec<Vec<u8>> {
    let key = random.pick(&[name, fence, "list"]).to_owned();
    let member = random.pick(&["f", "f", "g", TOKENS[0]]);
    let bound = |random: &mut Random| {
        random.pick(&["-inf", "+inf", "(1", "1", "(1763240000000000", "1763240000000001", "x", "2"])
    };
    let place = |random: &mut Random| random.pick(&["0", "-1", "1", "-5", "9", "x"]);
    let (low, high, start, stop) = (bound(random), bound(random), place(random), place(random));
    match random.below(14) {
        0 => words(&["ZADD", &key, "3", "f", "1", "g", "2", "h"]),
        1 => words(&["ZREM", &key, member, "h"]),
        2 => words(&["ZCARD", &key]),
        3 => words(&["ZCOUNT", &key, low, high]),
        4 => words(&["ZRANGE", &key, start, stop]),
        5 => words(&["ZRANGE", &key, start, stop, random.pick(&["WITHSCORES", "withscores", "FOO"])]),
        6 => words(&["ZRANGEBYSCORE", &key, low, high]),
        7 => words(&["ZRANGEBYSCORE", &key, low, high, "LIMIT", start, stop, "WITHSCORES"]),
        8 => words(&["ZRANGEBYSCORE", &key, low, high, random.pick(&["LIMIT", "WITHSCORES", "FOO"])]),
        9 => words(&["HSET", &readers_key(name), member, "1 me@host 42 5"]),
        10 => words(&["HGET", &readers_key(name), member]),
        11 => words(&["HDEL", &readers_key(name), member, TOKENS[1]]),
        12 => words(&[random.pick(&["HGET", "HDEL"]), &key, member]),
        _ => words(&["PEXPIREAT", &key, random.pick(&["9999999999999", "8888888888888", "x", "-1"])]),
    }
}

/// A script of shared locks or slots as the link calls it.
pub(crate) fn shared_script(random: &mut Random) -> (Vec<Vec<u8>>, Varies) {
    // Two names and tokens, so that a hold is often met again.
    let (name, token) = (random.pick(&NAMES[..2]).to_owned(), random.pick(&TOKENS));
    let (fence, readers) = (fence_key(&name), readers_key(&name));
    let (ttl, number) = (ttl(random), random.pick(&FENCES));
    let taken = format!("quorlock:taken:{{{name}}}:{token}");
    let writer = format!("quorlock:writer:{{{name}}}");
    let channel = format!("quorlock:free:{{{name}}}");
    let label = "me@host 42 5";
    match random.below(16) {
        0..5 => {
            let purpose = random.pick(&["v", "v", "v", "r"]);
            let keys = [&name, &fence, &readers, &writer, &taken].map(String::as_str);
            call(random, SHARED[0], &keys, &[token, &ttl, "80", number, label, purpose])
        }
        5 | 6 => {
            let keys = [&name, &fence, &readers, &taken].map(String::as_str);
            call(random, SHARED[1], &keys, &[token, &ttl, "81", number, label])
        }
        7 | 8 => call(random, SHARED[2], &[&name, &readers], &[token, "82", &channel, number, "7"]),
        9 | 10 => {
            let most = random.pick(&["1", "100"]);
            call(random, SHARED[3], &[&name, &readers], &["83", most])
        }
        11 => {
            let slots = [0, 1, 2].map(|slot| format!("quorlock:slot:{name}:{slot}"));
            if random.chance(40) {
                return (words(&["SET", &slots[random.below(3)], "held", "PX", &ttl]), Varies::Nothing);
            }
            let record = format!("quorlock:slots:{{{name}}}");
            let keys = [&record, &slots[0], &slots[1], &slots[2]].map(String::as_str);
            let (count, replaces) = (random.pick(&["3", "4"]), random.pick(&["0", "1"]));
            call(random, SHARED[4], &keys, &["84", count, replaces])
        }
        12 | 13 => {
            let mode = random.pick(&["shared", "shared", "exclusive"]);
            call(random, EXTEND, &[&name, &fence, &taken, &readers], &[token, &ttl, "85", mode])
        }
        14 => call(random, STAMP, &[&name, &fence, &readers], &[token, number, "86"]),
        _ => match random.below(3) {
            0 => (words(&["SET", &writer, "1", "PX", "600000"]), Varies::Nothing),
            1 => (words(&["DEL", &writer]), Varies::Nothing),
            _ => {
                let stored = format!("{token} {number} {label}");
                let keys = [&name, &fence, &taken, &readers].map(String::as_str);
                call(random, REPAIR, &keys, &[&ttl, "87", &stored, number])
            }
        },
    }
}
