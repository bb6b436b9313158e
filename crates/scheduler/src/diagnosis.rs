//! Why a pod has no node, in the words of the reference.

use crate::filter::{Filters, Rejection};
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

/// The most bytes of the note of an event.
const NOTE_LIMIT: usize = 1024;

/// The reasons of all nodes.
#[derive(Debug, Default)]
pub(crate) struct Diagnosis {
    /// The reason for all nodes, if they were not looked at.
    pub(crate) before: Option<Rejection>,
    /// The reasons of each node that was looked at, by name.
    pub(crate) nodes: Vec<(std::sync::Arc<str>, Rejection)>,
    /// The reason of the others.
    pub(crate) others: Option<Cow<'static, str>>,
    /// What the preemption says.
    pub(crate) preemption: String,
}

impl Diagnosis {
    /// The filters that have rejected nodes.
    pub(crate) fn filters(&self) -> Filters {
        let mut filters = Filters::default();
        let rejections = self.before.iter().chain(self.nodes.iter().map(|(_, rejection)| rejection));
        rejections.filter_map(|rejection| rejection.filter).for_each(|filter| filters.add(filter));
        filters
    }

    /// The message for a number of nodes.
    pub(crate) fn message(&self, nodes: usize) -> String {
        let mut message = format!("0/{nodes} nodes are available:");
        match &self.before {
            Some(rejection) => {
                message.push(' ');
                message.push_str(&rejection.reasons.join(", "));
                message.push('.');
            }
            None => {
                let mut counts: HashMap<&str, usize> = HashMap::new();
                for reason in self.nodes.iter().flat_map(|(_, rejection)| &rejection.reasons) {
                    *counts.entry(reason).or_default() += 1;
                }
                let others = nodes.saturating_sub(self.nodes.len());
                if let Some(reason) = self.others.as_deref().filter(|_| others > 0) {
                    *counts.entry(reason).or_default() += others;
                }
                // Sorted as texts, numbers included.
                let sorted: BTreeSet<String> =
                    counts.into_iter().map(|(reason, count)| format!("{count} {reason}")).collect();
                if !sorted.is_empty() {
                    let sorted: Vec<String> = sorted.into_iter().collect();
                    message.push(' ');
                    message.push_str(&sorted.join(", "));
                    message.push('.');
                }
            }
        }
        if !self.preemption.is_empty() {
            message.push(' ');
            message.push_str(&self.preemption);
        }
        message
    }
}

/// The text of an event: a long one is cut.
pub(crate) fn note(message: &str) -> String {
    const END: &str = " ...";
    if message.len() <= NOTE_LIMIT {
        return message.to_owned();
    }
    let mut at = NOTE_LIMIT - END.len();
    while !message.is_char_boundary(at) {
        at -= 1;
    }
    format!("{}{END}", message.get(..at).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::Filter;

    fn rejection(reasons: &[&'static str]) -> Rejection {
        let reasons = reasons.iter().map(|reason| Cow::Borrowed(*reason)).collect();
        Rejection { filter: Some(Filter::NodeResourcesFit), reasons, preemption_may_help: true }
    }

    #[test]
    fn reasons_are_counted_and_sorted_as_texts() {
        let node = |name: &str, reasons: &[&'static str]| (name.into(), rejection(reasons));
        let nodes = vec![
            node("a", &["Insufficient memory", "Insufficient cpu"]),
            node("b", &["Insufficient cpu"]),
            node("c", &["node(s) were unschedulable"]),
        ];
        let mut diagnosis = Diagnosis { nodes, ..Diagnosis::default() };
        assert_eq!(
            diagnosis.message(3),
            "0/3 nodes are available: 1 Insufficient memory, 1 node(s) were unschedulable, 2 Insufficient cpu."
        );
        diagnosis.others = Some("node(s) didn't satisfy plugin(s) [NodeAffinity]".into());
        diagnosis.preemption = "preemption: not eligible due to preemptionPolicy=Never.".to_owned();
        assert_eq!(
            diagnosis.message(13),
            "0/13 nodes are available: 1 Insufficient memory, 1 node(s) were unschedulable, \
             10 node(s) didn't satisfy plugin(s) [NodeAffinity], 2 Insufficient cpu. \
             preemption: not eligible due to preemptionPolicy=Never."
        );
    }

    #[test]
    fn a_reason_for_all_nodes_stands_alone() {
        let before = Some(rejection(&["pod has unbound immediate PersistentVolumeClaims"]));
        let diagnosis = Diagnosis { before, ..Diagnosis::default() };
        assert_eq!(
            diagnosis.message(1),
            "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims."
        );
    }

    #[test]
    fn long_notes_are_cut_between_characters() {
        let long = "ä".repeat(600);
        let cut = note(&long);
        assert!(cut.ends_with("ä ...") && cut.len() <= NOTE_LIMIT, "{}", cut.len());
        assert_eq!(note("short"), "short");
    }
}
