//! The rules for the security contexts of pods and containers.

#[cfg(test)]
mod tests;

use super::{PodOptions, windows};
use crate::core::local_path;
use crate::seen::Seen;
use crate::{Privileged, checks};
use object::field::{Error, List, Path};
use object::name::user_id;
use schema::view::{Item, View};
use schema::views::core::v1::{
    AppArmorProfile, Container, PodSecurityContext, PodSpec, SeccompProfile, SecurityContext,
};

pub(in crate::core) use super::os::validate as os;
pub(in crate::core) use windows::host_processes as windows_host_processes;

/// The most bytes of the name of a sysctl.
const LONGEST_SYSCTL: usize = 253;
/// What the names of sysctls match.
const SYSCTL: &str = r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
/// The most bytes of the name of an AppArmor profile.
const LONGEST_PROFILE: usize = 4095;
/// Where profiles come from.
const PROFILE_TYPES: &[&str] = &["Localhost", "RuntimeDefault", "Unconfined"];

/// The field errors of the security context of a pod; `path` is that of the pod spec.
pub(in crate::core) fn pod(spec: PodSpec<'_>, options: &PodOptions, path: &Path<'_>) -> List {
    let path = path.child("securityContext");
    let context = spec.security_context().unwrap_or_else(PodSecurityContext::absent);
    let mut errors = List::new();
    errors.append(id(context.fs_group(), &path.child("fsGroup")));
    errors.append(id(context.run_as_user(), &path.child("runAsUser")));
    errors.append(id(context.run_as_group(), &path.child("runAsGroup")));
    for (at, group) in context.supplemental_groups().iter().enumerate() {
        errors.append(id(Some(group), &path.child("supplementalGroups").index(at)));
    }
    if spec.share_process_namespace() == Some(true) && spec.host_pid() {
        let why = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.push(Error::invalid(&path.child("shareProcessNamespace"), true, why));
    }
    errors.append(sysctls(spec, context, options, &path.child("sysctls")));
    if let Some(policy) = context.fs_group_change_policy() {
        let path = path.child("fsGroupChangePolicy");
        errors.extend(checks::one_of(policy, &["Always", "OnRootMismatch"], &path));
    }
    errors.append(seccomp(context.seccomp_profile(), &path.child("seccompProfile")));
    errors.append(windows::options(context.windows_options(), &path.child("windowsOptions")));
    errors.append(app_armor(context.app_armor_profile(), &path.child("appArmorProfile")));
    if let Some(policy) = context.supplemental_groups_policy() {
        let path = path.child("supplementalGroupsPolicy");
        errors.extend(checks::one_of(policy, &["Merge", "Strict"], &path));
    }
    if let Some(policy) = context.se_linux_change_policy() {
        let policies: &[&str] = match options.any_selinux_change_policy {
            true => &["MountOption", "Recursive"],
            false => &["Recursive"],
        };
        errors.extend(checks::one_of(policy, policies, &path.child("seLinuxChangePolicy")));
    }
    errors
}

/// The field errors of the security context of a container at `path`.
pub(super) fn container(
    container: Container<'_>,
    spec: PodSpec<'_>,
    options: &PodOptions,
    path: &Path<'_>,
) -> List {
    let mut errors = List::new();
    let Some(context) = container.security_context() else { return errors };
    if context.privileged() == Some(true) && options.privileged == Privileged::Refused {
        errors.push(Error::forbidden(&path.child("privileged"), "disallowed by cluster policy"));
    }
    errors.append(id(context.run_as_user(), &path.child("runAsUser")));
    errors.append(id(context.run_as_group(), &path.child("runAsGroup")));
    if let Some(kind) = context.proc_mount() {
        let path = path.child("procMount");
        errors.extend(checks::one_of(kind, &["Default", "Unmasked"], &path));
        if kind == "Unmasked" && uses_host_users(spec) {
            errors.push(Error::invalid(&path, kind, "`hostUsers` must be false to use `Unmasked`"));
        }
    }
    errors.append(seccomp(context.seccomp_profile(), &path.child("seccompProfile")));
    if context.allow_privilege_escalation() == Some(false) {
        errors.append(escalations(container, context, path));
    }
    errors.append(windows::options(context.windows_options(), &path.child("windowsOptions")));
    errors.append(app_armor(context.app_armor_profile(), &path.child("appArmorProfile")));
    errors
}

/// What contradicts that there is no privilege escalation.
fn escalations(container: Container<'_>, context: SecurityContext<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let mut refuse = |why: &'static str| {
        errors.push_with(|| Error::invalid(path, checks::shown(container.map().get("securityContext")), why));
    };
    if context.privileged() == Some(true) {
        refuse("cannot set `allowPrivilegeEscalation` to false and `privileged` to true");
    }
    let added = context.capabilities().into_iter().flat_map(|capabilities| capabilities.add().iter());
    for _ in added.filter(|capability| *capability == "CAP_SYS_ADMIN") {
        refuse("cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN");
    }
    errors
}

/// The field errors of a pod in a user namespace; `path` is that of the pod spec.
pub(in crate::core) fn host_users(spec: PodSpec<'_>, path: &Path<'_>) -> List {
    if uses_host_users(spec) {
        return List::new();
    }
    let fields =
        [(spec.host_network(), "hostNetwork"), (spec.host_pid(), "HostPID"), (spec.host_ipc(), "HostIPC")];
    let set = fields.into_iter().filter(|(is_set, _)| *is_set);
    set.map(|(_, field)| Error::forbidden(&path.child(field), "when `pod.Spec.HostUsers` is false")).collect()
}

fn uses_host_users(spec: PodSpec<'_>) -> bool {
    spec.host_users().unwrap_or(true)
}

/// The number of a user or a group; both have the same range.
fn id(id: Option<i64>, path: &Path<'_>) -> List {
    let Some(id) = id else { return List::new() };
    user_id(id).into_iter().map(|why| Error::invalid(path, id, why)).collect()
}

fn seccomp(profile: Option<SeccompProfile<'_>>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let Some(profile) = profile else { return errors };
    let local = path.child("localhostProfile");
    match profile.r#type() {
        "" => {
            let why = "type is required when seccompProfile is set";
            errors.push(Error::required(&path.child("type"), why));
        }
        text => errors.extend(checks::one_of(text, PROFILE_TYPES, &path.child("type"))),
    }
    match (profile.r#type(), profile.localhost_profile()) {
        ("Localhost", None) => {
            errors.push(Error::required(&local, "must be set when seccomp type is Localhost"));
        }
        ("Localhost", Some(name)) => errors.append(local_path::descending(name, &local)),
        (_, None) => {}
        (_, Some(_)) => {
            let shown = schema::bad_value(&profile.map().clone().into());
            errors.push(Error::invalid(&local, shown, "can only be set when seccomp type is Localhost"));
        }
    }
    errors
}

fn app_armor(profile: Option<AppArmorProfile<'_>>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let Some(profile) = profile else { return errors };
    let local = path.child("localhostProfile");
    let missing = || Error::required(&local, "must be set when AppArmor type is Localhost");
    match (profile.r#type(), profile.localhost_profile()) {
        ("Localhost", None | Some("")) => errors.push(missing()),
        ("Localhost", Some(name)) => {
            if name.trim() != name {
                errors.push(Error::invalid(&local, name, "must not be padded with whitespace"));
            }
            if name.len() > LONGEST_PROFILE {
                errors.push(Error::too_long(&local, Some(LONGEST_PROFILE)));
            }
        }
        ("RuntimeDefault" | "Unconfined", Some(name)) => {
            errors.push(Error::invalid(&local, name, "can only be set when AppArmor type is Localhost"));
        }
        ("RuntimeDefault" | "Unconfined", None) => {}
        ("", _) => {
            let why = "type is required when appArmorProfile is set";
            errors.push(Error::required(&path.child("type"), why));
        }
        (other, _) => errors.extend(checks::one_of(other, PROFILE_TYPES, &path.child("type"))),
    }
    errors
}

fn sysctls(
    spec: PodSpec<'_>,
    context: PodSecurityContext<'_>,
    options: &PodOptions,
    path: &Path<'_>,
) -> List {
    let mut errors = List::new();
    let mut names = Seen::new();
    for (at, sysctl) in context.sysctls().iter().enumerate() {
        let path = path.index(at);
        let (path, name) = (path.child("name"), sysctl.name());
        let is_new = names.insert(name);
        if name.is_empty() {
            errors.push(Error::required(&path, ""));
        } else if !is_sysctl(name) {
            let why = format!("must have at most {LONGEST_SYSCTL} characters and match regex {SYSCTL}");
            errors.push(Error::invalid(&path, name, why));
        } else if !is_new {
            errors.push(Error::duplicate(&path, name));
        }
        if !options.host_sysctls
            && let Some(field) = shared_namespace(spec, name)
        {
            errors.push(Error::invalid(&path, name, format!("may not be specified when '{field}' is true")));
        }
    }
    errors
}

/// Whether a pod sets a sysctl of a namespace that it shares with the host.
pub(super) fn has_host_sysctls(spec: PodSpec<'_>) -> bool {
    let context = spec.security_context().unwrap_or_else(PodSecurityContext::absent);
    context.sysctls().iter().any(|sysctl| shared_namespace(spec, sysctl.name()).is_some())
}

/// Parts of letters and digits, with dashes and underscores between them, split by dots or slashes.
fn is_sysctl(name: &str) -> bool {
    let is_inner = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
    let is_part = |part: &str| {
        part.bytes().all(is_inner)
            && part.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric())
            && part.bytes().next_back().is_some_and(|byte| byte.is_ascii_alphanumeric())
    };
    name.len() <= LONGEST_SYSCTL && name.split(['.', '/']).all(is_part)
}

/// The field that makes a pod share the namespace of a sysctl with its host.
fn shared_namespace(spec: PodSpec<'_>, sysctl: &str) -> Option<&'static str> {
    let (host_network, host_ipc) = (spec.host_network(), spec.host_ipc());
    if !host_network && !host_ipc {
        return None;
    }
    let name = with_dots(sysctl);
    let name = name.split('*').next().unwrap_or_default();
    if name.starts_with("net.") {
        return host_network.then_some("hostNetwork");
    }
    (host_ipc && is_ipc(name)).then_some("hostIPC")
}

fn is_ipc(name: &str) -> bool {
    name.starts_with("fs.mqueue.")
        || matches!(
            name.strip_prefix("kernel."),
            Some(
                "sem"
                    | "shmall"
                    | "shmmax"
                    | "shmmni"
                    | "shm_rmid_forced"
                    | "shm"
                    | "msgmax"
                    | "msgmnb"
                    | "msgmni"
                    | "msg"
            )
        )
}

/// The form `net.ipv4.conf.eno2/100` of a name that may have the form `net/ipv4/conf/eno2.100`.
fn with_dots(sysctl: &str) -> String {
    match sysctl.find(['.', '/']) {
        Some(at) if sysctl.as_bytes().get(at) == Some(&b'/') => {
            let swap = |character| match character {
                '.' => '/',
                '/' => '.',
                other => other,
            };
            sysctl.chars().map(swap).collect()
        }
        _ => sysctl.to_owned(),
    }
}
