//! What the dashboard shows, and its files.

pub(crate) mod assets;
pub(crate) mod banners;
pub(crate) mod history;
pub(crate) mod lock_list_cache;
pub(crate) mod node_facts_cache;
pub(crate) mod nodes;
