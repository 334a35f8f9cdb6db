//! The whole way once: servers, contestants, report.

use serde_json::Value;
use std::process::Command;

/// Goal: a short run reports every contestant that was asked for, with numbers.
#[test]
fn a_short_run_reports_everybody() {
    if Command::new("redis-server").arg("--version").output().is_err() {
        eprintln!("skipped: no redis-server here");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let json = directory.path().join("report.json");
    let output = Command::new(env!("CARGO_BIN_EXE_peers"))
        .args(["--quick", "--seconds", "0.3", "--workloads", "W1,W3", "--only", "quorlock,floor"])
        .args(["--json".as_ref(), json.as_os_str(), "--plots".as_ref(), directory.path().as_os_str()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let report: Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    let rows = report.as_array().unwrap();
    assert_eq!(
        rows.len(),
        3 * 2 + 1,
        "three numbers of nodes with both, and the contended one with quorlock"
    );
    for row in rows {
        assert!(row["cycles_per_s"].as_f64().unwrap() > 0.0, "{row}");
        assert!(row["acquire_p99_ms"].as_f64() >= row["acquire_p50_ms"].as_f64(), "{row}");
    }
    assert!(directory.path().join("throughput-nodes.svg").is_file());
}

/// Goal: shared locks, sets of names and semaphores are measured. On a loaded machine a wait may end after the
/// time, and is measured all the same.
#[test]
fn a_short_run_reports_the_primitives() {
    if Command::new("redis-server").arg("--version").output().is_err() {
        eprintln!("skipped: no redis-server here");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let json = directory.path().join("report.json");
    let output = Command::new(env!("CARGO_BIN_EXE_peers"))
        .args(["--quick", "--seconds", "0.3", "--workloads", "W7,W8,W9", "--only", "quorlock"])
        .args(["--json".as_ref(), json.as_os_str()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    let rows = report.as_array().unwrap();
    assert_eq!(rows.len(), 2 * (1 + 3 + 3 + 2 + 2), "all cells, on one node and on five");
    for row in rows {
        assert!(row["acquire_p50_ms"].as_f64().unwrap() > 0.0, "{row}");
    }
}

#[test]
fn an_unknown_contestant_is_refused_with_the_names_of_all() {
    let output = Command::new(env!("CARGO_BIN_EXE_peers")).args(["--only", "nobody"]).output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("node-redlock"));
}
