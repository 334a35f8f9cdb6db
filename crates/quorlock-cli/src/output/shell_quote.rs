//! Command lines that people can copy into a shell.

use crate::output::subject;
use quorlock::{Name, Token};
use std::borrow::Cow;

/// `quorlock VERB NAME`, with the slot, other names and the token if there are any. Flags that follow
/// the verb come after the name.
pub(crate) fn quorlock_command(verb: &str, names: &[Name], token: Option<Token>) -> String {
    let [first, others @ ..] = names else { return format!("quorlock {verb}") };
    let slot = subject::slot(first).map(|slot| format!(" --slot {slot}")).unwrap_or_default();
    let also: String = others.iter().map(|name| format!(" --also={}", quote(name.as_str()))).collect();
    let token = token.map(|token| format!(" --token {token}")).unwrap_or_default();
    let name = quote(subject::given_name(first));
    let (verb, flags) = verb.split_at(verb.find(' ').unwrap_or(verb.len()));
    if name.starts_with('-') {
        return format!("quorlock {verb}{flags}{slot}{also}{token} -- {name}");
    }
    format!("quorlock {verb} {name}{flags}{slot}{also}{token}")
}

/// `text` as one word of a shell.
fn quote(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+,=".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.into();
    }
    format!("'{}'", text.replace('\'', r"'\''")).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_reach_the_program_as_they_are() {
        let table = [
            ("invoice:42", "quorlock status invoice:42"),
            ("two words", "quorlock status 'two words'"),
            ("it's $HOME", r"quorlock status 'it'\''s $HOME'"),
            ("-n", "quorlock status -- -n"),
        ];
        for (name, shown) in table {
            assert_eq!(quorlock_command("status", &[Name::new(name).unwrap()], None), shown);
        }
    }

    #[test]
    fn a_token_comes_before_the_end_of_options() {
        let token = Token::from_random([0xab; 16]);
        let shown = quorlock_command("release", &[Name::new("-x").unwrap()], Some(token));
        assert_eq!(shown, format!("quorlock release --token {token} -- -x"));
    }

    #[test]
    fn slots_and_several_names_are_given_as_options() {
        let slot = Name::from_store("quorlock:slot:gpu:3").unwrap();
        assert_eq!(quorlock_command("extend", &[slot], None), "quorlock extend gpu --slot 3");
        let names = ["disk", "my net"].map(|name| Name::new(name).unwrap());
        assert_eq!(quorlock_command("release", &names, None), "quorlock release disk --also='my net'");
        let shown = quorlock_command("status --slots 3", &names[..1], None);
        assert_eq!(shown, "quorlock status disk --slots 3");
    }
}
