//! How a lock is held, as callers write and read it.

use quorlock::Mode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How a lock is held: by one client alone, or together with others that share it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Mode)]
pub(crate) enum ModeJson {
    #[default]
    Exclusive,
    Shared,
}

impl From<Mode> for ModeJson {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Exclusive => Self::Exclusive,
            Mode::Shared => Self::Shared,
        }
    }
}

impl From<ModeJson> for Mode {
    fn from(mode: ModeJson) -> Self {
        match mode {
            ModeJson::Exclusive => Self::Exclusive,
            ModeJson::Shared => Self::Shared,
        }
    }
}
