//! Bodies of requests to the sidecar: what is accepted is an object with known fields.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|body: &[u8]| quorlock_serve::fuzzing::check_body(body));
