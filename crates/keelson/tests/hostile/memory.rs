//! Memory and disk after a time of writes, and while past states are held.
