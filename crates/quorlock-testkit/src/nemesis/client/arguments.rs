//! What a client process is lines when it starts.

use crate::world::InjectedBug;
use std::ffi::OsString;
use std::path::PathBuf;

/// The part of one client.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ClientArguments {
    /// Unlike that of all other clients, also of those that died.
    pub(crate) id: String,
    pub(crate) seed: u64,
    /// Where the resource listens.
    pub(crate) resource: PathBuf,
    pub(crate) injected_bug: Option<InjectedBug>,
    /// The nodes.
    pub(crate) urls: Vec<String>,
}

/// The first word, which makes a program a client.
const CLIENT: &str = "client";

impl ClientArguments {
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        let bug = self.injected_bug.map_or("-", InjectedBug::name);
        let mut words: Vec<OsString> =
            vec![CLIENT.into(), self.id.clone().into(), self.seed.to_string().into()];
        words.extend([self.resource.clone().into(), bug.into()]);
        words.extend(self.urls.iter().map(OsString::from));
        words
    }

    /// Reads the arguments of a program; `None` if they make no client.
    pub(crate) fn parse(words: &[String]) -> Option<Self> {
        let [first, id, seed, resource, bug, urls @ ..] = words else { return None };
        (first == CLIENT).then_some(())?;
        Some(Self {
            id: id.clone(),
            seed: seed.parse().ok()?,
            resource: resource.into(),
            bug: if bug == "-" { None } else { Some(bug.parse().ok()?) },
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
        let arguments = ClientArguments { id, seed: 7, resource, injected_bug: Some(InjectedBug::LateDeadline), urls };
        let words: Vec<String> =
            arguments.arguments().into_iter().map(|word| word.into_string().unwrap()).collect();
        assert_eq!(ClientArguments::parse(&words), Some(arguments));
    }
}
