//! Why a test has no cluster.

use std::io;

/// Why a test has no cluster, or cannot change it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program is not there.
    #[error("there is no program keelson in the PATH; KEELSON_BIN can name it")]
    NoProgram,
    /// The program could not be started.
    #[error("{program} cannot be started: {cause}")]
    Start {
        /// The program.
        program: String,
        /// What the system said.
        cause: io::Error,
    },
    /// The server did not become ready.
    #[error("the server did not become ready; it wrote:\n{log}")]
    NotReady {
        /// What it wrote.
        log: String,
    },
    /// A file of the server cannot be read or written.
    #[error("a file of the server cannot be used: {0}")]
    File(#[from] io::Error),
    /// There is no client for it.
    #[error("its kubeconfig cannot be used: {0}")]
    Kubeconfig(#[from] kube::config::KubeconfigError),
    /// A request failed, or was refused.
    #[error(transparent)]
    Request(#[from] kube::Error),
    /// A request cannot be made of what was given.
    #[error("a request cannot be made: {0}")]
    Malformed(#[from] http::Error),
    /// An answer is not of the form that is known.
    #[error("an answer is not understood: {0}")]
    Answer(#[from] serde_json::Error),
}
