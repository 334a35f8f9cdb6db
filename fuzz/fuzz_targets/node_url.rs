//! Addresses of nodes: what is shown can be read again and means the same node.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quorlock::node::{NodeUrl, split_list};

fuzz_target!(|text: &str| {
    let Ok(url) = text.parse::<NodeUrl>() else {
        return;
    };
    let shown = url.to_string();
    assert_eq!(format!("{url:?}"), format!("NodeUrl({shown})"));
    let again: NodeUrl = shown.parse().unwrap_or_else(|error| panic!("{shown:?} of {text:?}: {error}"));
    assert!(!again.has_password(), "a password is shown");
    assert_eq!((again.kind(), again.identity()), (url.kind(), url.identity()), "{shown:?}");
    assert_eq!(again.to_string(), shown);
    let list = [shown.as_str(), shown.as_str()].join(",");
    assert!(shown.contains(',') || split_list(&list) == [shown.trim(), shown.trim()], "{list:?}");
});
