//! Prints `WALL_US BOOT_US MONOTONIC_US` for every line it reads, for the tests of the clock shim.

use rustix::time::{ClockId, clock_gettime};
use std::time::{SystemTime, UNIX_EPOCH};

fn main() {
    for _ in std::io::stdin().lines() {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let micros = |clock| {
            let time = clock_gettime(clock);
            time.tv_sec * 1_000_000 + time.tv_nsec / 1_000
        };
        let (boot, monotonic) = (micros(ClockId::Boottime), micros(ClockId::Monotonic));
        println!("{} {boot} {monotonic}", wall.as_micros());
    }
}
