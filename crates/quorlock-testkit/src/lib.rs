//! Real servers, faults and checks for quorlock's own tests.
