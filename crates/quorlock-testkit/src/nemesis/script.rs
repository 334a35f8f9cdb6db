//! What a client process is told when it starts.

use crate::world::Plant;
use std::ffi::OsString;
use std::path::PathBuf;

/// The part of one client.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Script {
    /// Unlike that of all other clients, also of those that died.
    pub(super) id: String,
    pub(super) seed: u64,
    /// Where the resource listens.
    pub(super) resource: PathBuf,
    pub(super) plant: Option<Plant>,
    /// The nodes.
    pub(super) urls: Vec<String>,
}

/// The first word, which makes a program a client.
const CLIENT: &str = "client";

impl Script {
    pub(super) fn arguments(&self) -> Vec<OsString> {
        let plant = self.plant.map_or("-", Plant::name);
        let mut words: Vec<OsString> =
            vec![CLIENT.into(), self.id.clone().into(), self.seed.to_string().into()];
        words.extend([self.resource.clone().into(), plant.into()]);
        words.extend(self.urls.iter().map(OsString::from));
        words
    }

    /// Reads the arguments of a program; `None` if they make no client.
    pub(super) fn parse(words: &[String]) -> Option<Self> {
        let [first, id, seed, resource, plant, urls @ ..] = words else { return None };
        (first == CLIENT).then_some(())?;
        Some(Self {
            id: id.clone(),
            seed: seed.parse().ok()?,
            resource: resource.into(),
            plant: if plant == "-" { None } else { Some(plant.parse().ok()?) },
            urls: urls.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_read_as_it_was_written() {
        let (id, resource, urls) = ("1.0".to_owned(), "/r".into(), vec!["redis://a".to_owned()]);
        let script = Script { id, seed: 7, resource, plant: Some(Plant::LateDeadline), urls };
        let words: Vec<String> =
            script.arguments().into_iter().map(|word| word.into_string().unwrap()).collect();
        assert_eq!(Script::parse(&words), Some(script));
    }
}
