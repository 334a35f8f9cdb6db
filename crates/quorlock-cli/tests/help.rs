//! Help texts as they are. After a change: `TRYCMD=overwrite cargo test -p quorlock-cli --test
//! help`, and read the diff.

#[test]
fn help_texts_are_as_written_down() {
    trycmd::TestCases::new().env("COLUMNS", "100").case("tests/help/*.trycmd");
}
