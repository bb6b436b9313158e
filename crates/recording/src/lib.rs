//! Records what clients ask of a server and what it answers, and asks another server the same.
//!
//! `keelson record` ([`record`]) is a proxy in front of any server of this API. It speaks for its clients
//! with the credentials of a kubeconfig, and writes each request with its answer to a file, one line of JSON
//! each ([`mod@file`]). `keelson replay` ([`replay`]) sends the requests of such a file to another server,
//! and compares the answers.
//!
//! 1. **No secret is written.** Credentials are in no line; the values of Secrets and tokens are replaced by
//!    placeholders, the same value by the same one (`mask`).
//! 2. **Causes come before effects.** An exchange is written before its client has the end of the answer; so
//!    what a client asks because of an answer stands behind it.
//! 3. **What differs from run to run is no difference.** Times, uids, revisions and generated names are
//!    replaced before answers are compared, and values that the new server has chosen take the place of those
//!    that were recorded in the requests that follow (`translate`).
//! 4. **A recording survives its recorder.** Each line is written as a whole when it is known.

mod arguments;
mod body;
pub mod file;
mod mask;
mod proxy;
pub mod record;
mod recorder;
pub mod replay;
mod report;
mod tee;
mod translate;
