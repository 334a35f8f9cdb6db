//! The check that imports point one way: a folder uses only the folders that its parent's `# Layout` lists
//! above it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A folder with more files is hard to take in at once.
const MAX_FILES: usize = 14;

/// Checks the crate in the working directory. Each of `documents` is a file with a `# Layout` section, as a
/// path below `src`; its list orders the folders next to it.
pub fn assert_imports_point_one_way(documents: &[&str]) {
    let mut wrong = Vec::new();
    for document in documents {
        let scope = Path::new(document).parent().unwrap_or(Path::new(""));
        let root = Path::new("src").join(scope);
        let order = documented_order(&Path::new("src").join(document));
        let listed: Vec<String> = order.keys().cloned().collect();
        assert_eq!(listed, folders(&root), "{document} lists every folder once");
        for (folder, position) in &order {
            for source in sources(&root.join(folder)) {
                let text = fs::read_to_string(&source).unwrap();
                let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
                let below = |used: &String| order.get(used).is_some_and(|other| other > position);
                let used = used_folders(code, scope).into_iter().filter(below);
                wrong.extend(used.map(|used| format!("{} uses `{used}`", source.display())));
            }
        }
    }
    assert!(wrong.is_empty(), "imports of folders listed below:\n{}", wrong.join("\n"));
}

/// Checks that no folder of the crate in the working directory is too full.
pub fn assert_folders_are_small() {
    for folder in sources(Path::new("src")).iter().filter_map(|source| source.parent()) {
        let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let count = files.filter(|path| is_source(path)).count();
        assert!(count <= MAX_FILES, "{} has {count} files", folder.display());
    }
}

fn documented_order(file: &Path) -> BTreeMap<String, usize> {
    let text = fs::read_to_string(file).unwrap();
    let layout = text.split("# Layout").nth(1).expect("the documentation has a layout");
    let listed = layout.lines().filter_map(|line| line.strip_prefix("//! - `")?.split_once("/`"));
    listed.enumerate().map(|(position, (folder, _))| (folder.to_owned(), position)).collect()
}

fn folders(root: &Path) -> Vec<String> {
    let paths = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    let names = paths.map(|path| path.file_name().unwrap().to_string_lossy().into_owned());
    sorted(names.filter(|name| name != "tests").collect())
}

/// All files of a folder and below it that are compiled into the crate.
fn sources(root: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let found = paths.flat_map(|path| match path.is_dir() {
        true if path.ends_with("tests") => Vec::new(),
        true => sources(&path),
        false => vec![path],
    });
    found.filter(|path| is_source(path)).collect()
}

fn is_source(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    name.ends_with(".rs") && !name.ends_with("tests.rs") && name != "contract.rs"
}

/// The folders below `scope` that `code` names by a path from the crate's root, without those in comments.
fn used_folders(code: &str, scope: &Path) -> Vec<String> {
    let scope = scope.iter().map(|part| format!("{}::", part.to_string_lossy())).collect::<String>();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code = lines.collect::<Vec<_>>().join("\n");
    let prefix = format!("crate::{scope}");
    let paths = code.split(&prefix).skip(1);
    let named = paths.flat_map(|path| match path.strip_prefix('{') {
        None => vec![first_word(path)],
        Some(group) => parts(group).into_iter().map(first_word).collect(),
    });
    sorted(named.filter(|name| name.starts_with(char::is_lowercase)).collect())
}

/// The parts of a group of imports, whose brace was opened before `group`.
fn parts(group: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, c) in group.char_indices() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        if depth < 0 || (c == ',' && depth == 0) {
            parts.push(&group[start..at]);
            start = at + 1;
        }
        if depth < 0 {
            break;
        }
    }
    parts
}

fn first_word(path: &str) -> String {
    path.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the check sees an import in whatever form it is written.
    #[test]
    fn an_import_is_found_in_every_form() {
        let (top, redis) = (Path::new(""), Path::new("node/redis"));
        let code = "use crate::hold::guard::Guard;\nuse crate::{locker::{a, b}, node};\nfn f() { crate::store::x() }";
        assert_eq!(used_folders(code, top), ["hold", "locker", "node", "store"]);
        let code = "use crate::node::redis::{admin::scan, link};\nuse crate::node::Reply;";
        assert_eq!(used_folders(code, redis), ["admin", "link"]);
        assert!(used_folders("// crate::hold is mentioned", top).is_empty());
    }
}
