//! Peers that do not read, and peers that take all connections.
