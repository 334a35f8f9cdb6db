//! The example on real servers. `FIRST_LOCK` is another command to start it, such as wine with the
//! program for Windows.
#![allow(clippy::unwrap_used)]

use quorlock_testkit::{Etcd, Postgres, Servers};
use std::process::Command;

#[test]
fn it_locks_in_memory() {
    locks_on(&["memory:first".into()]);
}

#[test]
fn it_locks_on_five_redis_servers() {
    locks_on(&Servers::start(5).urls());
}

#[test]
fn it_locks_on_etcd() {
    if !Etcd::is_here() {
        return eprintln!("skipped: no etcd here: apt-get install etcd-server");
    }
    locks_on(&[Etcd::start(1).url()]);
}

#[test]
fn it_locks_on_postgresql() {
    if !Postgres::is_here() {
        return eprintln!("skipped: no PostgreSQL here: apt-get install postgresql");
    }
    locks_on(&[Postgres::start().url()]);
}

fn locks_on(nodes: &[String]) {
    let command = std::env::var("FIRST_LOCK").unwrap_or_else(|_| env!("CARGO_BIN_EXE_first-lock").into());
    let mut words = command.split(' ');
    let output = Command::new(words.next().unwrap()).args(words).args(nodes).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    let lines: Vec<&str> = out.lines().collect();
    let starts = ["held with fence ", "extended by ", "another client: lock `first` is held by ", "released"];
    assert_eq!(lines.len(), starts.len(), "{out}{err}");
    for (line, start) in lines.iter().zip(starts) {
        assert!(line.starts_with(start), "{out}{err}");
    }
}
