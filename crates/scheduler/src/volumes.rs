//! The volumes of pods: claims that have to be bound, volumes that are only on some nodes, and volumes that
//! two pods cannot share.

mod claims;

pub(crate) use claims::{Binding, Prepared, Refusal, SELECTED_NODE, Storage, prepare};

use crate::node::Node;
use object::Text;
use schema::views::core::v1::{PodSpec, Volume};

/// The volumes of a pod that matter for the choice of a node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Volumes {
    /// Volumes by claim.
    pub(crate) claims: Vec<Claimed>,
    /// Disks that pods of one node may not share.
    disks: Vec<Disk>,
}

/// A volume by claim.
#[derive(Clone, Debug)]
pub(crate) struct Claimed {
    /// The name of the claim.
    pub(crate) name: Text,
    /// The claim is made for the pod, and ends with it.
    pub(crate) is_ephemeral: bool,
}

/// A disk that is named in the pod itself.
#[derive(Clone, Debug)]
enum Disk {
    /// Shared by readers only, like those of the next two.
    Gce { name: Text, is_read_only: bool },
    /// An iSCSI target, by its qualified name.
    Iscsi { name: Text, is_read_only: bool },
    /// A Ceph image.
    Rbd { monitors: Vec<Text>, pool: Text, image: Text, is_read_only: bool },
    /// Never shared.
    Aws { id: Text },
}

impl Volumes {
    /// The volumes of a pod; `None` if none matters.
    pub(crate) fn new(pod: &str, spec: PodSpec<'_>) -> Option<Box<Self>> {
        let mut all = Self::default();
        for volume in spec.volumes().iter() {
            if let Some(claim) = volume.persistent_volume_claim() {
                all.claims.push(Claimed { name: claim.claim_name().into(), is_ephemeral: false });
            } else if volume.ephemeral().is_some() {
                let name = format!("{pod}-{}", volume.name());
                all.claims.push(Claimed { name: name.into(), is_ephemeral: true });
            }
            all.disks.extend(Disk::of(volume));
        }
        (!all.claims.is_empty() || !all.disks.is_empty()).then(|| Box::new(all))
    }

    /// Whether pods on a node have disks that these cannot be shared with.
    pub(crate) fn conflict(&self, node: &Node) -> bool {
        let others = || node.pods.iter().filter_map(|pod| pod.volumes.as_ref());
        self.disks
            .iter()
            .any(|own| others().any(|volumes| volumes.disks.iter().any(|other| own.conflicts(other))))
    }
}

impl Disk {
    fn of(volume: Volume<'_>) -> Option<Self> {
        if let Some(disk) = volume.gce_persistent_disk() {
            return Some(Self::Gce { name: disk.pd_name().into(), is_read_only: disk.read_only() });
        }
        if let Some(disk) = volume.aws_elastic_block_store() {
            return Some(Self::Aws { id: disk.volume_id().into() });
        }
        if let Some(disk) = volume.iscsi() {
            return Some(Self::Iscsi { name: disk.iqn().into(), is_read_only: disk.read_only() });
        }
        let disk = volume.rbd()?;
        Some(Self::Rbd {
            monitors: disk.monitors().iter().map(Text::from).collect(),
            pool: disk.pool().into(),
            image: disk.image().into(),
            is_read_only: disk.read_only(),
        })
    }

    fn conflicts(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Gce { name: a, is_read_only: x }, Self::Gce { name: b, is_read_only: y })
            | (Self::Iscsi { name: a, is_read_only: x }, Self::Iscsi { name: b, is_read_only: y }) => {
                a == b && !(*x && *y)
            }
            (Self::Aws { id: a }, Self::Aws { id: b }) => a == b,
            (
                Self::Rbd { monitors: a, pool: p, image: i, is_read_only: x },
                Self::Rbd { monitors: b, pool: q, image: j, is_read_only: y },
            ) => a.iter().any(|monitor| b.contains(monitor)) && p == q && i == j && !(*x && *y),
            _ => false,
        }
    }
}
