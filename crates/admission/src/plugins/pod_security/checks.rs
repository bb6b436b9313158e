//! The checks of the levels: what a pod must not have, by the version of a policy.

use super::policy::{Level, LevelVersion, Version};
use object::Value;
use object::quote::quote;
use schema::view::View as _;
use schema::views::core::v1::{Container, PodSpec, SecurityContext, Volume};
use schema::views::meta::v1::ObjectMeta;
use std::collections::BTreeSet;

/// A pod, or the template of one.
#[derive(Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) metadata: ObjectMeta<'a>,
    pub(super) spec: PodSpec<'a>,
    /// Whether pods in a user namespace of their own may do more.
    pub(super) relaxes_user_namespaces: bool,
}

/// A violation that a check has found.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Violation {
    reason: &'static str,
    detail: String,
}

type CheckFn = fn(&Subject<'_>) -> Option<Violation>;

/// One check.
struct Check {
    level: Level,
    /// From which minor version on which function counts.
    versions: &'static [(u64, CheckFn)],
    /// From which minor version on a check of the restricted level takes its place there.
    replaced_from: Option<u64>,
}

const fn baseline(versions: &'static [(u64, CheckFn)]) -> Check {
    Check { level: Level::Baseline, versions, replaced_from: None }
}

const fn replaced(versions: &'static [(u64, CheckFn)], from: u64) -> Check {
    Check { level: Level::Baseline, versions, replaced_from: Some(from) }
}

const fn restricted(versions: &'static [(u64, CheckFn)]) -> Check {
    Check { level: Level::Restricted, versions, replaced_from: None }
}

/// All checks, in the order in which violations are listed.
const CHECKS: &[Check] = &[
    baseline(&[(0, app_armor_profile)]),
    replaced(&[(0, baseline_capabilities)], 22),
    baseline(&[(0, host_namespaces)]),
    replaced(&[(0, host_path_volumes)], 0),
    baseline(&[(0, host_ports)]),
    baseline(&[(0, privileged)]),
    baseline(&[(0, proc_mount)]),
    baseline(&[(0, se_linux_options), (31, se_linux_options_31)]),
    replaced(&[(0, seccomp_annotations), (19, seccomp_profile)], 19),
    baseline(&[(0, sysctls), (27, sysctls_27), (29, sysctls_29), (32, sysctls_32)]),
    baseline(&[(0, windows_host_process)]),
    restricted(&[(8, allow_privilege_escalation), (25, allow_privilege_escalation_25)]),
    restricted(&[(22, restricted_capabilities), (25, restricted_capabilities_25)]),
    restricted(&[(0, restricted_volumes)]),
    restricted(&[(0, run_as_non_root)]),
    restricted(&[(23, run_as_user)]),
    restricted(&[(19, restricted_seccomp_profile), (25, restricted_seccomp_profile_25)]),
];

/// The violations of a level by a pod.
pub(super) fn violations(asked: LevelVersion, subject: &Subject<'_>) -> Vec<Violation> {
    let minor = match asked.version {
        Version::Latest => u64::MAX,
        Version::Minor(minor) => minor,
    };
    let counts = |check: &&Check| {
        let is_replaced =
            asked.level == Level::Restricted && check.replaced_from.is_some_and(|from| from <= minor);
        check.level <= asked.level && !is_replaced
    };
    let checks = CHECKS.iter().filter(counts);
    let functions = checks.filter_map(|check| check.versions.iter().rfind(|(from, _)| *from <= minor));
    functions.filter_map(|(_, function)| function(subject)).collect()
}

/// The reasons of several violations, for a warning about many pods.
pub(super) fn reasons(violations: &[Violation]) -> String {
    let reasons: Vec<&str> = violations.iter().map(|violation| violation.reason).collect();
    reasons.join(", ")
}

/// Reasons and details of several violations.
pub(super) fn details(violations: &[Violation]) -> String {
    let shown: Vec<String> =
        violations.iter().map(|Violation { reason, detail }| format!("{reason} ({detail})")).collect();
    shown.join(", ")
}

impl<'a> Subject<'a> {
    /// All containers, in the order in which they are named.
    fn containers(&self) -> impl Iterator<Item = Container<'a>> + use<'a> {
        let spec = self.spec;
        // An ephemeral container has the fields of any other.
        let ephemeral = spec.ephemeral_containers().values().iter().filter_map(Value::as_map);
        spec.init_containers().iter().chain(spec.containers().iter()).chain(ephemeral.map(Container::of))
    }

    /// The names of the containers whose security context is like this.
    fn containers_with(&self, is_bad: impl Fn(SecurityContext<'a>) -> bool) -> Vec<&'a str> {
        let bad = |container: &Container<'a>| container.security_context().is_some_and(&is_bad);
        self.containers().filter(bad).map(|container| container.name()).collect()
    }

    fn is_windows(&self) -> bool {
        self.spec.os().is_some_and(|os| os.name() == "windows")
    }

    fn has_relaxed_user_namespace(&self) -> bool {
        self.relaxes_user_namespaces && self.spec.host_users() == Some(false)
    }
}

/// `"a", "b"`.
fn quoted<'t>(texts: impl IntoIterator<Item = &'t str>) -> String {
    let texts: Vec<String> = texts.into_iter().map(|text| format!("\"{text}\"")).collect();
    texts.join(", ")
}

fn plural<'t>(singular: &'t str, plural: &'t str, count: usize) -> &'t str {
    if count == 1 { singular } else { plural }
}

/// `containers "a", "b"`.
fn named(containers: &[&str]) -> String {
    let word = plural("container", "containers", containers.len());
    format!("{word} {}", quoted(containers.iter().copied()))
}

/// Who sets something that is not allowed: `pod and container "a"`; nobody for an empty text.
fn setters(pod: bool, containers: &[&str]) -> String {
    match (pod, containers.is_empty()) {
        (true, true) => "pod".to_owned(),
        (true, false) => format!("pod and {}", named(containers)),
        (false, true) => String::new(),
        (false, false) => named(containers),
    }
}

fn app_armor_profile(subject: &Subject<'_>) -> Option<Violation> {
    const ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";
    let is_bad = |ty: &str| !matches!(ty, "RuntimeDefault" | "Localhost");
    let pod = subject.spec.security_context().and_then(|context| context.app_armor_profile());
    let pod = pod.map(|profile| profile.r#type()).filter(|ty| is_bad(ty));
    let profile =
        |context: SecurityContext<'_>| context.app_armor_profile().is_some_and(|p| is_bad(p.r#type()));
    let containers = subject.containers_with(profile);
    let types =
        subject.containers().filter_map(|container| container.security_context()?.app_armor_profile());
    let mut values: BTreeSet<String> =
        types.map(|profile| profile.r#type()).chain(pod).filter(|ty| is_bad(ty)).map(str::to_owned).collect();
    let allowed =
        |value: &str| value.is_empty() || value == "runtime/default" || value.starts_with("localhost/");
    let annotations: BTreeSet<String> = subject
        .metadata
        .annotations()
        .iter()
        .filter(|(key, value)| key.starts_with(ANNOTATION) && !allowed(value))
        .map(|(key, value)| format!("{key}={}", quote(value)))
        .collect();
    let mut who: Vec<String> =
        [setters(pod.is_some(), &containers)].into_iter().filter(|who| !who.is_empty()).collect();
    if !annotations.is_empty() {
        who.push(plural("annotation", "annotations", annotations.len()).to_owned());
    }
    // Types first, then annotations, each in their order.
    let mut all: Vec<String> = std::mem::take(&mut values).into_iter().collect();
    all.extend(annotations);
    (!who.is_empty()).then(|| Violation {
        reason: plural("forbidden AppArmor profile", "forbidden AppArmor profiles", all.len()),
        detail: format!(
            "{} must not set AppArmor profile type to {}",
            who.join(" and "),
            quoted(all.iter().map(String::as_str))
        ),
    })
}

const DEFAULT_CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// The containers that add capabilities other than these, and what they add.
fn added<'a>(subject: &Subject<'a>, allowed: &[&str]) -> (Vec<&'a str>, BTreeSet<&'a str>) {
    let others = |container: &Container<'a>| {
        let capabilities = container.security_context().and_then(|context| context.capabilities());
        let added = capabilities.into_iter().flat_map(|capabilities| capabilities.add().iter());
        added.filter(|capability| !allowed.contains(capability)).collect::<Vec<_>>()
    };
    let (mut containers, mut capabilities) = (Vec::new(), BTreeSet::new());
    for container in subject.containers() {
        let others = others(&container);
        if !others.is_empty() {
            containers.push(container.name());
            capabilities.extend(others);
        }
    }
    (containers, capabilities)
}

fn baseline_capabilities(subject: &Subject<'_>) -> Option<Violation> {
    let (containers, capabilities) = added(subject, &DEFAULT_CAPABILITIES);
    (!containers.is_empty()).then(|| Violation {
        reason: "non-default capabilities",
        detail: format!(
            "{} must not include {} in securityContext.capabilities.add",
            named(&containers),
            quoted(capabilities)
        ),
    })
}

fn host_namespaces(subject: &Subject<'_>) -> Option<Violation> {
    let spec = subject.spec;
    let all = [
        (spec.host_network(), "hostNetwork=true"),
        (spec.host_pid(), "hostPID=true"),
        (spec.host_ipc(), "hostIPC=true"),
    ];
    let used: Vec<&str> = all.iter().filter(|(is_used, _)| *is_used).map(|(_, name)| *name).collect();
    (!used.is_empty()).then(|| Violation { reason: "host namespaces", detail: used.join(", ") })
}

fn host_path_volumes(subject: &Subject<'_>) -> Option<Violation> {
    let bad = subject.spec.volumes().iter().filter(|volume| volume.host_path().is_some());
    let names: Vec<&str> = bad.map(|volume| volume.name()).collect();
    let word = plural("volume", "volumes", names.len());
    (!names.is_empty())
        .then(|| Violation { reason: "hostPath volumes", detail: format!("{word} {}", quoted(names)) })
}

fn host_ports(subject: &Subject<'_>) -> Option<Violation> {
    let (mut containers, mut ports) = (Vec::new(), BTreeSet::new());
    for container in subject.containers() {
        let used = container.ports().iter().map(|port| port.host_port()).filter(|port| *port != 0);
        let used: Vec<String> = used.map(|port| port.to_string()).collect();
        if !used.is_empty() {
            containers.push(container.name());
            ports.extend(used);
        }
    }
    (!containers.is_empty()).then(|| Violation {
        reason: "hostPort",
        detail: format!(
            "{} {} {} {}",
            named(&containers),
            plural("uses", "use", containers.len()),
            plural("hostPort", "hostPorts", ports.len()),
            ports.into_iter().collect::<Vec<_>>().join(", ")
        ),
    })
}

fn privileged(subject: &Subject<'_>) -> Option<Violation> {
    let containers = subject.containers_with(|context| context.privileged() == Some(true));
    (!containers.is_empty()).then(|| Violation {
        reason: "privileged",
        detail: format!("{} must not set securityContext.privileged=true", named(&containers)),
    })
}

fn proc_mount(subject: &Subject<'_>) -> Option<Violation> {
    if subject.has_relaxed_user_namespace() {
        return None;
    }
    let mount = |context: SecurityContext<'_>| context.proc_mount().is_some_and(|mount| mount != "Default");
    let containers = subject.containers_with(mount);
    let mounts = subject.containers().filter_map(|container| container.security_context()?.proc_mount());
    let mounts: BTreeSet<&str> = mounts.filter(|mount| *mount != "Default").collect();
    (!containers.is_empty()).then(|| Violation {
        reason: "procMount",
        detail: format!(
            "{} must not set securityContext.procMount to {}",
            named(&containers),
            quoted(mounts)
        ),
    })
}

const SE_LINUX_TYPES: [&str; 5] =
    ["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"];

fn se_linux_options(subject: &Subject<'_>) -> Option<Violation> {
    se_linux(subject, SE_LINUX_TYPES.get(..4).unwrap_or_default())
}

fn se_linux_options_31(subject: &Subject<'_>) -> Option<Violation> {
    se_linux(subject, &SE_LINUX_TYPES)
}

fn se_linux(subject: &Subject<'_>, allowed: &[&str]) -> Option<Violation> {
    let pod = subject.spec.security_context().and_then(|context| context.se_linux_options());
    let of_containers =
        subject.containers().filter_map(|container| container.security_context()?.se_linux_options());
    let all: Vec<_> = pod.into_iter().chain(of_containers).collect();
    let types: BTreeSet<&str> =
        all.iter().map(|options| options.r#type()).filter(|ty| !allowed.contains(ty)).collect();
    let sets_user = all.iter().any(|options| !options.user().is_empty());
    let sets_role = all.iter().any(|options| !options.role().is_empty());
    let mut faults = Vec::new();
    if !types.is_empty() {
        faults.push(format!("{} {}", plural("type", "types", types.len()), quoted(types)));
    }
    for (is_set, fault) in [(sets_user, "user may not be set"), (sets_role, "role may not be set")] {
        if is_set {
            faults.push(fault.to_owned());
        }
    }
    if faults.is_empty() {
        return None;
    }
    let is_bad =
        |ty: &str, user: &str, role: &str| !allowed.contains(&ty) || !user.is_empty() || !role.is_empty();
    let containers = subject.containers_with(|context| {
        context
            .se_linux_options()
            .is_some_and(|options| is_bad(options.r#type(), options.user(), options.role()))
    });
    let pod = pod.is_some_and(|options| is_bad(options.r#type(), options.user(), options.role()));
    let who = setters(pod, &containers);
    let detail = format!("{who} set forbidden securityContext.seLinuxOptions: {}", faults.join("; "));
    Some(Violation { reason: "seLinuxOptions", detail })
}

fn seccomp_annotations(subject: &Subject<'_>) -> Option<Violation> {
    const POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
    const CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
    let allowed = |value: &str| {
        matches!(value, "runtime/default" | "docker/default") || value.starts_with("localhost/")
    };
    let annotations = subject.metadata.annotations();
    let keys = subject.containers().map(|container| format!("{CONTAINER}{}", container.name()));
    let bad = std::iter::once(POD.to_owned()).chain(keys).filter_map(|key| {
        let value = annotations.get(&key).filter(|value| !allowed(value))?;
        Some(format!("{key}={}", quote(value)))
    });
    let bad: Vec<String> = bad.collect::<BTreeSet<_>>().into_iter().collect();
    (!bad.is_empty()).then(|| Violation {
        reason: "seccompProfile",
        detail: format!("forbidden {} {}", plural("annotation", "annotations", bad.len()), bad.join(", ")),
    })
}

fn is_seccomp_type(ty: &str) -> bool {
    matches!(ty, "Localhost" | "RuntimeDefault")
}

fn seccomp_profile(subject: &Subject<'_>) -> Option<Violation> {
    let pod = subject.spec.security_context().and_then(|context| context.seccomp_profile());
    let pod = pod.map(|profile| profile.r#type()).filter(|ty| !is_seccomp_type(ty));
    let containers = subject.containers_with(|context| {
        context.seccomp_profile().is_some_and(|profile| !is_seccomp_type(profile.r#type()))
    });
    let who = setters(pod.is_some(), &containers);
    if who.is_empty() {
        return None;
    }
    let of_containers =
        subject.containers().filter_map(|container| container.security_context()?.seccomp_profile());
    let types = of_containers.map(|profile| profile.r#type()).chain(pod).filter(|ty| !is_seccomp_type(ty));
    let types = quoted(types.collect::<BTreeSet<_>>());
    let detail = format!("{who} must not set securityContext.seccompProfile.type to {types}");
    Some(Violation { reason: "seccompProfile", detail })
}

fn restricted_seccomp_profile(subject: &Subject<'_>) -> Option<Violation> {
    let explicit = seccomp_profile(subject);
    let pod = subject.spec.security_context().and_then(|context| context.seccomp_profile());
    if explicit.is_some() || pod.is_some() {
        return explicit;
    }
    let sets = |container: &Container<'_>| {
        container.security_context().is_some_and(|context| context.seccomp_profile().is_some())
    };
    let without: Vec<&str> =
        subject.containers().filter(|container| !sets(container)).map(|container| container.name()).collect();
    (!without.is_empty()).then(|| Violation {
        reason: "seccompProfile",
        detail: format!(
            r#"pod or {} must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost""#,
            named(&without)
        ),
    })
}

fn restricted_seccomp_profile_25(subject: &Subject<'_>) -> Option<Violation> {
    if subject.is_windows() { None } else { restricted_seccomp_profile(subject) }
}

/// The sysctls that are allowed, in the order in which they became so.
const SYSCTLS: [&str; 12] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
];

fn sysctls(subject: &Subject<'_>) -> Option<Violation> {
    first_sysctls(subject, 5)
}

fn sysctls_27(subject: &Subject<'_>) -> Option<Violation> {
    first_sysctls(subject, 6)
}

fn sysctls_29(subject: &Subject<'_>) -> Option<Violation> {
    first_sysctls(subject, 10)
}

fn sysctls_32(subject: &Subject<'_>) -> Option<Violation> {
    first_sysctls(subject, 12)
}

/// Allows the first of the list.
fn first_sysctls(subject: &Subject<'_>, count: usize) -> Option<Violation> {
    let allowed = SYSCTLS.get(..count).unwrap_or_default();
    let used = subject.spec.security_context().into_iter().flat_map(|context| context.sysctls().iter());
    let others: Vec<&str> = used.map(|sysctl| sysctl.name()).filter(|name| !allowed.contains(name)).collect();
    (!others.is_empty()).then(|| Violation { reason: "forbidden sysctls", detail: others.join(", ") })
}

fn windows_host_process(subject: &Subject<'_>) -> Option<Violation> {
    let pod = subject.spec.security_context().and_then(|context| context.windows_options());
    let pod = pod.is_some_and(|options| options.host_process() == Some(true));
    let containers = subject.containers_with(|context| {
        context.windows_options().is_some_and(|options| options.host_process() == Some(true))
    });
    let who = setters(pod, &containers);
    (!who.is_empty()).then(|| Violation {
        reason: "hostProcess",
        detail: format!("{who} must not set securityContext.windowsOptions.hostProcess=true"),
    })
}

fn allow_privilege_escalation(subject: &Subject<'_>) -> Option<Violation> {
    let forbids = |container: &Container<'_>| {
        container
            .security_context()
            .is_some_and(|context| context.allow_privilege_escalation() == Some(false))
    };
    let bad: Vec<&str> = subject
        .containers()
        .filter(|container| !forbids(container))
        .map(|container| container.name())
        .collect();
    (!bad.is_empty()).then(|| Violation {
        reason: "allowPrivilegeEscalation != false",
        detail: format!("{} must set securityContext.allowPrivilegeEscalation=false", named(&bad)),
    })
}

fn allow_privilege_escalation_25(subject: &Subject<'_>) -> Option<Violation> {
    if subject.is_windows() { None } else { allow_privilege_escalation(subject) }
}

fn restricted_capabilities(subject: &Subject<'_>) -> Option<Violation> {
    let drops_all = |container: &Container<'_>| {
        let capabilities = container.security_context().and_then(|context| context.capabilities());
        capabilities.is_some_and(|capabilities| capabilities.drop().iter().any(|name| name == "ALL"))
    };
    let keeping: Vec<&str> = subject
        .containers()
        .filter(|container| !drops_all(container))
        .map(|container| container.name())
        .collect();
    let (adding, capabilities) = added(subject, &["NET_BIND_SERVICE"]);
    let mut details = Vec::new();
    if !keeping.is_empty() {
        details.push(format!(r#"{} must set securityContext.capabilities.drop=["ALL"]"#, named(&keeping)));
    }
    if !adding.is_empty() {
        let capabilities = quoted(capabilities);
        let adding = named(&adding);
        details.push(format!("{adding} must not include {capabilities} in securityContext.capabilities.add"));
    }
    (!details.is_empty())
        .then(|| Violation { reason: "unrestricted capabilities", detail: details.join("; ") })
}

fn restricted_capabilities_25(subject: &Subject<'_>) -> Option<Violation> {
    if subject.is_windows() { None } else { restricted_capabilities(subject) }
}

/// The sources of volumes that the restricted level allows.
const SOURCES: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

/// The other sources of volumes, the first of which is named.
const RESTRICTED_SOURCES: [&str; 21] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "nfs",
    "iscsi",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
];

fn restricted_volumes(subject: &Subject<'_>) -> Option<Violation> {
    let has_one_of = |volume: &Volume<'_>, sources: &[&'static str]| {
        sources.iter().copied().find(|source| volume.map().get(source).is_some())
    };
    let bad: Vec<Volume<'_>> =
        subject.spec.volumes().iter().filter(|volume| has_one_of(volume, &SOURCES).is_none()).collect();
    if bad.is_empty() {
        return None;
    }
    let types: BTreeSet<&str> =
        bad.iter().map(|volume| has_one_of(volume, &RESTRICTED_SOURCES).unwrap_or("unknown")).collect();
    let detail = format!(
        "{} {} {} {} {}",
        plural("volume", "volumes", bad.len()),
        quoted(bad.iter().map(|volume| volume.name())),
        plural("uses", "use", bad.len()),
        plural("restricted volume type", "restricted volume types", types.len()),
        quoted(types)
    );
    Some(Violation { reason: "restricted volume types", detail })
}

fn run_as_non_root(subject: &Subject<'_>) -> Option<Violation> {
    if subject.has_relaxed_user_namespace() {
        return None;
    }
    let reason = "runAsNonRoot != true";
    let pod = subject.spec.security_context().and_then(|context| context.run_as_non_root());
    let explicit = subject.containers_with(|context| context.run_as_non_root() == Some(false));
    let who = setters(pod == Some(false), &explicit);
    if !who.is_empty() {
        let detail = format!("{who} must not set securityContext.runAsNonRoot=false");
        return Some(Violation { reason, detail });
    }
    if pod == Some(true) {
        return None;
    }
    let says = |container: &Container<'_>| {
        container.security_context().is_some_and(|context| context.run_as_non_root().is_some())
    };
    let silent: Vec<&str> =
        subject.containers().filter(|container| !says(container)).map(|container| container.name()).collect();
    (!silent.is_empty()).then(|| Violation {
        reason,
        detail: format!("pod or {} must set securityContext.runAsNonRoot=true", named(&silent)),
    })
}

fn run_as_user(subject: &Subject<'_>) -> Option<Violation> {
    if subject.has_relaxed_user_namespace() {
        return None;
    }
    let pod = subject.spec.security_context().and_then(|context| context.run_as_user());
    let containers = subject.containers_with(|context| context.run_as_user() == Some(0));
    let who = setters(pod == Some(0), &containers);
    (!who.is_empty())
        .then(|| Violation { reason: "runAsUser=0", detail: format!("{who} must not set runAsUser=0") })
}
