//! Imports point one way: a folder uses only the folders that its parent's documentation lists above it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Each module that documents an order of its folders, with the file that does.
const LAYOUTS: [(&str, &str); 2] = [("", "src/lib.rs"), ("node/redis", "src/node/redis/mod.rs")];

/// Goal: nobody has to know the whole crate to change one folder of it.
#[test]
fn a_folder_uses_only_the_folders_above_it() {
    let mut wrong = Vec::new();
    for (scope, file) in LAYOUTS {
        let order = documented_order(file);
        let root = Path::new("src").join(scope);
        assert_eq!(sorted(order.keys().cloned().collect()), folders(&root), "{file} lists every folder once");
        for source in sources(&root) {
            let Some(from) = folder_of(&source, &root) else { continue };
            for to in imports(&source, scope) {
                if order.get(&to).is_some_and(|position| *position > order[&from]) {
                    wrong.push(format!("{} uses `{to}`, which is below `{from}`", source.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "upward imports:\n{}", wrong.join("\n"));
}

/// Goal: the check itself sees an upward import.
#[test]
fn an_upward_import_is_found_in_every_form() {
    let text =
        "use crate::hold::guard::Guard;\nuse crate::{locker, node};\nfn f() { crate::store::fenced::x() }";
    assert_eq!(imported(text, ""), ["hold", "locker", "node", "store"]);
    let text = "use crate::node::redis::{admin::scan, link};\nuse crate::node::Reply;";
    assert_eq!(imported(text, "node/redis"), ["admin", "link"]);
    assert!(imported("// crate::hold is mentioned", "").is_empty());
}

/// The folders in the order of the `# Layout` section.
fn documented_order(file: &str) -> BTreeMap<String, usize> {
    let text = fs::read_to_string(file).unwrap();
    let layout = text.split("# Layout").nth(1).expect("the documentation has a layout");
    let listed = layout.lines().filter_map(|line| line.strip_prefix("//! - `")?.split_once("/`"));
    listed.enumerate().map(|(position, (folder, _))| (folder.to_owned(), position)).collect()
}

fn folders(root: &Path) -> Vec<String> {
    let entries = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let folders = entries.filter(|path| path.is_dir() && path.file_name().unwrap() != "tests");
    sorted(folders.map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect())
}

fn sources(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" {
            found.extend(sources(&path));
        } else if name.ends_with(".rs") && !name.ends_with("tests.rs") && name != "contract.rs" {
            found.push(path);
        }
    }
    found
}

/// The folder below `root` that a file lies in; `None` for files of `root` itself, which may use everything.
fn folder_of(source: &Path, root: &Path) -> Option<String> {
    let inner = source.strip_prefix(root).unwrap();
    (inner.components().count() > 1)
        .then(|| inner.components().next().unwrap().as_os_str().to_string_lossy().into_owned())
}

fn imports(source: &Path, scope: &str) -> Vec<String> {
    let text = fs::read_to_string(source).unwrap();
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    imported(code, scope)
}

/// The folders below `scope` that `code` names by a path from the crate's root, without those in comments.
fn imported(code: &str, scope: &str) -> Vec<String> {
    let prefix: String = ["crate"]
        .into_iter()
        .chain(scope.split('/').filter(|part| !part.is_empty()))
        .fold(String::new(), |path, part| path + part + "::");
    let code: String = code
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .fold(String::new(), |code, line| code + line + "\n");
    let mut found = Vec::new();
    for (at, _) in code.match_indices(&prefix) {
        let rest = &code[at + prefix.len()..];
        match rest.strip_prefix('{') {
            None => found.push(word(rest)),
            Some(group) => {
                let group = &group[..closing(group)];
                found.extend(top_level(group).into_iter().map(word));
            }
        }
    }
    sorted(found.into_iter().filter(|name| name.starts_with(char::is_lowercase)).collect())
}

fn word(text: &str) -> String {
    text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// Where the brace ends that was opened before `text`.
fn closing(text: &str) -> usize {
    let mut depth = 1;
    for (at, c) in text.char_indices() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

/// The parts of a group of imports, split at the commas outside of inner groups.
fn top_level(group: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, c) in group.char_indices() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        if c == ',' && depth == 0 {
            parts.push(&group[start..at]);
            start = at + 1;
        }
    }
    parts.push(&group[start..]);
    parts
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names.dedup();
    names
}
