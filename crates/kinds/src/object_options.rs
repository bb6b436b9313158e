//! What the command line of a server says of objects.

/// The options about objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectOptions {
    /// Whether containers may be privileged.
    pub privileged: Privileged,
    /// The feature gates.
    pub gates: Gates,
}

/// Whether containers may be privileged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Privileged {
    /// They may.
    #[default]
    Allowed,
    /// They are refused.
    Refused,
}

/// The feature gates that decide which fields objects keep, which values are valid, and which objects the
/// server makes at its start. The defaults are those of the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gates {
    /// `PreferSameTrafficDistribution`.
    pub prefer_same_traffic_distribution: bool,
    /// `DynamicResourceAllocation`.
    pub dynamic_resource_allocation: bool,
    /// `CoordinatedLeaderElection`.
    pub coordinated_leader_election: bool,
    /// `InPlacePodVerticalScaling`.
    pub in_place_pod_vertical_scaling: bool,
    /// `MultiCIDRServiceAllocator`.
    pub multi_cidr_service_allocator: bool,
    /// `SELinuxChangePolicy`.
    pub selinux_change_policy: bool,
    /// `KubeletFineGrainedAuthz`.
    pub kubelet_fine_grained_authz: bool,
    /// `MaxUnavailableStatefulSet`.
    pub max_unavailable_stateful_set: bool,
    /// `StorageVersionAPI`.
    pub storage_version_api: bool,
    /// `ClusterTrustBundle`.
    pub cluster_trust_bundle: bool,
    /// `ClusterTrustBundleProjection`.
    pub cluster_trust_bundle_projection: bool,
}

impl Gates {
    /// The gates of a server without `--feature-gates`.
    pub const DEFAULT: Self = Self {
        prefer_same_traffic_distribution: false,
        dynamic_resource_allocation: false,
        coordinated_leader_election: false,
        in_place_pod_vertical_scaling: true,
        multi_cidr_service_allocator: true,
        selinux_change_policy: true,
        kubelet_fine_grained_authz: true,
        max_unavailable_stateful_set: false,
        storage_version_api: false,
        cluster_trust_bundle: false,
        cluster_trust_bundle_projection: false,
    };
}

impl Default for Gates {
    fn default() -> Self {
        Self::DEFAULT
    }
}
