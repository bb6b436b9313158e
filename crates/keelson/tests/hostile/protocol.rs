//! Requests that HTTP/1.1 forbids.
