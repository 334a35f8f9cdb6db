//! Imports point one way: a folder uses only the folders that `lib.rs` lists above it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::path::{Path, PathBuf};

/// Goal: a change to one folder does not need knowledge of the folders below it in the list.
#[test]
fn a_folder_uses_only_the_folders_above_it() {
    let order = documented_order();
    let folders =
        fs::read_dir("src").unwrap().filter(|entry| entry.as_ref().unwrap().path().is_dir()).count();
    assert_eq!(order.len(), folders, "lib.rs lists every folder once");
    for (position, folder) in order.iter().enumerate() {
        for source in sources(&Path::new("src").join(folder)) {
            for used in used_folders(&fs::read_to_string(&source).unwrap()) {
                let is_above = order[..=position].contains(&used);
                assert!(is_above, "{} uses `{used}`, which is not above `{folder}`", source.display());
            }
        }
    }
}

/// Goal: the check sees every form of an import.
#[test]
fn an_import_is_found_in_every_form() {
    let code = "use crate::api::state::AppState;\n// crate::http is mentioned\nfn f() { crate::auth::x() }";
    assert_eq!(used_folders(code), ["api", "auth"]);
    assert_eq!(used_folders("use crate::{auth, http};"), [""], "a group is no folder, so it is refused");
}

/// The folders in the order of the `# Layout` section.
fn documented_order() -> Vec<String> {
    let text = fs::read_to_string("src/lib.rs").unwrap();
    let layout = text.split("# Layout").nth(1).expect("the documentation has a layout");
    let listed = layout.lines().filter_map(|line| line.strip_prefix("//! - `")?.split_once("/`"));
    listed.map(|(folder, _)| folder.to_owned()).collect()
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}

/// The folders that `code`, without comments and tests, names by a path from the crate's root.
fn used_folders(code: &str) -> Vec<String> {
    let code = code.split("\nmod tests {").next().unwrap_or_default();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let paths = lines.flat_map(|line| line.split("crate::").skip(1));
    paths.map(|path| path.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()).collect()
}
