//! Replies of a server: a prefix never gives another reply than the whole.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| quorlock::fuzzing::check_reply_bytes(input));
