//! What pods, volumes and attachments refer to. Only the fields that can refer to something are decoded.

use super::graph::VertexKind;
use cache::Entry;
use object::Text;
use schema::stored;
use schema::view::{Items, View};
use schema::views::core::v1;
use schema::views::storage;
use schema::{Builder, Error, Part, Ref, Type};
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// The annotation of a mirror pod: the kubelet made the pod, so its references grant the node nothing.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// A pod that is bound to a node.
pub(super) struct PodReferences {
    pub(super) node: Text,
    /// The objects in its namespace.
    pub(super) objects: BTreeSet<(VertexKind, Text)>,
}

/// A volume that is for a claim. Objects are given by namespace and name.
pub(super) struct VolumeReferences {
    pub(super) claim: (Text, Text),
    /// The secrets that a node needs to mount it.
    pub(super) secrets: BTreeSet<(Text, Text)>,
}

const CONTAINER: &[Part] = &[
    Part("envFrom", &[]),
    Part("env", &[Part("valueFrom", &[Part("configMapKeyRef", &[]), Part("secretKeyRef", &[])])]),
];

static POD: LazyLock<Ref<Type>> = LazyLock::new(|| {
    let parts = [
        Part("metadata", &[Part("annotations", &[])]),
        Part(
            "spec",
            &[
                Part("volumes", &[]),
                Part("initContainers", CONTAINER),
                Part("containers", CONTAINER),
                Part("ephemeralContainers", CONTAINER),
                Part("serviceAccountName", &[]),
                Part("imagePullSecrets", &[]),
                Part("resourceClaims", &[]),
            ],
        ),
        Part("status", &[Part("resourceClaimStatuses", &[])]),
    ];
    Builder::part_of(v1::Pod::schema(), &parts).build()
});

static VOLUME: LazyLock<Ref<Type>> = LazyLock::new(|| {
    let spec = Part("spec", &[]);
    Builder::part_of(v1::PersistentVolume::schema(), &[spec]).build()
});

static ATTACHMENT: LazyLock<Ref<Type>> = LazyLock::new(|| {
    let spec = Part("spec", &[Part("nodeName", &[])]);
    Builder::part_of(storage::v1::VolumeAttachment::schema(), &[spec]).build()
});

/// The references of a pod; none if it is not bound.
pub(super) fn of_pod(entry: &Entry) -> Result<Option<PodReferences>, Error> {
    let node = entry.field("spec.nodeName").unwrap_or_default();
    if node.is_empty() {
        return Ok(None);
    }
    let pod = stored::decode_part(&POD, entry.bytes())?;
    let pod = v1::Pod::of(&pod);
    let is_mirror = pod.metadata().annotations().get(MIRROR).is_some();
    let objects = if is_mirror { BTreeSet::new() } else { objects_of_pod(pod, entry.name()) };
    Ok(Some(PodReferences { node: node.into(), objects }))
}

/// The secrets in its namespace that a pod refers to, bound or not.
pub fn secrets_of_pod(entry: &Entry) -> Result<BTreeSet<Text>, Error> {
    let pod = stored::decode_part(&POD, entry.bytes())?;
    let objects = objects_of_pod(v1::Pod::of(&pod), entry.name()).into_iter();
    Ok(objects.filter_map(|(kind, name)| (kind == VertexKind::Secret).then_some(name)).collect())
}

fn objects_of_pod(pod: v1::Pod<'_>, name: &str) -> BTreeSet<(VertexKind, Text)> {
    let spec = pod.spec();
    let mut objects = BTreeSet::new();
    let mut add = |kind, name: &str| {
        if !name.is_empty() {
            objects.insert((kind, Text::from(name)));
        }
    };
    add(VertexKind::ServiceAccount, spec.service_account_name());
    spec.image_pull_secrets().iter().for_each(|secret| add(VertexKind::Secret, secret.name()));
    spec.init_containers().iter().for_each(|of| of_container(of.env_from(), of.env(), &mut add));
    spec.containers().iter().for_each(|of| of_container(of.env_from(), of.env(), &mut add));
    spec.ephemeral_containers().iter().for_each(|of| of_container(of.env_from(), of.env(), &mut add));
    for volume in spec.volumes().iter() {
        secrets_of_source(volume).iter().for_each(|secret| add(VertexKind::Secret, secret));
        add(VertexKind::ConfigMap, volume.config_map().map_or("", |map| map.name()));
        for source in volume.projected().iter().flat_map(|projected| projected.sources().iter()) {
            add(VertexKind::Secret, source.secret().map_or("", |secret| secret.name()));
            add(VertexKind::ConfigMap, source.config_map().map_or("", |map| map.name()));
        }
        if let Some(claim) = volume.persistent_volume_claim() {
            add(VertexKind::PersistentVolumeClaim, claim.claim_name());
        } else if volume.ephemeral().is_some() {
            add(VertexKind::PersistentVolumeClaim, &format!("{name}-{}", volume.name()));
        }
    }
    for claim in spec.resource_claims().iter() {
        let statuses = pod.status().resource_claim_statuses();
        let generated = || statuses.iter().find(|status| status.name() == claim.name());
        let name = match (claim.resource_claim_name(), claim.resource_claim_template_name()) {
            (Some(name), _) => Some(name),
            (None, Some(_)) => generated().and_then(|status| status.resource_claim_name()),
            (None, None) => None,
        };
        add(VertexKind::ResourceClaim, name.unwrap_or_default());
    }
    objects
}

fn of_container<'a>(
    env_from: Items<'a, v1::EnvFromSource<'a>>,
    env: Items<'a, v1::EnvVar<'a>>,
    add: &mut impl FnMut(VertexKind, &str),
) {
    for source in env_from.iter() {
        add(VertexKind::Secret, source.secret_ref().map_or("", |secret| secret.name()));
        add(VertexKind::ConfigMap, source.config_map_ref().map_or("", |map| map.name()));
    }
    for source in env.iter().filter_map(|variable| variable.value_from()) {
        add(VertexKind::Secret, source.secret_key_ref().map_or("", |secret| secret.name()));
        add(VertexKind::ConfigMap, source.config_map_key_ref().map_or("", |map| map.name()));
    }
}

/// The secrets of the source of a volume, which is one of these; empty for the others.
fn secrets_of_source<'a>(volume: v1::Volume<'a>) -> [&'a str; 10] {
    let name = |secret: Option<v1::LocalObjectReference<'a>>| secret.map_or("", |secret| secret.name());
    [
        volume.secret().map_or("", |source| source.secret_name()),
        volume.azure_file().map_or("", |source| source.secret_name()),
        volume.cephfs().map_or("", |source| name(source.secret_ref())),
        volume.cinder().map_or("", |source| name(source.secret_ref())),
        volume.flex_volume().map_or("", |source| name(source.secret_ref())),
        volume.rbd().map_or("", |source| name(source.secret_ref())),
        volume.scale_io().map_or("", |source| name(source.secret_ref())),
        volume.iscsi().map_or("", |source| name(source.secret_ref())),
        volume.storageos().map_or("", |source| name(source.secret_ref())),
        volume.csi().map_or("", |source| name(source.node_publish_secret_ref())),
    ]
}

/// The node of a resource slice; empty if the slice is not that of one node.
pub(super) fn of_slice(entry: &Entry) -> Result<Text, Error> {
    Ok(entry.field("spec.nodeName").unwrap_or_default().into())
}

/// The references of a volume; none if it is for no claim.
pub(super) fn of_volume(entry: &Entry) -> Result<Option<VolumeReferences>, Error> {
    let volume = stored::decode_part(&VOLUME, entry.bytes())?;
    let spec = v1::PersistentVolume::of(&volume).spec();
    let Some(claim) = spec.claim_ref() else { return Ok(None) };
    let secrets = secrets_of_volume(spec, claim.namespace());
    let secrets = secrets.into_iter().filter(|(_, name)| !name.is_empty());
    let secrets = secrets.map(|(namespace, name)| (namespace.into(), name.into())).collect();
    Ok(Some(VolumeReferences { claim: (claim.namespace().into(), claim.name().into()), secrets }))
}

/// The namespaces and names of the secrets of a volume that nodes may see. Old volumes have no namespace
/// there: it is that of their claim.
fn secrets_of_volume<'a>(spec: v1::PersistentVolumeSpec<'a>, of_claim: &'a str) -> Vec<(&'a str, &'a str)> {
    let given = |secret: v1::SecretReference<'a>| (secret.namespace(), secret.name());
    let or_of_claim = |secret: v1::SecretReference<'a>| match given(secret) {
        ("", name) => (of_claim, name),
        given => given,
    };
    let mut secrets = Vec::new();
    if let Some(source) = spec.azure_file() {
        let namespace = source.secret_namespace().filter(|namespace| !namespace.is_empty());
        secrets.push((namespace.unwrap_or(of_claim), source.secret_name()));
    }
    let old = [
        spec.cephfs().and_then(|source| source.secret_ref()),
        spec.flex_volume().and_then(|source| source.secret_ref()),
        spec.rbd().and_then(|source| source.secret_ref()),
        spec.scale_io().and_then(|source| source.secret_ref()),
        spec.iscsi().and_then(|source| source.secret_ref()),
    ];
    secrets.extend(old.into_iter().flatten().map(or_of_claim));
    secrets.extend(spec.cinder().and_then(|source| source.secret_ref()).map(given));
    let storageos = spec.storageos().and_then(|source| source.secret_ref());
    secrets.extend(storageos.map(|secret| (secret.namespace(), secret.name())));
    if let Some(source) = spec.csi() {
        let of_nodes = [
            source.node_publish_secret_ref(),
            source.node_stage_secret_ref(),
            source.node_expand_secret_ref(),
        ];
        secrets.extend(of_nodes.into_iter().flatten().map(given));
    }
    secrets
}

/// The node of a volume attachment.
pub(super) fn of_attachment(entry: &Entry) -> Result<Text, Error> {
    let attachment = stored::decode_part(&ATTACHMENT, entry.bytes())?;
    Ok(storage::v1::VolumeAttachment::of(&attachment).spec().node_name().into())
}
