//! What a single test breaks: the node, the network or the clock.

pub(crate) mod faulty_node;
pub mod proxy;
pub(crate) mod test_clock;
