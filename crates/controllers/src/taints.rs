//! Taints of nodes, and the tolerations of pods.

use schema::views::core::v1::{Taint, Toleration};

/// The effect that pods without a toleration leave the node.
pub(crate) const NO_EXECUTE: &str = "NoExecute";

/// Whether a toleration is one for a taint.
pub(crate) fn tolerates(toleration: Toleration<'_>, taint: Taint<'_>) -> bool {
    let fits = |own: &str, wanted: &str| own.is_empty() || own == wanted;
    fits(toleration.effect(), taint.effect())
        && fits(toleration.key(), taint.key())
        && match toleration.operator() {
            "Exists" => true,
            "" | "Equal" => toleration.value() == taint.value(),
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::Map;
    use schema::view::View as _;

    #[test]
    fn tolerations_fit_by_key_value_and_effect() {
        let map = |fields: &[(&'static str, &str)]| fields.iter().copied().collect::<Map>();
        let taint = map(&[("key", "k"), ("value", "v"), ("effect", "NoExecute")]);
        let fits =
            |fields: &[(&'static str, &str)]| tolerates(Toleration::of(&map(fields)), Taint::of(&taint));
        assert!(fits(&[("operator", "Exists")]));
        assert!(fits(&[("key", "k"), ("operator", "Exists"), ("effect", "NoExecute")]));
        assert!(fits(&[("key", "k"), ("value", "v")]));
        assert!(!fits(&[("key", "k"), ("operator", "Exists"), ("effect", "NoSchedule")]));
        assert!(!fits(&[("key", "k"), ("operator", "Equal"), ("value", "w")]));
        assert!(!fits(&[("key", "other"), ("operator", "Exists")]));
    }
}
