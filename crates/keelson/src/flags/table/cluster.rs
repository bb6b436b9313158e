//! The flags of the cluster that the server plays by itself: autoscaling.

use super::super::{Effect, Flag, Group, ValueType};
use crate::options::ServerOptions;
use std::time::Duration;

/// The rows.
pub(super) const FLAGS: &[Flag] = &[
    Flag {
        name: "horizontal-pod-autoscaler-sync-period",
        group: Group::Api,
        kind: ValueType::Duration,
        default: "15s",
        help: "How often the number of replicas is set by metrics.",
        effect: Effect::Set(|options, value| {
            let period = object::duration::not_negative(value)?;
            if period < Duration::from_millis(100) {
                return Err("less than 100ms: metrics are not that new".into());
            }
            options.autoscaling.period = period;
            Ok(())
        }),
    },
    Flag {
        name: "horizontal-pod-autoscaler-downscale-stabilization",
        group: Group::Api,
        kind: ValueType::Duration,
        default: "5m0s",
        help: "How long a higher recommendation of an autoscaler keeps replicas from being removed.",
        effect: Effect::Set(|options, value| {
            set(value, |options| &mut options.autoscaling.stabilization, options)
        }),
    },
    Flag {
        name: "horizontal-pod-autoscaler-tolerance",
        group: Group::Api,
        kind: ValueType::Text,
        default: "0.1",
        help: "How far the ratio of a metric to its target has to be from 1.0 before the number of replicas changes.",
        effect: Effect::Set(|options, value| {
            let tolerance = value.parse::<f64>().map_err(|_| "not a number")?;
            if !(0.0..=1e6).contains(&tolerance) {
                return Err("a tolerance is not negative".into());
            }
            options.autoscaling.tolerance = tolerance;
            Ok(())
        }),
    },
    Flag {
        name: "horizontal-pod-autoscaler-cpu-initialization-period",
        group: Group::Api,
        kind: ValueType::Duration,
        default: "5m0s",
        help: "How long after the start of a pod its CPU may be left out by autoscalers.",
        effect: Effect::Set(|options, value| {
            set(value, |options| &mut options.autoscaling.cpu_initialization, options)
        }),
    },
    Flag {
        name: "horizontal-pod-autoscaler-initial-readiness-delay",
        group: Group::Api,
        kind: ValueType::Duration,
        default: "30s",
        help: "How long after the start of a pod a change of its readiness counts as the first one for autoscalers.",
        effect: Effect::Set(|options, value| {
            set(value, |options| &mut options.autoscaling.initial_readiness, options)
        }),
    },
];

fn set(
    value: &str,
    slot: fn(&mut ServerOptions) -> &mut Duration,
    options: &mut ServerOptions,
) -> Result<(), String> {
    *slot(options) = object::duration::not_negative(value)?;
    Ok(())
}
