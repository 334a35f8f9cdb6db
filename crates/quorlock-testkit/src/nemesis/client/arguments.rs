//! The command line of a client process.

use crate::simulator::InjectedBug;
use std::ffi::OsString;
use std::path::PathBuf;

/// What one client is to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ClientArguments {
    /// Unlike that of all other clients, even of those that died.
    pub(crate) id: String,
    pub(crate) seed: u64,
    /// Where the resource listens.
    pub(crate) resource: PathBuf,
    pub(crate) injected_bug: Option<InjectedBug>,
    pub(crate) workload: Workload,
    /// How many names are locked.
    pub(crate) names: usize,
    /// The nodes.
    pub(crate) urls: Vec<String>,
}

/// What a client does with locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Workload {
    /// All that the library can.
    All,
    /// What every lock library can: acquire, work, release.
    Plain,
}

impl Workload {
    fn name(self) -> &'static str {
        match self {
            Workload::All => "all",
            Workload::Plain => "plain",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        [Workload::All, Workload::Plain].into_iter().find(|workload| workload.name() == name)
    }
}

/// The first word of a client.
const CLIENT: &str = "client";

impl ClientArguments {
    pub(crate) fn to_words(&self) -> Vec<OsString> {
        let bug = self.injected_bug.map_or("-", InjectedBug::name);
        let mut words: Vec<OsString> =
            vec![CLIENT.into(), self.id.clone().into(), self.seed.to_string().into()];
        words.extend([self.resource.clone().into(), bug.into(), self.workload.name().into()]);
        words.push(self.names.to_string().into());
        words.extend(self.urls.iter().map(OsString::from));
        words
    }

    /// Reads the arguments of a program; `None` if they are not those of a client.
    pub(crate) fn parse(words: &[String]) -> Option<Self> {
        let [first, id, seed, resource, bug, workload, names, urls @ ..] = words else { return None };
        (first == CLIENT).then_some(())?;
        Some(Self {
            id: id.clone(),
            seed: seed.parse().ok()?,
            resource: resource.into(),
            injected_bug: if bug == "-" { None } else { Some(bug.parse().ok()?) },
            workload: Workload::parse(workload)?,
            names: names.parse().ok()?,
            urls: urls.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_as_they_were_written() {
        let (id, resource, urls) = ("1.0".to_owned(), "/r".into(), vec!["redis://a".to_owned()]);
        let injected_bug = Some(InjectedBug::LateDeadline);
        let workload = Workload::Plain;
        let arguments = ClientArguments { id, seed: 7, resource, injected_bug, workload, names: 3, urls };
        let words: Vec<String> =
            arguments.to_words().into_iter().map(|word| word.into_string().unwrap()).collect();
        assert_eq!(ClientArguments::parse(&words), Some(arguments));
    }
}
