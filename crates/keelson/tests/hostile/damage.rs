//! Stored bytes that are damaged: what can be read is served, and a write or delete mends the rest.
