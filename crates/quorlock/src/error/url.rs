//! Why a text is not the address of a node.

/// What `scheme` may be, for error messages.
const SCHEMES: &str = "redis://, valkey://, unix://, etcd://, zk://, consul://, postgres://, file: or memory:, or with TLS \
    rediss://, valkeys://, etcds://, zks:// or consuls://";

/// Why a text is no address of a node. No variant holds a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlError {
    /// The scheme is missing or names no kind of node.
    #[error("`{scheme}` is no kind of node; an address starts with {SCHEMES}")]
    Scheme {
        /// What is in the place of the scheme; empty if there is none.
        scheme: String,
    },
    /// A host, perhaps with a port, and nothing that chooses the kind of node.
    #[error("`{address}` has no scheme; did you mean `{scheme}://{address}`?")]
    NoScheme {
        /// What was given.
        address: String,
        /// The scheme that suits the port.
        scheme: &'static str,
    },
    /// This program was built without that kind of node.
    #[error("`{scheme}://` is not part of this program; build it with the feature `{feature}`")]
    NotBuilt {
        /// The scheme.
        scheme: String,
        /// The feature of this library that brings it.
        feature: &'static str,
    },
    /// The operating system lacks what that kind of node needs.
    #[error("`{scheme}:` needs a Unix system")]
    NotOnThisSystem {
        /// The scheme.
        scheme: String,
    },
    /// There is no host or path.
    #[error("`{scheme}` needs a {what} after it")]
    Missing {
        /// The scheme.
        scheme: String,
        /// What is missing.
        what: &'static str,
    },
    /// The host cannot be a host.
    #[error("`{host}` is no host; give a name, an IPv4 address, or an IPv6 address in brackets")]
    Host {
        /// What was given.
        host: String,
    },
    /// A directory of another machine was named.
    #[error("`file://{host}` names another machine; write `file:/directory`, with one slash or with three")]
    Elsewhere {
        /// What is in the place of a machine's name.
        host: String,
    },
    /// The port cannot be a port.
    #[error("`{port}` is no port; give a number from 1 to 65535")]
    Port {
        /// What was given.
        port: String,
    },
    /// The database is no number.
    #[error("`{db}` is no database; give a number from 0")]
    Database {
        /// What was given.
        db: String,
    },
    /// No such option exists for this kind of address.
    #[error("there is no option `{option}` here; allowed are {allowed}")]
    Option {
        /// The option's name.
        option: String,
        /// What may be given.
        allowed: &'static str,
    },
    /// An option has a value that it cannot have.
    #[error("option `{option}` cannot be `{value}`; allowed is {allowed}")]
    Value {
        /// The option's name.
        option: &'static str,
        /// What was given.
        value: String,
        /// What may be given.
        allowed: &'static str,
    },
    /// A percent sign is not followed by two hexadecimal digits, or they make no text.
    #[error("the {part} is badly percent-encoded; write special characters such as @ ? % as %40 %3F %25")]
    Encoding {
        /// The part of the address; its text is left out, because it may be a secret.
        part: &'static str,
    },
}
