//! The feature gates of the reference at 1.33: for each, its stages by release.

use super::{Gate, Spec, Stage};

const fn gate(name: &'static str, specs: &'static [Spec]) -> Gate {
    Gate { name, specs }
}

const fn spec(since: u64, stage: Stage, default: bool) -> Spec {
    Spec { since, stage, default, locked: false }
}

const fn alpha(since: u64) -> Spec {
    spec(since, Stage::Alpha, false)
}

const fn beta(since: u64) -> Spec {
    spec(since, Stage::Beta, true)
}

/// A beta feature that is off by default.
const fn beta_off(since: u64) -> Spec {
    spec(since, Stage::Beta, false)
}

/// A generally available feature whose gate can still be changed.
const fn ga(since: u64) -> Spec {
    spec(since, Stage::Ga, true)
}

/// What a feature was before it was deprecated, if that was off.
const fn ga_off(since: u64) -> Spec {
    spec(since, Stage::Ga, false)
}

/// A generally available feature that is always on.
const fn ga_locked(since: u64) -> Spec {
    Spec { locked: true, ..ga(since) }
}

const fn deprecated(since: u64) -> Spec {
    spec(since, Stage::Deprecated, false)
}

/// A deprecated feature that is still on by default.
const fn deprecated_on(since: u64) -> Spec {
    spec(since, Stage::Deprecated, true)
}

/// A deprecated feature that is always off.
const fn deprecated_locked(since: u64) -> Spec {
    Spec { locked: true, ..deprecated(since) }
}

/// The table, sorted by name. A number is the minor of a release 1.x; 0 is every release.
pub(super) const GATES: &[Gate] = &[
    gate("APIResponseCompression", &[alpha(8), beta(16)]),
    gate("APIServerIdentity", &[alpha(20), beta(26)]),
    gate("APIServerTracing", &[alpha(22), beta(27)]),
    gate("APIServingWithRoutine", &[alpha(30)]),
    gate("AggregatedDiscoveryRemoveBetaType", &[ga_off(0), deprecated_on(33)]),
    gate("AllAlpha", &[alpha(0)]),
    gate("AllBeta", &[beta_off(0)]),
    gate("AllowDNSOnlyNodeCSR", &[ga(0), deprecated(31)]),
    gate("AllowInsecureKubeletCertificateSigningRequests", &[ga(0), deprecated(31)]),
    gate("AllowOverwriteTerminationGracePeriodSeconds", &[ga(0), deprecated(32)]),
    gate("AllowParsingUserUIDFromCertAuth", &[beta(33)]),
    gate("AllowServiceLBStatusOnNonLB", &[ga(0), deprecated(29), deprecated_locked(32)]),
    gate("AllowUnsafeMalformedObjectDeletion", &[alpha(32)]),
    gate("AnonymousAuthConfigurableEndpoints", &[alpha(31), beta(32)]),
    gate("AnyVolumeDataSource", &[alpha(18), beta(24), ga_locked(33)]),
    gate("AuthorizeNodeWithSelectors", &[alpha(31), beta(32)]),
    gate("AuthorizeWithSelectors", &[alpha(31), beta(32)]),
    gate("BtreeWatchCache", &[beta(32), ga_locked(33)]),
    gate("CBORServingAndStorage", &[alpha(32)]),
    gate("CPUManagerPolicyAlphaOptions", &[alpha(23)]),
    gate("CPUManagerPolicyBetaOptions", &[beta(23)]),
    gate("CPUManagerPolicyOptions", &[alpha(22), beta(23), ga_locked(33)]),
    gate("CRDValidationRatcheting", &[alpha(28), beta(30), ga_locked(33)]),
    gate("CSIMigrationPortworx", &[alpha(23), beta_off(25), beta(31), ga_locked(33)]),
    gate("CSIVolumeHealth", &[alpha(21)]),
    gate("ClientsAllowCBOR", &[alpha(0)]),
    gate("ClientsPreferCBOR", &[alpha(0)]),
    gate("CloudControllerManagerWebhook", &[alpha(27)]),
    gate("ClusterTrustBundle", &[alpha(27), beta_off(33)]),
    gate("ClusterTrustBundleProjection", &[alpha(29), beta_off(33)]),
    gate("ComponentFlagz", &[alpha(32)]),
    gate("ComponentSLIs", &[alpha(26), beta(27), ga_locked(32)]),
    gate("ComponentStatusz", &[alpha(32)]),
    gate("ConcurrentWatchObjectDecode", &[beta_off(31)]),
    gate("ConsistentListFromCache", &[alpha(28), beta(31)]),
    gate("ContainerCheckpoint", &[alpha(25), beta(30)]),
    gate("ContainerStopSignals", &[alpha(33)]),
    gate("ContextualLogging", &[alpha(24), beta(30)]),
    gate("CoordinatedLeaderElection", &[alpha(31), beta_off(33)]),
    gate("CronJobsScheduledAnnotation", &[beta(28), ga_locked(32)]),
    gate("CrossNamespaceVolumeDataSource", &[alpha(26)]),
    gate("CustomCPUCFSQuotaPeriod", &[alpha(12)]),
    gate("CustomResourceFieldSelectors", &[alpha(30), beta(31), ga_locked(32)]),
    gate("DRAAdminAccess", &[alpha(32)]),
    gate("DRADeviceTaints", &[alpha(33)]),
    gate("DRAPartitionableDevices", &[alpha(33)]),
    gate("DRAPrioritizedList", &[alpha(33)]),
    gate("DRAResourceClaimDeviceStatus", &[alpha(32), beta(33)]),
    gate("DeclarativeValidation", &[beta(33)]),
    gate("DeclarativeValidationTakeover", &[beta_off(33)]),
    gate("DeploymentReplicaSetTerminatingReplicas", &[alpha(33)]),
    gate("DevicePluginCDIDevices", &[alpha(28), beta(29), ga_locked(31)]),
    gate("DisableAllocatorDualWrite", &[alpha(31), beta_off(33)]),
    gate("DisableCPUQuotaWithExclusiveCPUs", &[beta(33)]),
    gate("DisableNodeKubeProxyVersion", &[alpha(29), deprecated(31), deprecated_on(33)]),
    gate("DynamicResourceAllocation", &[alpha(26), beta_off(32)]),
    gate("ElasticIndexedJob", &[beta(27), ga_locked(31)]),
    gate("EventedPLEG", &[alpha(26)]),
    gate("ExecProbeTimeout", &[ga(20)]),
    gate("ExternalServiceAccountTokenSigner", &[alpha(32)]),
    gate("GitRepoVolumeDriver", &[ga(0), deprecated(33)]),
    gate("GracefulNodeShutdown", &[alpha(20), beta(21)]),
    gate("GracefulNodeShutdownBasedOnPodPriority", &[alpha(23), beta(24)]),
    gate("HPAConfigurableTolerance", &[alpha(33)]),
    gate("HPAScaleToZero", &[alpha(16)]),
    gate("HonorPVReclaimPolicy", &[alpha(23), beta(31), ga_locked(33)]),
    gate("ImageMaximumGCAge", &[alpha(29), beta(30)]),
    gate("ImageVolume", &[alpha(31), beta_off(33)]),
    gate("InOrderInformers", &[beta(0)]),
    gate("InPlacePodVerticalScaling", &[alpha(27), beta(33)]),
    gate("InPlacePodVerticalScalingAllocatedStatus", &[alpha(32), deprecated(33)]),
    gate("InPlacePodVerticalScalingExclusiveCPUs", &[alpha(32)]),
    gate("InTreePluginPortworxUnregister", &[alpha(23)]),
    gate("InformerResourceVersion", &[alpha(0)]),
    gate("JobBackoffLimitPerIndex", &[alpha(28), beta(29), ga_locked(33)]),
    gate("JobManagedBy", &[alpha(30), beta(32)]),
    gate("JobPodReplacementPolicy", &[alpha(28), beta(29)]),
    gate("JobSuccessPolicy", &[alpha(30), beta(31), ga_locked(33)]),
    gate("KMSv1", &[ga(0), deprecated_on(28), deprecated(29)]),
    gate("KubeletCgroupDriverFromCRI", &[alpha(28), beta(31)]),
    gate("KubeletCrashLoopBackOffMax", &[alpha(32)]),
    gate("KubeletEnsureSecretPulledImages", &[alpha(33)]),
    gate("KubeletFineGrainedAuthz", &[alpha(32), beta(33)]),
    gate("KubeletInUserNamespace", &[alpha(22)]),
    gate("KubeletPSI", &[alpha(33)]),
    gate("KubeletPodResourcesDynamicResources", &[alpha(27)]),
    gate("KubeletPodResourcesGet", &[alpha(27)]),
    gate("KubeletRegistrationGetOnExistsOnly", &[ga(0), deprecated(32)]),
    gate("KubeletSeparateDiskGC", &[alpha(29), beta(31)]),
    gate("KubeletServiceAccountTokenForCredentialProviders", &[alpha(33)]),
    gate("KubeletTracing", &[alpha(25), beta(27)]),
    gate("LegacySidecarContainers", &[ga(0), deprecated(33)]),
    gate("ListFromCacheSnapshot", &[alpha(33)]),
    gate("LoadBalancerIPMode", &[alpha(29), beta(30), ga_locked(32)]),
    gate("LocalStorageCapacityIsolationFSQuotaMonitoring", &[alpha(15), beta_off(31)]),
    gate("LogarithmicScaleDown", &[alpha(21), beta(22), ga_locked(31)]),
    gate("LoggingAlphaOptions", &[alpha(24)]),
    gate("LoggingBetaOptions", &[beta(24)]),
    gate("MatchLabelKeysInPodAffinity", &[alpha(29), beta(31), ga_locked(33)]),
    gate("MatchLabelKeysInPodTopologySpread", &[alpha(25), beta(27)]),
    gate("MaxUnavailableStatefulSet", &[alpha(24)]),
    gate("MemoryManager", &[alpha(21), beta(22), ga_locked(32)]),
    gate("MemoryQoS", &[alpha(22)]),
    gate("MultiCIDRServiceAllocator", &[alpha(27), beta_off(31), ga(33)]),
    gate("MutableCSINodeAllocatableCount", &[alpha(33)]),
    gate("MutatingAdmissionPolicy", &[alpha(32)]),
    gate("NFTablesProxyMode", &[alpha(29), beta(31), ga_locked(33)]),
    gate("NodeInclusionPolicyInPodTopologySpread", &[alpha(25), beta(26), ga_locked(33)]),
    gate("NodeLogQuery", &[alpha(27), beta_off(30)]),
    gate("NodeSwap", &[alpha(22), beta_off(28), beta(30)]),
    gate("OpenAPIEnums", &[alpha(23), beta(24)]),
    gate("OrderedNamespaceDeletion", &[beta_off(30), beta(33)]),
    gate("PodAndContainerStatsFromCRI", &[alpha(23)]),
    gate("PodDeletionCost", &[alpha(21), beta(22)]),
    gate("PodDisruptionConditions", &[alpha(25), beta(26), ga_locked(31)]),
    gate("PodIndexLabel", &[beta(28), ga_locked(32)]),
    gate("PodLevelResources", &[alpha(32)]),
    gate("PodLifecycleSleepAction", &[alpha(29), beta(30)]),
    gate("PodLifecycleSleepActionAllowZero", &[alpha(32), beta(33)]),
    gate("PodLogsQuerySplitStreams", &[alpha(32)]),
    gate("PodObservedGenerationTracking", &[alpha(33)]),
    gate("PodReadyToStartContainersCondition", &[alpha(28), beta(29)]),
    gate("PodSchedulingReadiness", &[alpha(26), beta(27), ga_locked(30)]),
    gate("PodTopologyLabelsAdmission", &[alpha(33)]),
    gate("PortForwardWebsockets", &[alpha(30), beta(31)]),
    gate("PreferSameTrafficDistribution", &[alpha(33)]),
    gate("ProcMountType", &[alpha(12), beta_off(31), beta(33)]),
    gate("QOSReserved", &[alpha(11)]),
    gate("RecoverVolumeExpansionFailure", &[alpha(23), beta(32)]),
    gate("RecursiveReadOnlyMounts", &[alpha(30), beta(31), ga_locked(33)]),
    gate("ReduceDefaultCrashLoopBackOffDecay", &[alpha(33)]),
    gate("RelaxedDNSSearchValidation", &[alpha(32), beta(33)]),
    gate("RelaxedEnvironmentVariableValidation", &[alpha(30), beta(32)]),
    gate("ReloadKubeletServerCertificateFile", &[beta(31)]),
    gate("RemoteRequestHeaderUID", &[alpha(32), beta(33)]),
    gate("ResilientWatchCacheInitialization", &[beta(31)]),
    gate("ResourceHealthStatus", &[alpha(31)]),
    gate("RetryGenerateName", &[alpha(30), beta(31), ga_locked(32)]),
    gate("RotateKubeletServerCertificate", &[alpha(7), beta(12)]),
    gate("RuntimeClassInImageCriApi", &[alpha(29)]),
    gate("SELinuxChangePolicy", &[alpha(32), beta(33)]),
    gate("SELinuxMount", &[alpha(30), beta_off(33)]),
    gate("SELinuxMountReadWriteOncePod", &[alpha(25), beta_off(27), beta(28)]),
    gate("SchedulerAsyncPreemption", &[alpha(32), beta(33)]),
    gate("SchedulerPopFromBackoffQ", &[beta(33)]),
    gate("SchedulerQueueingHints", &[beta_off(28), beta(32)]),
    gate("SeparateCacheWatchRPC", &[beta(28), deprecated(33)]),
    gate("SeparateTaintEvictionController", &[beta(29)]),
    gate("ServiceAccountNodeAudienceRestriction", &[beta_off(32), beta(33)]),
    gate("ServiceAccountTokenJTI", &[alpha(29), beta(30), ga_locked(32)]),
    gate("ServiceAccountTokenNodeBinding", &[alpha(29), beta(31), ga_locked(33)]),
    gate("ServiceAccountTokenNodeBindingValidation", &[alpha(29), beta(30), ga_locked(32)]),
    gate("ServiceAccountTokenPodNodeInfo", &[alpha(29), beta(30), ga_locked(32)]),
    gate("ServiceTrafficDistribution", &[alpha(30), beta(31), ga_locked(33)]),
    gate("SidecarContainers", &[alpha(28), beta(29), ga_locked(33)]),
    gate("SizeMemoryBackedVolumes", &[alpha(20), beta(22), ga_locked(32)]),
    gate("StatefulSetAutoDeletePVC", &[alpha(23), beta(27), ga_locked(32)]),
    gate("StatefulSetStartOrdinal", &[alpha(26), beta(27), ga_locked(31)]),
    gate("StorageCapacityScoring", &[alpha(33)]),
    gate("StorageNamespaceIndex", &[beta(30), deprecated_on(33)]),
    gate("StorageVersionAPI", &[alpha(20)]),
    gate("StorageVersionHash", &[alpha(14), beta(15)]),
    gate("StorageVersionMigrator", &[alpha(30)]),
    gate("StreamingCollectionEncodingToJSON", &[beta(33)]),
    gate("StreamingCollectionEncodingToProtobuf", &[beta(33)]),
    gate("StrictCostEnforcementForVAP", &[beta_off(30), ga_locked(32)]),
    gate("StrictCostEnforcementForWebhooks", &[beta_off(30), ga_locked(32)]),
    gate("StrictIPCIDRValidation", &[alpha(33)]),
    gate("StructuredAuthenticationConfiguration", &[alpha(29), beta(30)]),
    gate("StructuredAuthorizationConfiguration", &[alpha(29), beta(30), ga_locked(32)]),
    gate("SupplementalGroupsPolicy", &[alpha(31), beta(33)]),
    gate("SystemdWatchdog", &[beta(32)]),
    gate("TopologyAwareHints", &[alpha(21), beta_off(23), beta(24), ga_locked(33)]),
    gate("TopologyManagerPolicyAlphaOptions", &[alpha(26)]),
    gate("TopologyManagerPolicyBetaOptions", &[beta_off(26), beta(28)]),
    gate("TopologyManagerPolicyOptions", &[alpha(26), beta(28), ga(32)]),
    gate("TranslateStreamCloseWebsocketRequests", &[alpha(29), beta(30)]),
    gate("UnauthenticatedHTTP2DOSMitigation", &[beta_off(25), beta(29)]),
    gate("UnknownVersionInteroperabilityProxy", &[alpha(28)]),
    gate("UserNamespacesPodSecurityStandards", &[alpha(29)]),
    gate("UserNamespacesSupport", &[alpha(25), beta_off(30), beta(33)]),
    gate("VolumeAttributesClass", &[alpha(29), beta_off(31)]),
    gate("WatchCacheInitializationPostStartHook", &[beta_off(31)]),
    gate("WatchFromStorageWithoutResourceVersion", &[beta_off(27), deprecated_locked(33)]),
    gate("WatchList", &[alpha(27), beta(32), beta_off(33)]),
    gate("WatchListClient", &[beta_off(0)]),
    gate("WinDSR", &[alpha(14), beta(33)]),
    gate("WinOverlay", &[alpha(14), beta(20)]),
    gate("WindowsCPUAndMemoryAffinity", &[alpha(32)]),
    gate("WindowsGracefulNodeShutdown", &[alpha(32)]),
    gate("WindowsHostNetwork", &[alpha(26), deprecated(33)]),
];
