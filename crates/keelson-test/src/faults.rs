//! Faults on demand.

use http::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::Error;
use crate::cluster::Cluster;

/// Where the rules are.
const FAULTS: &str = "/keelson/v1/faults";

/// The faults that a server and all its forks inject.
pub struct Faults<'s>(&'s Cluster);

impl std::fmt::Debug for Faults<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Faults").field(&self.0.url).finish()
    }
}

/// The rules of a server, and what came of them.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Injected {
    /// The seed: with the same one, the same requests meet the same faults.
    pub seed: u64,
    /// The rules in order.
    pub rules: Vec<RuleCount>,
}

/// How often a rule was used.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct RuleCount {
    /// The name of the rule.
    pub name: String,
    /// How many requests it was for.
    #[serde(default)]
    pub seen: u64,
    /// How many of them met its fault.
    #[serde(default)]
    pub injected: u64,
}

impl<'s> Faults<'s> {
    pub(crate) fn of(cluster: &'s Cluster) -> Self {
        Self(cluster)
    }

    /// Has the server inject faults by these rules, and no others.
    pub async fn set(&self, seed: u64, rules: &[Rule]) -> Result<Injected, Error> {
        let rules: Vec<Value> = rules.iter().map(Rule::to_value).collect();
        let body = json!({"seed": seed, "rules": rules});
        Ok(serde_json::from_value(self.0.send(Method::PUT, FAULTS, Some(&body)).await?)?)
    }

    /// The rules, with how often each was used.
    pub async fn read(&self) -> Result<Injected, Error> {
        Ok(serde_json::from_value(self.0.send(Method::GET, FAULTS, None).await?)?)
    }

    /// Ends all faults.
    pub async fn clear(&self) -> Result<(), Error> {
        self.0.send(Method::DELETE, FAULTS, None).await.map(drop)
    }
}

/// Which requests meet which fault: at first all of them, and no fault.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    name: String,
    matches: Map<String, Value>,
    limits: Map<String, Value>,
    fault: Value,
}

impl Rule {
    /// A rule of this name, which metrics and answers show.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), matches: Map::new(), limits: Map::new(), fault: Value::Null }
    }

    /// Only requests with these verbs: `create`, `update`, `watch`.
    pub fn verbs<'v>(self, verbs: impl IntoIterator<Item = &'v str>) -> Self {
        self.only("verbs", verbs)
    }

    /// Only requests for these resources: `pods`, `pods/status`.
    pub fn resources<'v>(self, resources: impl IntoIterator<Item = &'v str>) -> Self {
        self.only("resources", resources)
    }

    /// Only requests for these API groups.
    pub fn api_groups<'v>(self, groups: impl IntoIterator<Item = &'v str>) -> Self {
        self.only("apiGroups", groups)
    }

    /// Only requests in these namespaces.
    pub fn namespaces<'v>(self, namespaces: impl IntoIterator<Item = &'v str>) -> Self {
        self.only("namespaces", namespaces)
    }

    /// Only requests for objects with these names.
    pub fn names<'v>(self, names: impl IntoIterator<Item = &'v str>) -> Self {
        self.only("names", names)
    }

    /// Only requests of these users.
    pub fn users<'v>(self, users: impl IntoIterator<Item = &'v str>) -> Self {
        self.only("users", users)
    }

    /// Only requests of programs whose user agent begins so.
    pub fn user_agents<'v>(self, agents: impl IntoIterator<Item = &'v str>) -> Self {
        self.only("userAgents", agents)
    }

    fn only<'v>(mut self, what: &str, values: impl IntoIterator<Item = &'v str>) -> Self {
        self.matches.insert(what.to_owned(), values.into_iter().map(Value::from).collect());
        self
    }

    /// A share of these requests, such as a quarter: `0.25`.
    pub fn share(self, share: f64) -> Self {
        self.limit("share", share.into())
    }

    /// Not the first ones of them.
    pub fn after(self, requests: u64) -> Self {
        self.limit("after", requests.into())
    }

    /// At most this often.
    pub fn times(self, faults: u64) -> Self {
        self.limit("times", faults.into())
    }

    fn limit(mut self, what: &str, value: Value) -> Self {
        self.limits.insert(what.to_owned(), value);
        self
    }

    /// An error of this status.
    pub fn error(self, code: u16) -> Self {
        self.fault(json!({"error": {"code": code}}))
    }

    /// A conflict, although nobody else has written. Nothing is written.
    pub fn conflict(self) -> Self {
        self.fault(json!({"conflict": {"afterCommit": false}}))
    }

    /// A delay such as `2s`.
    pub fn delay(self, duration: &str) -> Self {
        self.fault(json!({"delay": {"duration": duration}}))
    }

    /// The write is done, and its answer is lost.
    pub fn lose_answer(self) -> Self {
        self.fault(json!({"loseAnswer": {}}))
    }

    /// The connection is cut before anything is done.
    pub fn cut_connection(self) -> Self {
        self.fault(json!({"cutConnection": {}}))
    }

    /// Any fault, as the server takes it.
    pub fn fault(mut self, fault: Value) -> Self {
        self.fault = fault;
        self
    }

    fn to_value(&self) -> Value {
        let mut rule = self.limits.clone();
        rule.insert("name".to_owned(), self.name.as_str().into());
        rule.insert("match".to_owned(), self.matches.clone().into());
        rule.insert("fault".to_owned(), self.fault.clone());
        rule.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_have_the_form_that_the_server_takes() {
        let rule = Rule::new("flaky")
            .verbs(["create"])
            .resources(["pods", "pods/status"])
            .share(0.25)
            .after(3)
            .times(2)
            .error(503);
        assert_eq!(
            rule.to_value(),
            json!({"name": "flaky", "match": {"verbs": ["create"], "resources": ["pods", "pods/status"]},
                "share": 0.25, "after": 3, "times": 2, "fault": {"error": {"code": 503}}})
        );
        assert_eq!(Rule::new("x").lose_answer().to_value()["fault"], json!({"loseAnswer": {}}));
    }
}
