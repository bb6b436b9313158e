//! The clock of a server.

use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::Error;
use crate::cluster::Cluster;

/// Where the clock is.
const CLOCK: &str = "/keelson/v1/clock";

/// The clock of a server and all its forks.
pub struct Clock<'s>(&'s Cluster);

impl std::fmt::Debug for Clock<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Clock").field(&self.0.url).finish()
    }
}

/// What a clock shows.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Time {
    /// The time of the server, in RFC 3339.
    pub now: String,
    /// How many seconds of it pass in one.
    pub rate: f64,
    /// How far it is from the time of the machine.
    pub offset: String,
}

impl<'s> Clock<'s> {
    pub(crate) fn of(cluster: &'s Cluster) -> Self {
        Self(cluster)
    }

    /// What it shows.
    pub async fn read(&self) -> Result<Time, Error> {
        Ok(serde_json::from_value(self.0.send(Method::GET, CLOCK, None).await?)?)
    }

    /// Moves it by a duration: `90s`, `1h`.
    pub async fn step(&self, duration: &str) -> Result<(), Error> {
        self.put(&json!({"step": duration})).await
    }

    /// Lets this many seconds of it pass in one.
    pub async fn run_at(&self, rate: f64) -> Result<(), Error> {
        self.put(&json!({"rate": rate})).await
    }

    /// Sets it to a time, in RFC 3339.
    pub async fn set(&self, now: &str) -> Result<(), Error> {
        self.put(&json!({"now": now})).await
    }

    /// Sets it back to the time of the machine.
    pub async fn reset(&self) -> Result<(), Error> {
        self.put(&json!({"reset": true})).await
    }

    async fn put(&self, change: &Value) -> Result<(), Error> {
        self.0.send(Method::PUT, CLOCK, Some(change)).await.map(drop)
    }
}
