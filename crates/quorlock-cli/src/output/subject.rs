//! What messages call a lock: by its name, or by its semaphore and slot.

use quorlock::{Lost, Name};

/// The name that the user gave: that of the lock, or that of the semaphore.
pub(crate) fn given_name(name: &Name) -> &str {
    name.as_slot().map_or(name.as_str(), |(semaphore, _)| semaphore)
}

/// The number of the slot, if `name` is that of one.
pub(crate) fn slot(name: &Name) -> Option<u32> {
    name.as_slot().map(|(_, slot)| slot)
}

/// For a table: `deploy`, or `gpu slot 2`.
pub(crate) fn label(name: &Name) -> String {
    match name.as_slot() {
        Some((semaphore, slot)) => format!("{semaphore} slot {slot}"),
        None => name.to_string(),
    }
}

/// For a sentence: "lock `deploy`", "lock `disk, network`" or "slot 2 of semaphore `gpu`".
pub(crate) fn phrase(names: &[Name]) -> String {
    if let [name] = names
        && let Some((semaphore, slot)) = name.as_slot()
    {
        return format!("slot {slot} of semaphore `{semaphore}`");
    }
    let names: Vec<&str> = names.iter().map(Name::as_str).collect();
    format!("lock `{}`", names.join(", "))
}

/// What was lost and why.
pub(crate) fn lost_text(lost: &Lost) -> String {
    format!("{} was lost: {}", phrase(lost.lock.as_slice()), lost.reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_called_by_its_semaphore_and_its_number() {
        let slot = Name::from_store("quorlock:slot:gpu:a:2").unwrap();
        assert_eq!(label(&slot), "gpu:a slot 2");
        assert_eq!(phrase(&[slot]), "slot 2 of semaphore `gpu:a`");
        let names = ["disk", "network"].map(|name| Name::new(name).unwrap());
        assert_eq!(phrase(&names), "lock `disk, network`");
        assert_eq!(label(&names[0]), "disk");
    }
}
