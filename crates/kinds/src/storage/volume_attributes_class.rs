//! `volumeattributesclasses`.

use crate::{Kind, Scope, Version};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "storage.k8s.io",
    resource: "volumeattributesclasses",
    singular: "volumeattributesclass",
    kind: "VolumeAttributesClass",
    short_names: &["vac"],
    scope: Scope::Cluster,
    versions: &[Version::on_request("v1beta1"), Version::on_request("v1alpha1")],
    ..Kind::PLAIN
};
