//! All limits of connections and requests.

use std::time::Duration;

/// The bounds on connections and requests. The server runs with [`Limits::default`], but for those that flags
/// or the number of file descriptors decide; tests make them small.
#[derive(Debug, Clone)]
pub struct Limits {
    /// The most open connections. A further one replaces the one that is needed least, or is refused.
    pub connections: usize,
    /// From accepting a connection to the end of its TLS handshake.
    pub handshake: Duration,
    /// From the end of the handshake to the end of the first request's headers.
    pub first_request: Duration,
    /// From the end of the last response in flight to the end of the next request's headers.
    pub idle: Duration,
    /// From the start of a request that is not a watch to the end of its response.
    pub request: Duration,
    /// How long a peer may read nothing of a response with data.
    pub stalled: Duration,
    /// The bytes of superseded objects that one response may hold in memory.
    pub pinned: u64,
    /// The budget of unsent bytes of one user: far more than the largest response, and some hundred lists at
    /// once.
    pub unsent_of_caller: usize,
    /// The budget of unsent bytes of all users: what a small machine has left beside the cache. Above it, the
    /// users that hold more than their share are refused.
    pub unsent: usize,
    /// How long a request over the budget waits until data is sent: far longer than a client that reads
    /// needs.
    pub unsent_wait: Duration,
    /// How long a peer may leave sent data unacknowledged, or its receive window shut, before the kernel
    /// drops the connection.
    pub unacknowledged: Duration,
    /// The idle time before the kernel sends TCP keepalive probes.
    pub keep_alive_probe: Duration,
    /// The bytes of a request's head.
    pub header_bytes: u32,
    /// The number of header lines of an HTTP/1.1 request.
    pub header_lines: usize,
    /// Requests at one time on one HTTP/2 connection.
    pub streams: u32,
    /// Bytes of one request body that may be in flight over HTTP/2 before they are read; also the largest
    /// frame.
    pub stream_window: u32,
    /// Streams that a peer may reset before they are accepted; above this the connection is closed.
    pub pending_resets: usize,
    /// Streams that are reset for protocol errors of the peer before the connection is closed.
    pub fault_resets: usize,
    /// From the end of accepting to the hard stop.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 16_384,
            handshake: Duration::from_secs(10),
            first_request: Duration::from_secs(32),
            idle: Duration::from_secs(90),
            request: Duration::from_secs(60),
            stalled: Duration::from_secs(30),
            pinned: 128 << 20,
            unsent_of_caller: 64 << 20,
            unsent: 256 << 20,
            unsent_wait: Duration::from_secs(1),
            unacknowledged: Duration::from_secs(120),
            keep_alive_probe: Duration::from_secs(180),
            header_bytes: 256 << 10,
            header_lines: 256,
            streams: 100,
            stream_window: 256 << 10,
            pending_resets: 20,
            fault_resets: 256,
            drain: Duration::from_secs(60),
        }
    }
}

impl Limits {
    /// The limits of a process that may take so many bytes of memory; 0 for any number. Responses under way
    /// have at most a quarter of them, those of one user a sixteenth, and one response may keep an eighth in
    /// superseded objects.
    #[must_use]
    pub fn within(mut self, memory: u64) -> Self {
        if memory > 0 {
            let bytes = usize::try_from(memory).unwrap_or(usize::MAX);
            self.unsent = self.unsent.min(bytes / 4);
            self.unsent_of_caller = self.unsent_of_caller.min(bytes / 16);
            self.pinned = self.pinned.min(memory / 8);
        }
        self
    }

    /// Bytes of request bodies that one HTTP/2 connection may have in flight: four full windows. The
    /// reference allows a full window for each stream; bodies are read at once, so a smaller bound costs
    /// nothing and bounds memory.
    pub(crate) fn connection_window(&self) -> u32 {
        self.stream_window.saturating_mul(4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_have_parts_of_a_small_memory_and_no_more_of_a_large_one() {
        let of = |memory| {
            let limits = Limits::default().within(memory);
            (limits.unsent >> 20, limits.unsent_of_caller >> 20, limits.pinned >> 20)
        };
        assert_eq!(of(128 << 20), (32, 8, 16));
        assert_eq!(of(64 << 30), (256, 64, 128));
        assert_eq!(of(0), (256, 64, 128));
    }
}
