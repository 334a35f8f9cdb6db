//! Nodes that are down: two of five change nothing, three end it.

use crate::harness::Home;
use quorlock_testkit::Servers;
use serde_json::Value;

#[test]
fn two_of_five_nodes_may_be_down() {
    let mut servers = Servers::start(5);
    let home = Home::on(&servers);
    servers[1].kill();
    servers[3].kill();
    let taken = home.run(&["acquire", "job", "--json"]).exits(0).json();
    assert_eq!((&taken["votes"], &taken["nodes"]), (&3.into(), &5.into()));
    let token = taken["token"].as_str().unwrap();
    home.run(&["extend", "job", "--token", token]).exits(0);

    let text = home.run(&["status", "job"]).text();
    assert!(text.contains("3/5"), "{text}");
    let count = |word: &str| text.lines().filter(|line| line.contains(word)).count();
    assert_eq!((count("holds it"), count("no answer")), (3, 2), "{text}");
    let seen = home.run(&["status", "job", "--json"]).json();
    let states: Vec<&Value> =
        seen["per_node"].as_array().unwrap().iter().map(|node| &node["state"]).collect();
    assert_eq!(states, ["holds", "failed", "holds", "failed", "holds"]);
    assert_eq!(seen["per_node"][1]["kind"], "unreachable");
    assert!(home.run(&["status"]).text().contains("job"));

    home.run(&["release", "job", "--token", token]).exits(0);
    let token = home.run(&["acquire", "job", "-n"]).text();
    home.run(&["force-release", "job", "--token", &token, "--yes"]).exits(0);
    home.run(&["acquire", "job", "-n"]).exits(0);
}

#[test]
fn without_a_majority_nothing_can_be_said() {
    let mut servers = Servers::start(5);
    let home = Home::on(&servers);
    let token = home.run(&["acquire", "job"]).text();
    for server in &mut servers[..3] {
        server.kill();
    }
    let token = token.as_str();
    let table: [&[&str]; 6] = [
        &["acquire", "job", "-n"],
        &["extend", "job", "--token", token],
        &["release", "job", "--token", token],
        &["status", "job"],
        &["status"],
        &["force-release", "job", "--token", token, "--yes"],
    ];
    for args in table {
        let failed = home.run(args).exits(69);
        failed.complains(&["127.0.0.1:", "help:"]);
        let error = home.run(&[args, &["--json"]].concat()).exits(69).json();
        assert_eq!(error["error"]["exit_code"], 69, "{args:?}");
        let nodes = error["error"]["nodes"].as_array().unwrap();
        assert!(nodes.iter().any(|node| node["said"] == "failed"), "{error}");
    }
}
