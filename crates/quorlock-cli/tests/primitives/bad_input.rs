//! Flags that cannot be used: exit code 2 and a message that says what is allowed.

use crate::harness::Home;

#[test]
fn mistakes_are_refused_with_exit_code_2_and_what_is_allowed() {
    let home = Home::new();
    let many: Vec<String> = (0..16).map(|number| format!("--also=n{number}")).collect();
    let mut seventeen = vec!["run", "x"];
    seventeen.extend(many.iter().map(String::as_str));
    seventeen.extend(["--", "true"]);
    let long = "n".repeat(491);
    let cases: &[(&[&str], &[&str])] = &[
        (&["run", "x", "--slots", "0", "--", "true"], &["0 is not in 1..=1024"]),
        (&["run", "x", "--slots", "1025", "--", "true"], &["1025 is not in 1..=1024"]),
        (&["run", "x", "--slots", "many", "--", "true"], &["--slots"]),
        (&["run", &long, "--slots", "2", "--", "true"], &["490 bytes"]),
        (
            &["run", "x", "--slots", "2", "--shared", "--", "true"],
            &["--slots", "--shared", "cannot be used with"],
        ),
        (
            &["run", "x", "--slots", "2", "--also", "y", "--", "true"],
            &["--slots", "--also", "cannot be used with"],
        ),
        (&["acquire", "x", "--slots", "2", "--also", "y"], &["cannot be used with"]),
        (&["release", "x", "--slot", "2", "--also", "y"], &["cannot be used with"]),
        (&["release", "x", "--slot", "1024"], &["1024 is not in 0..=1023"]),
        (&["status", "--slots", "2"], &["<NAME>"]),
        (&seventeen, &["17 names", "16"]),
        (&["run", "x", "--also", "x", "--", "true"], &["`x`", "twice"]),
        (&["run", "x", "--also", "quorlock:y", "--", "true"], &["reserved"]),
        (&["run", "x", "--also", "", "--", "true"], &["empty"]),
        (&["elect", "x"], &["no command was given", "quorlock elect x -- CMD"]),
        (&["elect", "--", "echo", "hi"], &["no lock name was given", "quorlock elect NAME -- echo hi"]),
        (&["elect", "x", "--value", "", "--", "true"], &["1 to 200 bytes"]),
        (&["elect", "x", "--value", "two\nlines", "--", "true"], &["printable"]),
        (&["elect", "x", "--kill-grace", "20s", "--", "true"], &["does not fit into a ttl"]),
        (&["leader", "quorlock:x"], &["reserved"]),
    ];
    for (args, words) in cases {
        let done = home.run(args).exits(2);
        for word in *words {
            assert!(done.err.contains(word), "{args:?}: `{word}` is not in {}", done.err);
        }
        assert_eq!(done.out, "", "{args:?}");
    }
}

#[test]
fn sixteen_names_are_not_too_many() {
    let home = Home::new();
    let many: Vec<String> = (1..16).map(|number| format!("--also=n{number}")).collect();
    let mut args = vec!["run", "x"];
    args.extend(many.iter().map(String::as_str));
    args.extend(["-c", "echo \"$QUORLOCK_NAMES\" | wc -l"]);
    assert_eq!(home.run(&args).text(), "16");
}
