//! The whole way once: servers, contestants, report.

use serde_json::Value;
use std::process::Command;

/// Goal: a short run reports every contestant that was asked for, with numbers.
#[test]
fn a_short_run_reports_every_contestant() {
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
    let rows = report["rows"].as_array().unwrap();
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
        .args(["--quick", "--seconds", "0.3", "--workloads", "W8,W9,W10", "--only", "quorlock"])
        .args(["--json".as_ref(), json.as_os_str()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2 * (1 + 3 + 3 + 2 + 2), "all cells, on one node and on five");
    for row in rows {
        assert!(row["acquire_p50_ms"].as_f64().unwrap() > 0.0, "{row}");
    }
}

/// Goal: handoffs without work are counted, and turns are compared between processes where there are several.
#[test]
fn a_short_run_reports_handoffs_and_turns_of_processes() {
    if Command::new("redis-server").arg("--version").output().is_err() {
        eprintln!("skipped: no redis-server here");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let json = directory.path().join("report.json");
    let output = Command::new(env!("CARGO_BIN_EXE_peers"))
        .args(["--quick", "--seconds", "0.5", "--workloads", "W7", "--only", "quorlock"])
        .args(["--json".as_ref(), json.as_os_str()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4, "one process and ten, on one node and on five");
    for row in rows {
        assert!(row["handoffs_per_s"].as_f64().unwrap() > 0.0, "{row}");
        let has_processes = row["processes"].as_u64().unwrap() > 1;
        assert!(has_processes || row["process_fairness"].is_null(), "{row}");
    }
}

/// Goal: one command writes both pages and their plots, and the same from the file that it wrote.
#[test]
fn the_pages_are_written_by_a_run_and_again_from_its_results() {
    if Command::new("redis-server").arg("--version").output().is_err() {
        eprintln!("skipped: no redis-server here");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let publish = |more: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_peers"))
            .args(["--publish", "--keep-others", "--into"])
            .arg(directory.path())
            .args(more)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(std::fs::read(directory.path().join("PERFORMANCE.md")).unwrap()).unwrap()
    };
    let only = ["--only", "quorlock,quorlock-plain,floor,floor-split", "--workloads", "W1,growth-label"];
    let page = publish(&[&["--quick", "--server", "system"], &only[..]].concat());
    for text in ["cost of fence and guard", "**quorlock**"] {
        assert!(page.contains(text), "no {text} in {page}");
    }
    assert!(!page.contains("{{") && page.lines().count() <= 140, "{page}");
    let growth = std::fs::read_to_string(directory.path().join("docs/performance-growth.md")).unwrap();
    assert!(growth.contains("plots/growth-label.svg"), "{growth}");
    assert!(directory.path().join("docs/plots/growth-label.svg").is_file());

    let results = directory.path().join("peers/results/published.json");
    let again = publish(&["--from-json", results.to_str().unwrap()]);
    assert_eq!(again, page);
}

#[test]
fn an_unknown_contestant_is_refused_with_the_names_of_all() {
    let output = Command::new(env!("CARGO_BIN_EXE_peers")).args(["--only", "nobody"]).output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("node-redlock"));
}
