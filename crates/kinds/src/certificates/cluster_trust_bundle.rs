//! `clustertrustbundles`, with the feature gate `ClusterTrustBundle`: certificates of authorities for
//! everybody. A bundle of a signer has the name of the signer before its own.

use super::validate::signer_name;
use crate::cells::NONE;
use crate::{
    About, Cell, Column, Kind, NameRule, Refusal, Rules, Scope, SelectableFields, SelectableRow, Strategy,
    Version, checks, columns, object_meta, x509,
};
use object::Map;
use object::field::{Error, List, Path};
use object::name::{Messages, Mode, name_is_dns_subdomain};
use schema::view::View;
use schema::views::certificates::v1beta1::ClusterTrustBundle;

/// The most bytes of a bundle.
const MOST_BYTES: usize = 1 << 20;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "certificates.k8s.io",
    resource: "clustertrustbundles",
    singular: "clustertrustbundle",
    kind: "ClusterTrustBundle",
    versions: &[
        Version::on_request("v1beta1").stored().introduced(33).deprecated(36).removed(39),
        Version::on_request("v1alpha1").introduced(26).deprecated(34).removed(37),
    ],
    scope: Scope::Cluster,
    columns: columns!(|object| {
        let signer = ClusterTrustBundle::of(object).spec().signer_name();
    } [
        Column::NAME => Cell::name(object),
        Column::text("SignerName", About::Field("certificates.v1beta1.ClusterTrustBundleSpec", "signerName"))
            => Cell::text(if signer.is_empty() { NONE } else { signer }),
    ]),
    fields: SelectableFields {
        list: &[SelectableRow::at(&["spec.signerName"])],
        refusal: Refusal::NotSupported,
    },
    strategy: &ClusterTrustBundleStrategy,
    ..Kind::PLAIN
};

struct ClusterTrustBundleStrategy;

impl Strategy for ClusterTrustBundleStrategy {
    fn validate_create(&self, object: &Map, _rules: &Rules<'_>) -> List {
        let mut errors = named(object);
        errors.append(trust_bundle(object));
        errors
    }

    fn validate_update(&self, new: &Map, old: &Map, rules: &Rules<'_>) -> List {
        let [spec, old_spec] = [new, old].map(|object| ClusterTrustBundle::of(object).spec());
        let mut errors = named(new);
        // What was valid once stays so.
        if spec.trust_bundle() != old_spec.trust_bundle() {
            errors.append(trust_bundle(new));
        }
        errors.append(rules.metadata_update(new, old));
        let path = Path::new("spec");
        errors.extend(checks::same_text(
            spec.signer_name(),
            old_spec.signer_name(),
            &path.child("signerName"),
        ));
        errors
    }

    /// The rule depends on the signer: [`bundle_name`].
    fn name_rule(&self) -> NameRule {
        NameRule::PathSegment
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }
}

/// The errors of the metadata, and of the signer.
fn named(object: &Map) -> List {
    let signer = ClusterTrustBundle::of(object).spec().signer_name();
    let mut errors =
        object_meta::validate_named(object, Scope::Cluster, |name, mode| bundle_name(signer, name, mode));
    errors.append(object_meta::validate_finalizer_names(object));
    if !signer.is_empty() {
        errors.append(signer_name(signer, &Path::new("spec").child("signerName")));
    }
    errors
}

/// The rule for the name of a bundle of a signer; the signer is empty if the bundle has none.
pub(crate) fn bundle_name(signer: &str, name: &str, mode: Mode) -> Messages {
    if signer.is_empty() {
        return match name.contains(':') {
            true => vec![r#"ClusterTrustBundle without signer name must not have ":" in its name"#.into()],
            false => name_is_dns_subdomain(name, mode),
        };
    }
    let prefix = format!("{}:", signer.replace('/', ":"));
    match name.strip_prefix(&prefix) {
        Some(own) => name_is_dns_subdomain(own, mode),
        None => vec![
            format!("ClusterTrustBundle for signerName {signer} must be named with prefix {prefix}").into(),
        ],
    }
}

fn trust_bundle(object: &Map) -> List {
    let parent = Path::new("spec");
    let path = parent.child("trustBundle");
    let bundle = ClusterTrustBundle::of(object).spec().trust_bundle();
    if bundle.len() > MOST_BYTES {
        return Error::too_long(&path, Some(MOST_BYTES)).into();
    }
    let faults = x509::trust_anchor_faults(bundle.as_bytes());
    faults.into_iter().map(|why| Error::invalid(&path, "<value omitted>", why)).collect()
}

#[cfg(test)]
mod tests;
