//! Calls to the members of an etcd cluster, over gRPC.
//!
//! # Layout
//! | module | job |
//! |---|---|
//! | `messages`, `calls`, `txn` | what is asked and answered |
//! | `errors` | why there is no answer |
//! | `channel` | one connection to one member |
//! | `members` | which member is used |
//! | `cluster` | whether all answers come from one cluster |
//! | `api` | one call, with the user's token |
//! | `batch` | many changes in one transaction |
//! | `member_checks` | which cluster each member in the address belongs to |

pub(crate) mod api;
pub(crate) mod batch;
pub(crate) mod calls;
pub(crate) mod channel;
pub(crate) mod cluster;
pub(crate) mod errors;
pub(crate) mod member_checks;
pub(crate) mod members;
pub(crate) mod messages;
pub(crate) mod txn;
