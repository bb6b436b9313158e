//! The data directory: what is missing from it, who may read it, and what happens when it goes away.
