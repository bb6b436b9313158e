//! Files that are read again when they change.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tasks::{Ended, Name, PolledFiles};
use tokio::sync::Mutex;

/// Calls `changed` with the new content of a file whenever it is another. What it refuses, and a file that
/// cannot be read, is logged once, and what was there before stays.
pub(crate) fn on_change(
    path: &Path,
    content: Vec<u8>,
    changed: impl FnMut(&[u8]) -> Result<(), String> + Send + 'static,
) {
    let files = PolledFiles::one(path.to_owned(), content);
    let file = Arc::new(Mutex::new(File { path: path.to_owned(), files, changed }));
    tasks::spawn(Name::FileReload, move || {
        let file = file.clone();
        async move { file.lock().await.follow().await }
    })
    .detach();
}

/// A file, what was read of it, and what is to be told.
struct File<F> {
    path: PathBuf,
    files: PolledFiles,
    changed: F,
}

impl<F: FnMut(&[u8]) -> Result<(), String>> File<F> {
    async fn follow(&mut self) -> Ended {
        let Self { path, files, changed } = self;
        let mut is_readable = true;
        loop {
            let contents = files.changed().await;
            let shown = path.display();
            for content in &contents {
                match content {
                    Err(error) if std::mem::take(&mut is_readable) => {
                        log::error!(file:% = shown, error:%; "a file cannot be read again; what it said before stays");
                    }
                    Err(_) => {}
                    Ok(content) => {
                        is_readable = true;
                        match changed(content) {
                            Ok(()) => log::info!(file:% = shown; "a file has changed and was read again"),
                            Err(error) => {
                                log::error!(file:% = shown, error = error.as_str(); "a changed file cannot be used; what it said before stays");
                            }
                        }
                    }
                }
            }
            // Known only now: a change that panics is reported again. A file that cannot be read has the
            // content that it had before.
            if is_readable {
                files.set_known(contents);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    #[tokio::test]
    async fn every_other_content_is_reported_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "one").unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        on_change(&path, b"one".to_vec(), {
            let seen = seen.clone();
            move |content| {
                seen.lock().unwrap().push(String::from_utf8(content.to_vec()).unwrap());
                Err("refused".to_owned())
            }
        });
        let until = async |count: usize| {
            for _ in 0..100 {
                if seen.lock().unwrap().len() >= count {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        std::fs::write(&path, "two").unwrap();
        until(1).await;
        std::fs::remove_file(&path).unwrap();
        tokio::time::sleep(Duration::from_secs(2)).await;
        std::fs::write(&path, "three").unwrap();
        until(2).await;
        assert_eq!(*seen.lock().unwrap(), ["two", "three"]);
    }

    #[tokio::test]
    async fn content_whose_report_panicked_is_reported_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "two").unwrap();
        let reports = Arc::new(AtomicU32::new(0));
        on_change(&path, b"one".to_vec(), {
            let reports = reports.clone();
            move |_| {
                assert!(reports.fetch_add(1, Ordering::SeqCst) > 0, "the first report panics");
                Ok(())
            }
        });
        for _ in 0..100 {
            if reports.load(Ordering::SeqCst) == 2 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("the content was not reported again");
    }
}
