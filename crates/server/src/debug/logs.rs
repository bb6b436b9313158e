//! `/logs`: the files of `/var/log`, with `--enable-logs-handler`.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::StatusCode;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, LAST_MODIFIED, LOCATION};
use http_body::Frame;
use object::time::Time;
use tokio::task::JoinHandle;

use super::{html, is_read, not_found};
use crate::body::StreamError;
use crate::error::plain_text;
use crate::{Body, Error, Request, Response, Status, date};

/// The folder of log files.
const FOLDER: &str = "/var/log";
/// The most bytes that are read at a time.
const CHUNK: usize = 64 * 1024;

pub(super) async fn answer(path: &str, request: &Request) -> Result<Response, Error> {
    if !is_read(request) {
        return Err(Status::method_not_allowed().into());
    }
    let decoded =
        request.context.path.as_deref().and_then(|path| path.strip_prefix("/logs/")).unwrap_or(path);
    if decoded.split('/').any(|part| part == "..") {
        return Ok(plain_text(StatusCode::BAD_REQUEST, "invalid URL path\n"));
    }
    let file = Path::new(FOLDER).join(decoded.trim_start_matches('/'));
    let found = tokio::task::spawn_blocking(move || find(file)).await.map_err(|_| Error::Panicked)?;
    Ok(match found {
        Ok(Found::Folder(names, modified)) if path.is_empty() || path.ends_with('/') => {
            modified_at(html(listed(&names)), modified)
        }
        Ok(Found::Folder(..)) => {
            // A path relative to that of the request.
            let name = path.rsplit('/').next().unwrap_or(path);
            let mut response = Response::new(Body::Empty);
            *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
            if let Ok(to) = HeaderValue::try_from(format!("{name}/")) {
                response.headers_mut().insert(LOCATION, to);
            }
            response
        }
        Ok(Found::File { file, length, modified }) => {
            let body = Body::Stream(Box::pin(Reading::Idle { file, left: length }));
            let mut response = modified_at(Response::new(body), modified);
            let headers = response.headers_mut();
            headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
            response
        }
        Err(error) => match error.kind() {
            io::ErrorKind::PermissionDenied => plain_text(StatusCode::FORBIDDEN, "403 Forbidden\n"),
            _ => not_found(),
        },
    })
}

enum Found {
    /// The names in a folder, sorted; those of folders end with a slash.
    Folder(Vec<String>, Option<Time>),
    File {
        file: File,
        length: u64,
        modified: Option<Time>,
    },
}

fn find(path: PathBuf) -> io::Result<Found> {
    let about = std::fs::metadata(&path)?;
    let modified = about.modified().ok().and_then(|time| {
        let seconds = time.duration_since(std::time::UNIX_EPOCH).ok()?.as_secs();
        Some(Time::from_unix(i64::try_from(seconds).ok()?))
    });
    if !about.is_dir() {
        // Waiting for the writer of a pipe would take for ever.
        if !about.is_file() {
            return Err(io::ErrorKind::NotFound.into());
        }
        return Ok(Found::File { file: File::open(path)?, length: about.len(), modified });
    }
    let mut names = Vec::new();
    for entry in std::fs::read_dir(path)?.flatten() {
        let slash = if entry.file_type().is_ok_and(|kind| kind.is_dir()) { "/" } else { "" };
        names.push(format!("{}{slash}", entry.file_name().to_string_lossy()));
    }
    names.sort();
    Ok(Found::Folder(names, modified))
}

fn listed(names: &[String]) -> String {
    let mut out =
        String::from("<!doctype html>\n<meta name=\"viewport\" content=\"width=device-width\">\n<pre>\n");
    for name in names {
        let text = name.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&#34;");
        let escaped: String = name
            .bytes()
            .map(|byte| match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => {
                    char::from(byte).to_string()
                }
                other => format!("%{other:02X}"),
            })
            .collect();
        out.push_str(&format!("<a href=\"{escaped}\">{text}</a>\n"));
    }
    out.push_str("</pre>\n");
    out
}

fn modified_at(mut response: Response, modified: Option<Time>) -> Response {
    let value = modified.and_then(|time| HeaderValue::try_from(date::format(time, "GMT")).ok());
    if let Some(value) = value {
        response.headers_mut().insert(LAST_MODIFIED, value);
    }
    response
}

/// A file that is sent: as long as it was when it was opened.
enum Reading {
    Idle { file: File, left: u64 },
    Chunk { read: JoinHandle<(File, io::Result<Vec<u8>>)>, left: u64 },
    Ended,
}

impl http_body::Body for Reading {
    type Data = Bytes;
    type Error = StreamError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StreamError>>> {
        let this = self.get_mut();
        loop {
            match std::mem::replace(this, Self::Ended) {
                Self::Ended | Self::Idle { left: 0, .. } => return Poll::Ready(None),
                Self::Idle { mut file, left } => {
                    let length = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
                    let read = tokio::task::spawn_blocking(move || {
                        let mut chunk = vec![0; length];
                        let outcome = file.read(&mut chunk).map(|length| {
                            chunk.truncate(length);
                            chunk
                        });
                        (file, outcome)
                    });
                    *this = Self::Chunk { read, left };
                }
                Self::Chunk { mut read, left } => {
                    let polled = Pin::new(&mut read).poll(cx);
                    if polled.is_pending() {
                        *this = Self::Chunk { read, left };
                        return Poll::Pending;
                    }
                    return Poll::Ready(match ready!(polled) {
                        Ok((file, Ok(chunk))) if !chunk.is_empty() => {
                            *this = Self::Idle { file, left: left.saturating_sub(chunk.len() as u64) };
                            Some(Ok(Frame::data(chunk.into())))
                        }
                        // The file has become shorter.
                        Ok((_, Ok(_))) => Some(Err(io::Error::from(io::ErrorKind::UnexpectedEof).into())),
                        Ok((_, Err(error))) => Some(Err(error.into())),
                        Err(error) => Some(Err(error.into())),
                    });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_listed_as_links() {
        let page = listed(&["a<b".into(), "c/".into()]);
        assert!(page.contains("<a href=\"a%3Cb\">a&lt;b</a>\n<a href=\"c/\">c/</a>\n"), "{page}");
    }
}
