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

/// The feature gates that decide which fields objects keep, and which values are valid. The defaults are
/// those of the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gates {
    /// `PreferSameTrafficDistribution`.
    pub prefer_same_traffic_distribution: bool,
    /// `DynamicResourceAllocation`.
    pub dynamic_resource_allocation: bool,
    /// `CoordinatedLeaderElection`.
    pub coordinated_leader_election: bool,
}

impl Gates {
    /// The gates of a server without `--feature-gates`.
    pub const DEFAULT: Self = Self {
        prefer_same_traffic_distribution: false,
        dynamic_resource_allocation: false,
        coordinated_leader_election: false,
    };
}

impl Default for Gates {
    fn default() -> Self {
        Self::DEFAULT
    }
}
