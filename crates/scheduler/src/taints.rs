//! Taints of nodes, and what pods tolerate.

use object::Text;
use schema::view::Items;
use schema::views::core::v1;

/// A taint of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Taint {
    pub(crate) key: Text,
    pub(crate) value: Text,
    pub(crate) effect: Text,
}

/// A toleration of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Toleration {
    key: Text,
    operator: Text,
    value: Text,
    effect: Text,
}

/// The taints of a node.
pub(crate) fn taints(taints: Items<'_, v1::Taint<'_>>) -> Vec<Taint> {
    let taint = |taint: v1::Taint<'_>| Taint {
        key: taint.key().into(),
        value: taint.value().into(),
        effect: taint.effect().into(),
    };
    taints.iter().map(taint).collect()
}

/// The tolerations of a pod.
pub(crate) fn tolerations(tolerations: Items<'_, v1::Toleration<'_>>) -> Vec<Toleration> {
    let toleration = |toleration: v1::Toleration<'_>| Toleration {
        key: toleration.key().into(),
        operator: toleration.operator().into(),
        value: toleration.value().into(),
        effect: toleration.effect().into(),
    };
    tolerations.iter().map(toleration).collect()
}

impl Toleration {
    fn tolerates(&self, taint: &Taint) -> bool {
        (self.effect.is_empty() || self.effect == taint.effect)
            && (self.key.is_empty() || self.key == taint.key)
            && match self.operator.as_str() {
                "" | "Equal" => self.value == taint.value,
                "Exists" => true,
                _ => false,
            }
    }
}

/// Whether one of the tolerations tolerates a taint.
pub(crate) fn tolerates(tolerations: &[Toleration], taint: &Taint) -> bool {
    tolerations.iter().any(|toleration| toleration.tolerates(taint))
}

/// The first taint that keeps a pod off a node.
pub(crate) fn untolerated<'t>(taints: &'t [Taint], tolerations: &[Toleration]) -> Option<&'t Taint> {
    let keeps_off = |taint: &&Taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute");
    taints.iter().filter(keeps_off).find(|taint| !tolerates(tolerations, taint))
}

/// How many taints of a node a pod would rather not have.
pub(crate) fn unwanted(taints: &[Taint], tolerations: &[Toleration]) -> i64 {
    let preferred = |toleration: &&Toleration| matches!(toleration.effect.as_str(), "" | "PreferNoSchedule");
    let is_unwanted = |taint: &&Taint| {
        taint.effect == "PreferNoSchedule"
            && !tolerations.iter().filter(preferred).any(|toleration| toleration.tolerates(taint))
    };
    i64::try_from(taints.iter().filter(is_unwanted).count()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taint(key: &str, value: &str, effect: &str) -> Taint {
        Taint { key: key.into(), value: value.into(), effect: effect.into() }
    }

    fn toleration(key: &str, operator: &str, value: &str, effect: &str) -> Toleration {
        Toleration { key: key.into(), operator: operator.into(), value: value.into(), effect: effect.into() }
    }

    #[test]
    fn tolerations_tolerate_by_key_value_and_effect() {
        let dedicated = taint("dedicated", "user1", "NoSchedule");
        let cases = [
            (toleration("dedicated", "Equal", "user1", "NoSchedule"), true),
            (toleration("dedicated", "", "user1", ""), true),
            (toleration("dedicated", "Equal", "user2", "NoSchedule"), false),
            (toleration("dedicated", "Exists", "", "NoSchedule"), true),
            (toleration("dedicated", "Exists", "", "NoExecute"), false),
            (toleration("other", "Exists", "", ""), false),
            (toleration("", "Exists", "", ""), true),
            (toleration("dedicated", "Unknown", "user1", ""), false),
        ];
        for (toleration, expected) in cases {
            let found = untolerated(std::slice::from_ref(&dedicated), std::slice::from_ref(&toleration));
            assert_eq!(found.is_none(), expected, "{toleration:?}");
        }
    }

    #[test]
    fn taints_that_are_preferences_keep_nobody_off_and_are_counted() {
        let taints = [taint("a", "", "PreferNoSchedule"), taint("b", "", "PreferNoSchedule")];
        assert_eq!(untolerated(&taints, &[]), None);
        assert_eq!(unwanted(&taints, &[]), 2);
        assert_eq!(unwanted(&taints, &[toleration("a", "Exists", "", "")]), 1);
        assert_eq!(unwanted(&taints, &[toleration("a", "Exists", "", "NoSchedule")]), 2);
    }

    #[test]
    fn the_first_untolerated_taint_is_named() {
        let taints = [taint("a", "1", "NoSchedule"), taint("b", "2", "NoExecute")];
        let found = untolerated(&taints, &[toleration("a", "Exists", "", "")]);
        assert_eq!(found.map(|taint| taint.key.as_str()), Some("b"));
    }
}
