//! The families of a service's addresses: completed from what the client says and from what the cluster has.

use crate::Family;
use crate::spec::{NONE, PREFER_DUAL, REQUIRE_DUAL, SINGLE, Spec};
use object::field::{BadValue, Error, List, Path};
use object::name::address::parse_lenient;

/// The families that services of the cluster can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Families {
    pub(crate) default: Family,
    pub(crate) is_dual_stack: bool,
}

impl Families {
    fn has(self, family: &str) -> bool {
        self.is_dual_stack || family == self.default.name()
    }
}

/// Whether an update leaves the families of a `PreferDualStack` service as they are: a change of the
/// cluster's families alone does not change the service.
pub(crate) fn stays_as_it_is(new: &Spec, old: &Spec) -> bool {
    let prefers = |policy: Option<&str>| policy.is_none_or(|policy| policy == PREFER_DUAL);
    new.policy.is_some()
        && new.kind == old.kind
        && matches!(new.kind.as_str(), "ClusterIP" | "NodePort" | "LoadBalancer")
        && prefers(new.policy.as_deref())
        && prefers(old.policy.as_deref())
        && new.cluster_ips == old.cluster_ips
        && new.families == old.families
}

/// The policy, where the client says none: that of before, or one family. A headless service without a
/// selector has both.
pub(crate) fn default_policy(new: &mut Spec, old: Option<&Spec>) {
    if new.policy.is_some() {
        return;
    }
    let before = old.and_then(|old| old.policy.clone());
    let default = if new.is_headless_without_selector() { REQUIRE_DUAL } else { SINGLE };
    new.policy = before.or_else(|| Some(default.to_owned()));
}

/// The families of a service that passed the rules for addresses, families and policy by themselves.
pub(crate) fn complete(new: &mut Spec, old: Option<&Spec>, cluster: Families) -> Result<(), List> {
    let mut errors = List::new();
    if let Some(old) = old {
        errors.append(reduce(new, old));
    }
    let spec = Path::new("spec");
    let path = spec.child("ipFamilyPolicy");
    if new.is_single_stack() {
        for (count, what) in [(new.cluster_ips.len(), "cluster IPs"), (new.families.len(), "IP families")] {
            if count == 2 {
                let why = format!(
                    "must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified"
                );
                errors.push(Error::invalid(&path, shown_policy(new), why));
            }
        }
    }
    errors.append(infer(new, cluster));
    fail(errors)?;
    if new.is_headless_without_selector() {
        let first = new.families.first().map_or(cluster.default.name(), String::as_str).to_owned();
        if new.families.is_empty() {
            new.families.push(first.clone());
        }
        if new.families.len() < 2 && !new.is_single_stack() {
            new.families.push(other(&first).to_owned());
        }
        return Ok(());
    }
    let mut errors = List::new();
    if new.policy.as_deref() == Some(REQUIRE_DUAL) && !cluster.is_dual_stack {
        let why = "this cluster is not configured for dual-stack services";
        errors.push(Error::invalid(&path, shown_policy(new), why));
    }
    let path = spec.child("ipFamilies");
    for (place, family) in new.families.iter().enumerate().filter(|(_, family)| !cluster.has(family)) {
        errors.push(Error::invalid(&path.index(place), family.as_str(), "not configured on this cluster"));
    }
    fail(errors)?;
    if new.families.is_empty() {
        new.families.push(cluster.default.name().to_owned());
    }
    if let [only] = new.families.as_slice()
        && !new.is_single_stack()
        && cluster.is_dual_stack
    {
        let other = other(only).to_owned();
        new.families.push(other);
    }
    Ok(())
}

/// `SingleStack` removes the second address and family; otherwise removing them is an error.
fn reduce(new: &mut Spec, old: &Spec) -> List {
    let mut errors = List::new();
    if new.is_single_stack() {
        if new.cluster_ips == old.cluster_ips {
            new.cluster_ips.truncate(1);
        }
        if new.families == old.families {
            new.families.truncate(1);
        }
        return errors;
    }
    let spec = Path::new("spec");
    let path = spec.child("ipFamilyPolicy");
    for (now, before, what) in
        [(&new.cluster_ips, &old.cluster_ips, "cluster IP"), (&new.families, &old.families, "IP family")]
    {
        if !now.is_empty() && now.len() < before.len() {
            let why = format!("must be 'SingleStack' to release the secondary {what}");
            errors.push(Error::invalid(&path, shown_policy(new), why));
        }
    }
    errors
}

/// The families of addresses that the client names.
fn infer(new: &mut Spec, cluster: Families) -> List {
    let mut errors = List::new();
    let spec = Path::new("spec");
    let path = spec.child("clusterIPs");
    for (place, ip) in new.cluster_ips.iter().enumerate().take_while(|(_, ip)| *ip != NONE) {
        if place < new.families.len() {
            continue;
        }
        let family = parse_lenient(ip).map_or("unknown", |address| Family::of(address).name());
        if cluster.has(family) {
            new.families.push(family.to_owned());
        } else {
            let why = format!("{family} is not configured on this cluster");
            errors.push(Error::invalid(&path.index(place), shown(&new.cluster_ips), why));
        }
    }
    errors
}

fn other(family: &str) -> &'static str {
    if family == Family::V4.name() { Family::V6.name() } else { Family::V4.name() }
}

fn fail(errors: List) -> Result<(), List> {
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

fn shown_policy(spec: &Spec) -> BadValue {
    spec.policy.as_deref().map_or(BadValue::Null, BadValue::from)
}

/// Addresses as they are shown in an error.
pub(crate) fn shown(texts: &[String]) -> BadValue {
    BadValue::Raw(kinds::object_meta::list_of_strings(texts.iter().map(String::as_str)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SINGLE_STACK: Families = Families { default: Family::V4, is_dual_stack: false };
    const DUAL_STACK: Families = Families { default: Family::V4, is_dual_stack: true };

    fn texts(list: &str) -> Vec<String> {
        list.split(',').filter(|text| !text.is_empty()).map(str::to_owned).collect()
    }

    /// A service with these addresses, families and this policy.
    fn spec(ips: &str, families: &str, policy: &str) -> Spec {
        Spec {
            kind: "ClusterIP".into(),
            cluster_ip: texts(ips).first().cloned().unwrap_or_default(),
            cluster_ips: texts(ips),
            families: texts(families),
            policy: (!policy.is_empty()).then(|| policy.to_owned()),
            has_selector: true,
            ..Spec::default()
        }
    }

    /// What becomes of a service: its addresses, families and policy, or the errors.
    fn completed(mut new: Spec, old: Option<&Spec>, cluster: Families) -> String {
        default_policy(&mut new, old);
        match complete(&mut new, old, cluster) {
            Ok(()) => format!(
                "{} {} {}",
                new.cluster_ips.join(","),
                new.families.join(","),
                new.policy.unwrap_or_default()
            ),
            Err(errors) => errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
        }
    }

    #[test]
    fn families_follow_addresses_policy_and_cluster() {
        for (ips, families, policy, single, dual) in [
            ("", "", "", " IPv4 SingleStack", " IPv4 SingleStack"),
            ("10.0.0.1", "", "", "10.0.0.1 IPv4 SingleStack", "10.0.0.1 IPv4 SingleStack"),
            ("", "", PREFER_DUAL, " IPv4 PreferDualStack", " IPv4,IPv6 PreferDualStack"),
            (
                "",
                "",
                REQUIRE_DUAL,
                "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack services",
                " IPv4,IPv6 RequireDualStack",
            ),
            (
                "",
                "IPv6",
                "",
                "spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster",
                " IPv6 SingleStack",
            ),
            (
                "fd00::1",
                "",
                "",
                "spec.clusterIPs[0]: Invalid value: []string{\"fd00::1\"}: IPv6 is not configured on this cluster",
                "fd00::1 IPv6 SingleStack",
            ),
            (
                "",
                "IPv6,IPv4",
                "",
                "spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified",
                "spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified",
            ),
        ] {
            let new = || spec(ips, families, policy);
            assert_eq!(completed(new(), None, SINGLE_STACK), single, "{ips} {families} {policy}");
            assert_eq!(completed(new(), None, DUAL_STACK), dual, "{ips} {families} {policy}");
        }
    }

    #[test]
    fn headless_services_without_a_selector_have_both_families_anywhere() {
        let headless =
            |families: &str, policy: &str| Spec { has_selector: false, ..spec(NONE, families, policy) };
        for (families, policy, expected) in [
            ("", "", "None IPv4,IPv6 RequireDualStack"),
            ("IPv6", PREFER_DUAL, "None IPv6,IPv4 PreferDualStack"),
            ("", SINGLE, "None IPv4 SingleStack"),
            ("IPv6", SINGLE, "None IPv6 SingleStack"),
        ] {
            assert_eq!(completed(headless(families, policy), None, SINGLE_STACK), expected);
        }
        assert_eq!(completed(spec(NONE, "", ""), None, DUAL_STACK), "None IPv4 SingleStack");
    }

    #[test]
    fn second_family_goes_by_policy_only() {
        let old = spec("10.0.0.1,fd00::1", "IPv4,IPv6", REQUIRE_DUAL);
        let update = |ips, families, policy| completed(spec(ips, families, policy), Some(&old), DUAL_STACK);
        assert_eq!(update("10.0.0.1,fd00::1", "IPv4,IPv6", SINGLE), "10.0.0.1 IPv4 SingleStack");
        assert_eq!(
            update("10.0.0.1", "IPv4", ""),
            "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": must be 'SingleStack' to release the secondary cluster IP; \
             spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": must be 'SingleStack' to release the secondary IP family"
        );
        let single = spec("10.0.0.1", "IPv4", SINGLE);
        let upgraded = completed(spec("10.0.0.1", "IPv4", PREFER_DUAL), Some(&single), DUAL_STACK);
        assert_eq!(upgraded, "10.0.0.1 IPv4,IPv6 PreferDualStack");
        let prefers = spec("10.0.0.1", "IPv4", PREFER_DUAL);
        assert!(stays_as_it_is(&prefers, &prefers));
        assert!(!stays_as_it_is(&prefers, &single));
        assert!(!stays_as_it_is(&Spec { kind: "NodePort".into(), ..prefers.clone() }, &prefers));
    }
}
