//! Every branch of the selection guide.

use crate::home;
use crate::terminal::Terminal;

#[test]
fn every_branch_of_the_guide_names_an_engine_and_whether_it_is_ours() {
    let table = "
        engine            ours   flags
        file              true   --one-machine
        postgres          true   --postgres
        etcd              true   --strong-consistency --kubernetes
        zookeeper         true   --strong-consistency
        redlock           true   --performance --edge-cases-ok
        one_redis         true   --performance
        one_redis         true   --performance --edge-cases-ok=no
        kubernetes_lease  false  --kubernetes
        consul            true   --strong-consistency=no
        file              true   --one-machine=yes --strong-consistency";
    let home = home();
    for row in table.lines().skip(2) {
        let cells: Vec<&str> = row.split_whitespace().collect();
        let answer = home.run(&[&["choose", "--json"], &cells[2..]].concat()).exits(0).json();
        assert_eq!(answer["engine"], cells[0], "{row}");
        assert_eq!(answer["is_quorlock"].to_string(), cells[1], "{row}");
        for field in ["name", "why", "know"] {
            assert!(!answer[field].as_str().unwrap().is_empty(), "{row}: {field}");
        }
        assert!(!answer["begin"].as_array().unwrap().is_empty(), "{row}");
    }
}

#[test]
fn an_engine_of_ours_comes_with_nodes_that_this_build_accepts() {
    let home = home();
    for flags in [
        &["--one-machine"][..],
        &["--postgres"],
        &["--strong-consistency", "--kubernetes"],
        &["--strong-consistency"],
        &["--performance"],
        &["--performance", "--edge-cases-ok"],
        &["--performance=no"],
    ] {
        let answer = home.run(&[&["choose", "--json"], flags].concat()).exits(0).json();
        let lines = answer["begin"].as_array().unwrap().iter().map(|line| line.as_str().unwrap());
        let begin = lines.collect::<Vec<_>>().join(" ");
        let mut words = begin.split([' ', '\'']).map(|word| word.trim_start_matches("QUORLOCK_NODES="));
        let nodes = words.find(|word| word.contains("://") || *word == "file:").unwrap();
        let shown = home.run(&["config", "show", "--nodes", nodes]).text();
        assert!(!shown.contains("cannot be used"), "{shown}");
    }
}

#[test]
fn without_flags_and_terminal_it_says_how_to_answer() {
    let home = home();
    home.run(&["choose"]).exits(2).complains(&["no terminal", "--performance"]);
    let refused = home.run(&["choose", "--json"]).exits(2).json();
    assert_eq!(refused["error"]["kind"], "usage");
    home.run(&["choose", "--kubernetes=perhaps"]).exits(2);
}

#[test]
fn on_a_terminal_only_the_questions_that_matter_are_asked() {
    let home = home();
    let mut terminal = Terminal::open();
    let asking = terminal.start(&mut home.command(&["choose"]));
    for (question, answer) in [
        ("one machine?", "what\n"),
        ("one machine?", "no\n"),
        ("PostgreSQL database?", "no\n"),
        ("consensus decide", "n\n"),
        ("millisecond count?", "Y\n"),
        ("very rare", "yes\n"),
    ] {
        terminal.shows(question);
        terminal.types(answer);
    }
    let text = asking.end().text();
    assert!(text.starts_with("Redlock on 5 independent") && text.contains("QUORLOCK_NODES="), "{text}");
}
