//! What the tests of expressions share: JSON, schemas, values as texts.

#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]

pub mod case;
pub mod clock;
pub mod json;
pub mod random;
pub mod schema;
pub mod show;
pub mod textproto;
