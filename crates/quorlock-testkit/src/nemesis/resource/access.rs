//! One step of a client at a protected value that compares fences.

/// What a client asks of the resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) name: String,
    pub(crate) fence: u64,
    pub(crate) step: Step,
}

/// What a client does. Each step is one command, so it happens at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Shows the fence of a writer.
    Show,
    /// Reads the value before a write.
    Read,
    /// Writes a value after another was read.
    Write { value: String, based_on: String },
    /// Shows the fence of a reader and reads the value.
    SharedRead,
}

/// What the resource answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It accepted the fence, or not.
    Accepted(bool),
    /// The value.
    Value(String),
}

/// Gets a report before each access and after it, so that an access without an answer is known.
pub(crate) type Report = fn(AccessReport<'_>);

/// A report on an access.
pub(crate) enum AccessReport<'a> {
    Begins(&'a Access),
    Ends(&'a Answer),
}
