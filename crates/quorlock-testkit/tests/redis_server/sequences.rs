//! Random sequences of the commands that quorlock sends, and of some that it does not.

use crate::pair::{Pair, Varies};
use crate::resp::encode;
use crate::shared_sequences::{member_command, shared_script};
use std::thread::sleep;
use std::time::Duration;

const SCRIPTS: [&str; 8] = [
    include_str!("../../../quorlock/src/node/redis/protocol/lua/release.lua"),
    include_str!("../../../quorlock/src/node/redis/protocol/lua/extend.lua"),
    include_str!("../../../quorlock/src/node/redis/protocol/lua/stamp.lua"),
    include_str!("../../../quorlock/src/node/redis/protocol/lua/repair.lua"),
    include_str!("../../../quorlock/src/node/redis/protocol/lua/hint.lua"),
    include_str!("../../../quorlock/src/node/redis/protocol/lua/verify.lua"),
    include_str!("../../../quorlock/src/node/redis/protocol/lua/init.lua"),
    include_str!("../../../quorlock/src/node/redis/protocol/lua/raise.lua"),
];

pub(crate) const EXTEND: &str = SCRIPTS[1];
pub(crate) const STAMP: &str = SCRIPTS[2];
pub(crate) const REPAIR: &str = SCRIPTS[3];

/// Scripts that show how values, errors and globals behave.
const ODD_SCRIPTS: [&str; 30] = [
    "return redis.call('GET', KEYS[1])",
    "return redis.pcall('GET', KEYS[1])",
    "\n\nreturn redis.call('ZSCORE', KEYS[1], 'f')",
    "return {1, 2.7, -2.7, 'a', nil, 3}",
    "return {true, false, {ok = 'fine'}, {err = 'BAD news'}}",
    "x = 1",
    "return x",
    "redis.x = 1",
    "local t = 1 + nil",
    "\nerror('raised')",
    "error({err = 'MINE raised'})",
    "return redis.error_reply('NOEPOCH')",
    "return redis.error_reply('MY word')",
    "return redis.error_reply('-MY word')",
    "return redis.status_reply('fine')",
    "return redis.status_reply(1)",
    "return redis.call('nope', 'a')",
    "return redis.call('GET')",
    "return redis.pcall('GET')",
    "return redis.call('SUBSCRIBE', 'a')",
    "return redis.call()",
    "return redis.pcall({})",
    "return {pcall(redis.call, 'GET', KEYS[1])}",
    "return redis.sha1hex(KEYS[1])",
    "redis.call('SET', KEYS[1], 1.5) return redis.call('GET', KEYS[1])",
    "redis.call('SET', KEYS[1], 12345678901234567) return redis.call('GET', KEYS[1])",
    "return {redis.call('SET', KEYS[1], 'v', 'NX'), redis.call('EXISTS', KEYS[1]), redis.call('TYPE', KEYS[1])}",
    "redis.call('SELECT', 1) return redis.call('EXISTS', KEYS[1])",
    "return redis.call('PUBLISH', 'quorlock:free:{a}', 'from a script')",
    "return tostring(1763240000000000) .. string.format('%.0f', 1763240000000000)",
];

pub(crate) const NAMES: [&str; 4] = ["a", "b", "job 1", "list"];
pub(crate) const TOKENS: [&str; 3] = [
    "00112233445566778899aabbccddeeff",
    "ffeeddccbbaa99887766554433221100",
    "0123456789abcdef0123456789abcdef",
];
pub(crate) const FENCES: [&str; 6] =
    ["0", "7", "1763240000000000", "1763240000000001", "9007199254740991", "12"];

/// SplitMix64.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % end as u64).unwrap()
    }

    pub(crate) fn pick<'a>(&mut self, items: &[&'a str]) -> &'a str {
        items[self.below(items.len())]
    }

    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// Runs one sequence on both servers.
pub(crate) fn run(pair: &mut Pair, seed: u64) {
    let mut random = Random(seed);
    pair.reset();
    for _ in 0..2 {
        let link = pair.connect();
        let protocol = if random.chance(70) { "3" } else { "2" };
        pair.exchange(link, &[&encode(&words(&["HELLO", protocol]))], Varies::Id);
    }
    for _ in 0..60 {
        step(pair, &mut random);
    }
    pair.assert_nothing_more();
}

fn step(pair: &mut Pair, random: &mut Random) {
    let link = random.below(2);
    match random.below(20) {
        // A key whose time ends: no command sees it close to its end.
        0 if random.chance(30) => {
            let name = random.pick(&NAMES).to_owned();
            pair.same(link, &["SET", &name, "short", "PX", "5"]);
            sleep(Duration::from_millis(12));
            pair.same(1 - link, &["GET", &name]);
        }
        1..4 => {
            let commands: Vec<_> = (0..2 + random.below(4)).map(|_| encode(&plain(random))).collect();
            pair.exchange(link, &[&commands.concat()], Varies::Nothing);
        }
        4 => {
            let bytes = encode(&plain(random));
            let (start, end) = bytes.split_at(random.below(bytes.len()));
            let (start, middle) = start.split_at(random.below(start.len() + 1));
            pair.exchange(link, &[start, middle, end], Varies::Nothing);
        }
        5..7 => {
            let (command, varies) = special(random);
            pair.exchange(link, &[&encode(&command)], varies);
        }
        7..10 => {
            let (command, varies) = shared_script(random);
            pair.exchange(link, &[&encode(&command)], varies);
        }
        10..14 => {
            let (command, varies) = script(random);
            pair.exchange(link, &[&encode(&command)], varies);
        }
        _ => pair.exchange(link, &[&encode(&plain(random))], Varies::Nothing),
    }
}

pub(crate) fn words(words: &[&str]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

fn value(random: &mut Random) -> String {
    match random.below(4) {
        0 => random.pick(&["", "1", "-5", "text", "9223372036854775807", "two\r\nlines", "1.5"]).to_owned(),
        _ => format!("{} {} me@host 42 1763240000000000 why", random.pick(&TOKENS), random.pick(&FENCES)),
    }
}

pub(crate) fn fence_key(name: &str) -> String {
    format!("quorlock:fence:{{{name}}}")
}

pub(crate) fn readers_key(name: &str) -> String {
    format!("quorlock:readers:{{{name}}}")
}

/// No two are close, so that no comparison of expiries depends on the moment.
pub(crate) fn ttl(random: &mut Random) -> String {
    (60_000 + random.below(1_000) * 977).to_string()
}

/// A command whose answer is the same on every server.
fn plain(random: &mut Random) -> Vec<Vec<u8>> {
    let name = random.pick(&NAMES).to_owned();
    let fence = fence_key(random.pick(&NAMES));
    let channel = format!("quorlock:free:{{{}}}", random.pick(&NAMES));
    let (value, ttl) = (value(random), ttl(random));
    let number = random.pick(&FENCES);
    let score = random.pick(&[
        "1",
        "1.5",
        "-3",
        "1763240000000000",
        "inf",
        "0.1",
        "1e21",
        "x",
        "nan",
        "123456789012345678",
    ]);
    let bad_number = random.pick(&["x", "", "0", "-1", "9223372036854775807", "01", "1.0"]);
    match random.below(60) {
        52..59 => member_command(random, &name, &fence),
        0..6 => words(&["SET", &name, &value, "NX", "PX", &ttl]),
        6..9 => words(&["ZADD", &fence, "GT", "CH", number, "f"]),
        9 => words(&["SET", &name, &value]),
        10 => words(&["set", &name, &value, "xx", "keepttl"]),
        11 => words(&["SET", &name, &value, "GET"]),
        12 => words(&["SET", &name, &value, "NX", "GET", "EX", "100"]),
        13 => words(&["SET", &name, &value, random.pick(&["PX", "EX"]), bad_number]),
        14 => words(&[
            "SET",
            &name,
            &value,
            random.pick(&["NX", "XX", "PX", "KEEPTTL"]),
            random.pick(&["NX", "XX", "FOO", "KEEPTTL"]),
        ]),
        15..18 => words(&["GET", &name]),
        18 => words(&[
            "GETRANGE",
            &name,
            random.pick(&["0", "33", "-4", "-90", "x"]),
            random.pick(&["4095", "-1", "2", "-50"]),
        ]),
        19 => words(&["GETRANGE", &fence, "0", "-1"]),
        20 | 21 => words(&["DEL", &name, "nothing"]),
        22 => words(&["EXISTS", &name, &fence, "quorlock:waiting", &name]),
        23 => words(&["SET", "quorlock:waiting", "1", "PX", "600000"]),
        24 => words(&["PEXPIRE", &name, &ttl, random.pick(&["NX", "XX", "GT", "LT", "FOO"])]),
        25 => words(&["PEXPIRE", &name, &ttl]),
        26 => words(&["EXPIRE", &fence, "604800"]),
        27 => words(&[random.pick(&["EXPIRE", "PEXPIRE"]), &name, bad_number]),
        28 => words(&["PEXPIRE", &name, &ttl, random.pick(&["NX", "GT"]), random.pick(&["LT", "XX"])]),
        29 => words(&["ZADD", &fence, random.pick(&["NX", "XX", "GT", "LT", "CH", "INCR"]), score, "f"]),
        30 => words(&[
            "ZADD",
            &fence,
            random.pick(&["NX", "XX", "GT"]),
            random.pick(&["LT", "XX", "CH", "INCR"]),
            score,
            "f",
            "2",
            "g",
        ]),
        31 => words(&["ZADD", &name, "1", "f", "2"]),
        32 | 33 => words(&["ZSCORE", &fence, random.pick(&["f", "f", "g"])]),
        34 => words(&["ZSCORE", &name, "f"]),
        35 => words(&["SUBSCRIBE", &channel]),
        36 => words(&["UNSUBSCRIBE", &channel]),
        37 => words(&["PUBLISH", &channel, &value]),
        38 => words(&["PUBSUB", "NUMSUB", &channel, "other"]),
        39 => words(&["SELECT", random.pick(&["0", "0", "1", "16", "-1", "x"])]),
        40 => words(&["TYPE", &name]),
        41 => words(&["LPUSH", "list", "x", "y"]),
        42 => words(&[random.pick(&["HSET", "SADD", "LPUSH"]), &name, "x", "y"]),
        43 => words(&["INCR", &name]),
        44 => words(&["APPEND", &name, "more"]),
        45 => words(&["DELIFEQ", &name, &value]),
        46 => words(&["DELEX", &name, "IFEQ", &value]),
        47 => words(&["SCRIPT", "EXISTS", &hash(SCRIPTS[0]), &hash(SCRIPTS[1]), "none"]),
        48 => words(&["SCRIPT", "LOAD", random.pick(&SCRIPTS)]),
        49 => words(&["SCRIPT", random.pick(&["FLUSH", "LOAD", "NONE"])]),
        50 => malformed(random),
        _ => words(&["PING"]),
    }
}

/// A command that every server refuses, or that changes only the connection.
fn malformed(random: &mut Random) -> Vec<Vec<u8>> {
    let all: [&[&str]; 25] = [
        &["GET"],
        &["get", "a", "b"],
        &["NONE", "with", "words"],
        &["none"],
        &["SET", "a"],
        &["ZADD", "z", "1"],
        &["CLIENT"],
        &["CLIENT", "NONE"],
        &["CLIENT", "SETNAME", "quorlock"],
        &["CLIENT", "SETNAME", "two words"],
        &["CLIENT", "GETNAME"],
        &["CLIENT", "KILL", "ID", "9223372036854775807"],
        &["CLIENT", "KILL", "ID", "0"],
        &["CLIENT", "NO-EVICT", "on"],
        &["CONFIG", "GET"],
        &["COMMAND", "INFO", "DELEX", "DELIFEQ", "none", "get"],
        &["ACL", "WHOAMI"],
        &["AUTH", "secret"],
        &["AUTH", "nobody", "secret"],
        &["PUBSUB", "NONE"],
        &["ECHO", "said"],
        &["PING", "a", "b"],
        &["EVALSHA", "ffffffffffffffffffffffffffffffffffffffff", "0"],
        &["EVAL", "return 1", "2", "a"],
        &["EVAL", "return +", "0"],
    ];
    words(all[random.below(all.len())])
}

/// A command whose answer differs in a known way.
fn special(random: &mut Random) -> (Vec<Vec<u8>>, Varies) {
    let name = random.pick(&NAMES).to_owned();
    match random.below(11) {
        10 => (words(&["CONFIG", "GET", "*appendfsync*"]), Varies::Pairs),
        0 | 1 => (words(&["PTTL", &name]), Varies::Time),
        2 => (words(&["TTL", &fence_key(&name)]), Varies::Time),
        3 => (words(&["TIME"]), Varies::Time),
        4 => (
            words(&["SCAN", "0", "MATCH", "quorlock:fence:{*}", "COUNT", "500", "TYPE", "zset"]),
            Varies::Order,
        ),
        5 => (words(&["SCAN", "0", "COUNT", "500"]), Varies::Order),
        6 => (words(&["HELLO", random.pick(&["2", "3", "3", "4", "x"])]), Varies::Id),
        7 => (words(&["INFO"]), Varies::Info),
        8 => (words(&["INFO", random.pick(&["server", "replication", "persistence", "none"])]), Varies::Info),
        _ => (words(&["CLIENT", "ID"]), Varies::Id),
    }
}

/// A script as the link calls it.
fn script(random: &mut Random) -> (Vec<Vec<u8>>, Varies) {
    let name = random.pick(&NAMES).to_owned();
    let (fence, token) = (fence_key(&name), random.pick(&TOKENS));
    let (ttl, number) = (ttl(random), random.pick(&FENCES));
    let taken = format!("quorlock:taken:{{{name}}}:{token}");
    let (epoch, nonce) = ("quorlock:epoch", "0123456789abcdef0123456789abcdef");
    let stored = format!("{token} {number} me@host 42 5");
    match random.below(11) {
        0..3 => release(random),
        3 => call(random, SCRIPTS[1], &[&name, &fence, &taken], &[token, &ttl, "77"]),
        4 => call(random, SCRIPTS[2], &[&name, &fence, &readers_key(&name)], &[token, number, "78"]),
        5 => {
            let readers = readers_key(&name);
            call(random, SCRIPTS[3], &[&name, &fence, &taken, &readers], &[&ttl, "79", &stored, number])
        }
        6 => call(random, SCRIPTS[4], &[], &[&format!("quorlock:free:{{{name}}}"), token]),
        7 => {
            let (recorded, to_begin) =
                (random.pick(&["0", "5000", "9000"]), random.pick(&["0", "-", "6000"]));
            let synced = random.pick(&["0", "1", "-"]);
            let arguments = [recorded, to_begin, nonce, synced, "0", random.pick(&["0", "0", "1"]), "200"];
            (call(random, SCRIPTS[5], &[epoch], &arguments).0, Varies::Epoch)
        }
        8 => match random.below(3) {
            0 => (call(random, SCRIPTS[6], &[epoch], &["5000", nonce, "0", "n"]).0, Varies::Epoch),
            1 => (call(random, SCRIPTS[7], &[epoch], &["7000", "5000", "200"]).0, Varies::Epoch),
            _ => (words(&["GETRANGE", epoch, random.pick(&["0", "44"]), "-1"]), Varies::Epoch),
        },
        _ => {
            let key = random.pick(&["a", "list", "quorlock:fence:{a}"]);
            let script = random.pick(&ODD_SCRIPTS);
            (words(&["EVAL", script, "1", key]), Varies::Nothing)
        }
    }
}

/// A release of several names, with marks.
fn release(random: &mut Random) -> (Vec<Vec<u8>>, Varies) {
    let (mut names, mut marked, mut arguments) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..1 + random.below(3) {
        let (name, token) = (random.pick(&NAMES), random.pick(&TOKENS));
        let marks = random.pick(&["", "", "s", "s", "+", "-", "!", "+-", "+-s", "+-!", "+-s!"]);
        if marks.contains('+') {
            marked.push(fence_key(name));
        }
        if marks.contains('s') {
            marked.push(readers_key(name));
        }
        if marks.contains('!') {
            marked.extend([format!("quorlock:taken:{{{name}}}:{token}"), "quorlock:epoch".to_owned()]);
        }
        names.push(name.to_owned());
        arguments.push(format!("{token}{marks}"));
    }
    let keys: Vec<String> =
        std::iter::once("quorlock:waiting".to_owned()).chain(names).chain(marked).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    call(random, SCRIPTS[0], &keys, &arguments)
}

/// By its hash, which the server may not know, or whole.
pub(crate) fn call(
    random: &mut Random,
    script: &str,
    keys: &[&str],
    arguments: &[&str],
) -> (Vec<Vec<u8>>, Varies) {
    let (hash, count) = (hash(script), keys.len().to_string());
    let head = if random.chance(50) { ["EVAL", script] } else { ["EVALSHA", hash.as_str()] };
    let command = [&head[..], &[count.as_str()], keys, arguments].concat();
    (words(&command), Varies::Nothing)
}

fn hash(script: &str) -> String {
    sha1_smol::Sha1::from(script).hexdigest()
}
