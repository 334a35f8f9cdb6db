//! The folders of this crate: imports point one way, and none is too full.

use quorlock_testkit::layout;

/// Goal: a reader need not know the whole crate to change one folder of it.
#[test]
fn a_folder_uses_only_the_folders_above_it() {
    layout::assert_imports_point_one_way(&["main.rs", "commands/mod.rs"]);
}

#[test]
fn no_folder_has_too_many_files() {
    layout::assert_folders_are_small();
}
