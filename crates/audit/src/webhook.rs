//! The webhook: another server that gets lists of events.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use outbound::{Backoff, Endpoint, Kubeconfig, KubeconfigError};
use tokio::time::sleep;

use crate::event::Event;

/// How long one attempt may take.
const TIMEOUT: Duration = Duration::from_secs(30);
const HEAD: &[u8] = br#"{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":["#;

/// A server that gets lists of events.
#[derive(Debug)]
pub(crate) struct Webhook {
    endpoint: Endpoint,
    backoff: Backoff,
}

impl Webhook {
    /// The server of a kubeconfig.
    pub(crate) fn open(kubeconfig: &Path, initial: Duration) -> Result<Self, KubeconfigError> {
        let endpoint = Kubeconfig::read(kubeconfig)?.endpoint()?;
        Ok(Self { endpoint, backoff: Backoff { initial, ..Backoff::default() } })
    }

    /// Sends events; whatever goes wrong, it is tried again a few times.
    pub(crate) async fn send(&self, events: &[Event]) -> Result<(), outbound::Error> {
        let body = Bytes::from(list(events));
        let Backoff { mut initial, factor, jitter, attempts } = self.backoff;
        for _ in 1..attempts {
            let Err(error) = self.endpoint.deliver(body.clone(), TIMEOUT).await else { return Ok(()) };
            log::debug!(error:%; "the audit webhook did not take events");
            sleep(initial.mul_f64(1.0 + jitter * fastrand::f64())).await;
            initial = initial.mul_f64(factor);
        }
        self.endpoint.deliver(body, TIMEOUT).await
    }
}

/// A list of events as JSON.
fn list(events: &[Event]) -> Vec<u8> {
    let size: usize = events.iter().map(|event| event.json.len()).sum();
    let mut out = Vec::with_capacity(HEAD.len() + size + 4);
    out.extend_from_slice(HEAD);
    for (index, event) in events.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        event.write_item(&mut out);
    }
    out.extend_from_slice(b"]}\n");
    out
}
