//! The names that one hold covers: one, or several that are held together.

use crate::name::Name;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// One name, or up to 16 different ones in the order of their text. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "OneOrMany", into = "OneOrMany")]
pub struct NameSet(Names);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Names {
    One(Name),
    Many(Arc<[Name]>),
}

/// As data: a text, or a list of texts.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(Name),
    Many(Vec<Name>),
}

impl NameSet {
    /// The most names that one hold covers.
    pub const MAX: usize = 16;

    /// The set of these names, in any order.
    ///
    /// # Errors
    /// [`NameSetError`] if there is none, if there are over [`NameSet::MAX`], or if one is given twice.
    pub fn new(names: impl IntoIterator<Item = Name>) -> Result<Self, NameSetError> {
        let mut names: Vec<Name> = names.into_iter().collect();
        if names.len() > Self::MAX {
            return Err(NameSetError::TooMany { names: names.len() });
        }
        names.sort();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(NameSetError::Twice { name: pair[0].clone() });
        }
        match names.len() {
            0 => Err(NameSetError::Empty),
            1 => Ok(Self(Names::One(names.remove(0)))),
            _ => Ok(Self(Names::Many(names.into()))),
        }
    }

    /// The names in the order of their text.
    #[inline]
    pub fn as_slice(&self) -> &[Name] {
        match &self.0 {
            Names::One(name) => std::slice::from_ref(name),
            Names::Many(names) => names,
        }
    }

    /// The first name: the only one, if there is one.
    #[inline]
    pub fn first(&self) -> &Name {
        &self.as_slice()[0]
    }

    /// The names in the order of their text.
    #[inline]
    pub fn iter(&self) -> std::slice::Iter<'_, Name> {
        self.as_slice().iter()
    }

    /// Whether it is one name.
    #[inline]
    pub fn is_single(&self) -> bool {
        matches!(self.0, Names::One(_))
    }
}

impl<'a> IntoIterator for &'a NameSet {
    type Item = &'a Name;
    type IntoIter = std::slice::Iter<'a, Name>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl From<Name> for NameSet {
    fn from(name: Name) -> Self {
        Self(Names::One(name))
    }
}

impl PartialEq<Name> for NameSet {
    fn eq(&self, other: &Name) -> bool {
        matches!(&self.0, Names::One(name) if name == other)
    }
}

impl PartialEq<str> for NameSet {
    fn eq(&self, other: &str) -> bool {
        matches!(&self.0, Names::One(name) if name.as_str() == other)
    }
}

impl fmt::Display for NameSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, name) in self.iter().enumerate() {
            if at > 0 {
                f.write_str(", ")?;
            }
            f.write_str(name.as_str())?;
        }
        Ok(())
    }
}

impl TryFrom<OneOrMany> for NameSet {
    type Error = NameSetError;

    fn try_from(names: OneOrMany) -> Result<Self, NameSetError> {
        match names {
            OneOrMany::One(name) => Ok(name.into()),
            OneOrMany::Many(names) => Self::new(names),
        }
    }
}

impl From<NameSet> for OneOrMany {
    fn from(names: NameSet) -> Self {
        match names.0 {
            Names::One(name) => OneOrMany::One(name),
            Names::Many(names) => OneOrMany::Many(names.to_vec()),
        }
    }
}

/// Why names cannot be held together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameSetError {
    /// There is none.
    #[error("no names were given; give 1 to {}", NameSet::MAX)]
    Empty,
    /// There are too many.
    #[error("{names} names were given; one hold covers at most {}", NameSet::MAX)]
    TooMany {
        /// How many.
        names: usize,
    },
    /// One is given twice.
    #[error("the name `{name}` is given twice; give each name once")]
    Twice {
        /// Which one.
        name: Name,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> Result<NameSet, NameSetError> {
        NameSet::new(names.iter().map(|name| Name::new(name).unwrap()))
    }

    #[test]
    fn names_are_sorted_and_shown() {
        let names = set(&["b", "a", "c"]).unwrap();
        assert_eq!(names.to_string(), "a, b, c");
        assert_eq!(names.first().as_str(), "a");
        assert!(!names.is_single());
        let one = set(&["a"]).unwrap();
        assert!(one.is_single() && one == *"a" && one == Name::new("a").unwrap());
    }

    #[test]
    fn none_too_many_and_the_same_name_twice_are_refused() {
        assert_eq!(set(&[]), Err(NameSetError::Empty));
        assert_eq!(set(&["a", "b", "a"]), Err(NameSetError::Twice { name: Name::new("a").unwrap() }));
        let many: Vec<String> = (0..17).map(|number| number.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(set(&many), Err(NameSetError::TooMany { names: 17 }));
        assert!(set(&many[..16]).is_ok());
    }

    #[test]
    fn as_data_one_name_is_a_text_and_several_are_a_list() {
        for (names, json) in [(&["a"][..], r#""a""#), (&["b", "a"], r#"["a","b"]"#)] {
            let names = set(names).unwrap();
            assert_eq!(serde_json::to_string(&names).unwrap(), json);
            assert_eq!(serde_json::from_str::<NameSet>(json).unwrap(), names);
        }
        assert!(serde_json::from_str::<NameSet>(r#"["a","a"]"#).is_err());
    }
}
