//! A stage: which objects it is for, when they come to it, and what it does.

use crate::action::Step;
use crate::expression::Expression;
use crate::query::Query;
use crate::select::Selector;
use object::time::Time;
use object::{Map, Value};
use std::time::Duration;

/// A `Stage` that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    name: String,
    target: Target,
    selector: Selector,
    weight: u64,
    weight_from: Option<Source>,
    delay: Option<Delay>,
    jitter: Option<Delay>,
    is_immediate: bool,
    pub(crate) steps: Vec<Step>,
}

/// The kind of the objects that a stage is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    /// `v1`, `apps/v1`.
    pub api_version: String,
    /// The kind.
    pub kind: String,
}

/// A time, which an object may say itself.
#[derive(Clone, Debug, PartialEq)]
struct Delay {
    usual: Option<Duration>,
    from: Option<Source>,
}

/// Where an object says a value.
#[derive(Clone, Debug, PartialEq)]
enum Source {
    Query(Query),
    Cel(Expression),
}

impl Stage {
    /// Reads a stage; `None` if it has no selector, which selects nothing. The error says what of it is not
    /// known, and where.
    pub fn parse(stage: &Map) -> Result<Option<Self>, String> {
        let empty = Value::from(Map::new());
        let spec = stage.get("spec").unwrap_or(&empty);
        let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        let Some(selector) = spec.get("selector").and_then(Value::as_map) else { return Ok(None) };
        let selector = Selector::parse(selector)?;
        let target = spec.get("resourceRef");
        let api_version = text(target.and_then(|target| target.get("apiGroup")));
        let target = Target {
            api_version: if api_version.is_empty() { "v1".to_owned() } else { api_version },
            kind: text(target.and_then(|target| target.get("kind"))),
        };
        if target.kind.is_empty() {
            return Err("spec.resourceRef.kind: a kind is needed".to_owned());
        }
        let mut steps = Vec::new();
        if let Some(next) = spec.get("next").filter(|next| !next.is_null()) {
            steps.extend(Step::parse_next(next).map_err(|why| format!("spec.next.{why}"))?);
        }
        for (at, step) in spec.get("steps").and_then(Value::as_list).unwrap_or_default().iter().enumerate() {
            steps.extend(Step::parse(step).map_err(|why| format!("spec.steps[{at}].{why}"))?);
        }
        let delay = |usual: &str, from: &str| {
            let Some(delay) = spec.get("delay").filter(|delay| !delay.is_null()) else { return Ok(None) };
            let usual = delay.get(usual).and_then(Value::as_i64);
            let usual = usual.map(|millis| Duration::from_millis(u64::try_from(millis).unwrap_or_default()));
            let source = Source::parse(delay.get(from)).map_err(|why| format!("spec.delay.{from}: {why}"))?;
            Ok::<_, String>((usual.is_some() || source.is_some()).then_some(Delay { usual, from: source }))
        };
        Ok(Some(Self {
            name: text(stage.get("metadata").and_then(|metadata| metadata.get("name"))),
            target,
            selector,
            weight: spec
                .get("weight")
                .and_then(Value::as_i64)
                .and_then(|it| u64::try_from(it).ok())
                .unwrap_or(0),
            weight_from: Source::parse(spec.get("weightFrom"))
                .map_err(|why| format!("spec.weightFrom: {why}"))?,
            delay: delay("durationMilliseconds", "durationFrom")?,
            jitter: delay("jitterDurationMilliseconds", "jitterDurationFrom")?,
            is_immediate: spec.get("immediateNextStage") == Some(&Value::Bool(true)),
            steps,
        }))
    }

    /// The name of the stage.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The kind of its objects.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Whether the next stage is looked for at once, though the object may not have changed.
    pub fn is_immediate(&self) -> bool {
        self.is_immediate
    }

    /// Whether the stage selects an object.
    pub fn matches(&self, object: &Value) -> bool {
        self.selector.matches(object)
    }

    /// The weight of the stage for an object.
    pub(crate) fn weight(&self, object: &Value) -> u64 {
        let own = self.weight_from.as_ref().and_then(|source| match source {
            Source::Cel(expression) => expression.number(object),
            Source::Query(query) => match query.run(object).first()? {
                Value::Int(number) => u64::try_from(*number).ok(),
                other => other.as_str()?.parse().ok(),
            },
        });
        own.unwrap_or(self.weight)
    }

    /// How long an object waits before the stage, chosen anew each time. A jitter that is less than the delay
    /// counts in its place.
    pub fn delay(&self, object: &Value, now: Time) -> Duration {
        let Some(delay) = self.delay.as_ref().and_then(|delay| delay.of(object, now)) else {
            return Duration::ZERO;
        };
        let Some(jitter) = self.jitter.as_ref().and_then(|jitter| jitter.of(object, now)) else {
            return delay;
        };
        match jitter.checked_sub(delay) {
            Some(more) => delay + more.mul_f64(fastrand::f64()),
            None => jitter,
        }
    }
}

impl Delay {
    /// A point in time, a duration, or what is usual.
    fn of(&self, object: &Value, now: Time) -> Option<Duration> {
        let found = match &self.from {
            Some(Source::Cel(expression)) => return expression.duration(object).or(self.usual),
            Some(Source::Query(query)) => query.run(object),
            None => Vec::new(),
        };
        let Some(text) = found.first().and_then(Value::as_str) else { return self.usual };
        if text.is_empty() {
            return None;
        }
        if let Ok(at) = text.parse::<Time>() {
            return Some(Duration::from_secs(u64::try_from(at.unix() - now.unix()).unwrap_or_default()));
        }
        object::duration::not_negative(text).ok().or(self.usual)
    }
}

impl Source {
    /// Reads a source: `cel`, `jq`, or the older `expressionFrom`.
    fn parse(source: Option<&Value>) -> Result<Option<Self>, String> {
        let Some(source) = source.filter(|source| !source.is_null()) else { return Ok(None) };
        let expression = |key: &str| source.get(key)?.get("expression")?.as_str();
        if let Some(text) = expression("cel") {
            return Expression::parse(text).map(|expression| Some(Self::Cel(expression)));
        }
        let text = expression("jq").or_else(|| source.get("expressionFrom")?.as_str()).unwrap_or_default();
        if text.is_empty() { Ok(None) } else { Query::parse(text).map(|query| Some(Self::Query(query))) }
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;
    use schema::{Limits, Shape, yaml};

    /// A value, of its YAML.
    pub(crate) fn value(text: &str) -> Value {
        yaml::decode_shape(&Shape::Any, text.as_bytes(), &Limits::REQUEST).unwrap().value
    }

    /// A stage, of its YAML.
    pub(crate) fn stage(text: &str) -> Result<Stage, String> {
        Stage::parse(value(text).as_map().unwrap()).map(Option::unwrap)
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{stage, value};
    use super::*;
    use crate::{Action, PatchKind};

    const READY: &str = r#"
metadata: {name: ready}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: .metadata.deletionTimestamp, operator: DoesNotExist}
    - {key: '.status.conditions.[] | select( .type == "Ready" ) | .status', operator: NotIn, values: ["True"]}
  delay:
    durationMilliseconds: 1000
    durationFrom: {expressionFrom: '.metadata.annotations["delay"]'}
    jitterDurationMilliseconds: 5000
    jitterDurationFrom: {expressionFrom: .metadata.deletionTimestamp}
  next:
    event: {type: Normal, reason: Started, message: Started container}
    finalizers: {add: [{value: a}], remove: [{value: b}]}
    statusTemplate: |
      {{ $now := "now" }}
      containerStatuses:
      {{ range .spec.containers }}
      - name: {{ .name | Quote }}
        state: {running: {startedAt: {{ $now | Quote }}}}
      {{ end }}
      phase: Running
  immediateNextStage: true
"#;

    #[test]
    fn a_stage_is_made_into_actions() {
        let stage = stage(READY).unwrap();
        assert_eq!(
            (stage.name(), stage.target().kind.as_str(), stage.is_immediate()),
            ("ready", "Pod", true)
        );
        let pod = value("{metadata: {finalizers: [b, c]}, spec: {containers: [{name: x}, {name: y}]}}");
        assert!(stage.matches(&pod));
        assert!(!stage.matches(&value(r#"{status: {conditions: [{type: Ready, status: "True"}]}}"#)));
        let actions = stage.actions(&pod, &()).unwrap();
        let patch = value(
            r#"{status: {phase: Running, containerStatuses: [{name: x, state: {running: {startedAt: now}}}, {name: y, state: {running: {startedAt: now}}}]}}"#,
        );
        let expected = [
            Action::Event {
                kind: "Normal".into(),
                reason: "Started".into(),
                message: "Started container".into(),
            },
            Action::Finalizers(vec!["c".into(), "a".into()]),
            Action::Patch { subresource: "status".into(), kind: PatchKind::Usual, patch },
        ];
        assert_eq!(actions, expected);
    }

    #[test]
    fn delays_come_from_the_object_or_the_stage() {
        let stage = stage(READY).unwrap();
        let now: Time = "2024-01-01T00:00:00Z".parse().unwrap();
        let delay = |object: &str| stage.delay(&value(object), now);
        for _ in 0..50 {
            let usual = delay("{}");
            assert!((1.0..=5.0).contains(&usual.as_secs_f64()), "{usual:?}");
        }
        let own = r#"{metadata: {annotations: {delay: 10s}, deletionTimestamp: "2024-01-01T00:00:03Z"}}"#;
        assert_eq!(delay(own), Duration::from_secs(3));
        let past = r#"{metadata: {deletionTimestamp: "2023-01-01T00:00:00Z"}}"#;
        assert_eq!(delay(past), Duration::ZERO);
        assert_eq!(delay(r#"{metadata: {annotations: {delay: ""}}}"#), Duration::ZERO);
    }

    #[test]
    fn steps_follow_each_other_and_nothing_follows_a_deletion() {
        let stage = stage(
            r#"
spec:
  resourceRef: {apiGroup: apps/v1, kind: Deployment}
  selector: {}
  steps:
  - patch: {root: metadata, type: json, template: '[{"op":"add","path":"/labels/a","value":"{{ .x }}"}]'}
  - patch: {subresource: status, type: merge, template: '{"status": {"n": {{ len .list }}}}'}
  - delete: true
  - finalizers: {empty: true}
  - event: {type: Warning, reason: Gone}
"#,
        )
        .unwrap();
        let object = value("{metadata: {finalizers: [a]}, x: y, list: [1, 2]}");
        let actions = stage.actions(&object, &()).unwrap();
        let json = value(r#"[{op: add, path: /metadata/labels/a, value: y}]"#);
        let merge = value("{status: {n: 2}}");
        assert_eq!(
            actions,
            [
                Action::Patch { subresource: String::new(), kind: PatchKind::Json, patch: json },
                Action::Patch { subresource: "status".into(), kind: PatchKind::Merge, patch: merge },
                Action::Delete,
                Action::Event { kind: "Warning".into(), reason: "Gone".into(), message: String::new() },
            ]
        );
    }

    #[test]
    fn what_is_not_known_is_refused_with_its_place() {
        let refused = |spec: &str| stage(&format!("spec: {spec}")).unwrap_err();
        for (spec, why) in [
            ("{selector: {}}", "spec.resourceRef.kind"),
            (
                "{resourceRef: {kind: A}, selector: {}, next: {statusTemplate: '{{ frob . }}'}}",
                "spec.next.statusTemplate: function \"frob\" not defined",
            ),
            ("{resourceRef: {kind: A}, selector: {}, steps: [{apply: {}}]}", "spec.steps[0].apply"),
            (
                "{resourceRef: {kind: A}, selector: {}, steps: [{patch: {type: odd}}]}",
                "spec.steps[0].patch: unknown patch type odd",
            ),
            (
                "{resourceRef: {kind: A}, selector: {}, weightFrom: {cel: {expression: '1'}}}",
                "spec.weightFrom: cel",
            ),
            (
                "{resourceRef: {kind: A}, selector: {}, delay: {durationFrom: {jq: {expression: 'now'}}}}",
                "spec.delay.durationFrom",
            ),
        ] {
            assert!(refused(spec).starts_with(why), "{spec}: {}", refused(spec));
        }
        assert_eq!(Stage::parse(value("{spec: {resourceRef: {kind: A}}}").as_map().unwrap()), Ok(None));
    }
}
