//! Files that are looked at every second, because they may be changed at any time.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tokio::time::sleep;

/// How often the files are looked at.
const INTERVAL: Duration = Duration::from_secs(1);

/// The content of each file, or why it cannot be read.
pub type Contents = Vec<io::Result<Vec<u8>>>;

/// Some files, and the contents of them that their user knows.
#[derive(Debug)]
pub struct PolledFiles {
    paths: Vec<PathBuf>,
    known: Contents,
}

impl PolledFiles {
    /// Files of which nothing is known: the first look finds a change.
    pub fn new(paths: Vec<PathBuf>) -> Self {
        Self { paths, known: Vec::new() }
    }

    /// One file with its known content.
    pub fn one(path: PathBuf, content: Vec<u8>) -> Self {
        Self { paths: vec![path], known: vec![Ok(content)] }
    }

    /// Waits until the contents are not the known ones. A file that cannot be read any more is a change, and
    /// so is one that can be read again. Without files there is none.
    ///
    /// The contents are known with [`set_known`](Self::set_known): a user that fails sees them again.
    pub async fn changed(&self) -> Contents {
        if self.paths.is_empty() {
            return std::future::pending().await;
        }
        loop {
            sleep(INTERVAL).await;
            let mut contents = Contents::with_capacity(self.paths.len());
            for path in &self.paths {
                contents.push(tokio::fs::read(path).await);
            }
            let is_known = contents.len() == self.known.len()
                && contents
                    .iter()
                    .zip(&self.known)
                    .all(|(now, known)| now.as_ref().ok() == known.as_ref().ok());
            if !is_known {
                return contents;
            }
        }
    }

    /// Sets the known contents.
    pub fn set_known(&mut self, contents: Contents) {
        self.known = contents;
    }
}
