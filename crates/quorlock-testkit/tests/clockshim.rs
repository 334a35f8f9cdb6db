//! Goal: a shimmed process sees exactly the clocks that the test sets, and no other process does.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use quorlock_testkit::{Binary, ClockShim, Server, until_blocking};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const HOUR: Duration = Duration::from_secs(3_600);

/// What a loaded machine may lose between two readings.
const SLACK: i128 = 10_000_000;

#[test]
fn the_wall_clock_of_a_real_server_jumps() {
    let shim = ClockShim::new();
    let server = Server::builder().clock(&shim).start();
    wall_jumps(&shim, &server);
}

#[test]
fn the_wall_clock_of_a_real_valkey_jumps() {
    if Binary::Valkey.is_here() {
        let shim = ClockShim::new();
        let options = Server::builder().binary(Binary::Valkey).clock(&shim);
        wall_jumps(&shim, &options.start());
    }
}

fn wall_jumps(shim: &ClockShim, server: &Server) {
    assert_near(server_time(server), own_time());
    server.cli(&["SET", "x", "1", "PX", "60000"]);
    shim.jump_wall(HOUR);
    shows(server, || own_time() + micros(HOUR));
    assert_eq!(server.cli(&["GET", "x"]), "", "the jump expires keys");
    shim.jump_wall_back(2 * HOUR);
    shows(server, || own_time() - micros(HOUR));
}

/// Waits, because Valkey looks at the wall clock at most once a millisecond.
fn shows(server: &Server, expected: impl Fn() -> i128) {
    until_blocking("the server sees the jump", Duration::from_secs(5), || {
        is_near(server_time(server), expected())
    });
}

#[test]
fn a_suspend_moves_wall_and_boot_clock_but_not_the_monotonic_one() {
    let shim = ClockShim::new();
    let mut clocks = Clocks::start(&shim);
    let [wall, boot, monotonic] = clocks.read();
    shim.suspend(HOUR);
    let later = clocks.read();
    assert_near(later[0], wall + micros(HOUR));
    assert_near(later[1], boot + micros(HOUR));
    assert_near(later[2], monotonic);
}

#[test]
fn a_wall_jump_leaves_the_boot_clock_alone() {
    let shim = ClockShim::new();
    let mut clocks = Clocks::start(&shim);
    let [wall, boot, _] = clocks.read();
    shim.jump_wall_back(HOUR);
    let later = clocks.read();
    assert_near(later[0], wall - micros(HOUR));
    assert_near(later[1], boot);
}

#[test]
fn drift_gains_time_and_keeps_what_it_gained() {
    let shim = ClockShim::new();
    let mut clocks = Clocks::start(&shim);
    let [_, boot, monotonic] = clocks.read();
    shim.drift(1_000_000_000);
    // Bounded work instead of a fixed sleep: at a thousandfold speed, a few readings pass a minute.
    let mut now = clocks.read();
    while now[1] - boot < 60_000_000 {
        now = clocks.read();
        assert!(now[2] - monotonic < SLACK, "{now:?}");
    }
    shim.drift(0);
    let stopped = clocks.read();
    let again = clocks.read();
    assert!(stopped[1] >= now[1]);
    let gained = |at: [i128; 3]| at[1] - at[2];
    assert!((gained(again) - gained(stopped)).abs() < 100_000);
}

/// The helper program, under the shim.
struct Clocks {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Clocks {
    fn start(shim: &ClockShim) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_show-clocks"))
            .envs(shim.env())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// Wall, boot and monotonic clock in microseconds.
    fn read(&mut self) -> [i128; 3] {
        writeln!(self.child.stdin.as_mut().unwrap()).unwrap();
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        let numbers: Vec<_> = line.split_whitespace().map(|n| n.parse().unwrap()).collect();
        numbers.try_into().unwrap()
    }
}

impl Drop for Clocks {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn server_time(server: &Server) -> i128 {
    let answer = server.cli(&["TIME"]);
    let (seconds, micros) = answer.split_once('\n').unwrap();
    seconds.parse::<i128>().unwrap() * 1_000_000 + micros.parse::<i128>().unwrap()
}

fn own_time() -> i128 {
    micros(SystemTime::now().duration_since(UNIX_EPOCH).unwrap())
}

fn micros(span: Duration) -> i128 {
    i128::try_from(span.as_micros()).unwrap()
}

#[track_caller]
fn assert_near(seen: i128, expected: i128) {
    assert!(is_near(seen, expected), "{seen} is not near {expected}");
}

fn is_near(seen: i128, expected: i128) -> bool {
    (seen - expected).abs() < SLACK
}
