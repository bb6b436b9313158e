//! The rules for the operating system of a pod.

use super::containers;
use object::field::{Error, List, Path};
use schema::view::Item;
use schema::views::core::v1::{PodSecurityContext, PodSpec};

const FOR_WINDOWS: &str = "windows options cannot be set for a linux pod";
const NOT_FOR_WINDOWS: &str = "cannot be set for a windows pod";

/// The field errors of the operating system of a pod, and of fields that are for another one; `path` is that
/// of the pod spec.
pub(in crate::core) fn validate(spec: PodSpec<'_>, path: &Path<'_>) -> List {
    let Some(os) = spec.os() else { return List::new() };
    match os.name() {
        "linux" => linux(spec, path),
        "windows" => windows(spec, path),
        "" => Error::required(&path.child("os").child("name"), "cannot be empty").into(),
        other => Error::not_supported(&path.child("os"), other, ["linux", "windows"]).into(),
    }
}

fn linux(spec: PodSpec<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    if spec.security_context().is_some_and(|context| context.windows_options().is_some()) {
        errors.push(Error::forbidden(&path.child("securityContext").child("windowsOptions"), FOR_WINDOWS));
    }
    containers::each(spec, path, |container, path| {
        if container.security_context().is_some_and(|context| context.windows_options().is_some()) {
            let path = path.child("securityContext");
            errors.push(Error::forbidden(&path.child("windowsOptions"), FOR_WINDOWS));
        }
    });
    errors
}

fn windows(spec: PodSpec<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let context = spec.security_context().unwrap_or_else(PodSecurityContext::absent);
    let own = path.child("securityContext");
    let mut refuse = |is_set: bool, path: &Path<'_>, field: &str| {
        if is_set {
            errors.push(Error::forbidden(&path.child(field), NOT_FOR_WINDOWS));
        }
    };
    refuse(context.app_armor_profile().is_some(), &own, "appArmorProfile");
    refuse(context.se_linux_options().is_some(), &own, "seLinuxOptions");
    refuse(spec.host_users().is_some(), path, "hostUsers");
    refuse(spec.host_pid(), path, "hostPID");
    refuse(spec.host_ipc(), path, "hostIPC");
    refuse(context.seccomp_profile().is_some(), &own, "seccompProfile");
    refuse(context.fs_group().is_some(), &own, "fsGroup");
    refuse(context.fs_group_change_policy().is_some(), &own, "fsGroupChangePolicy");
    refuse(!context.sysctls().is_empty(), &own, "sysctls");
    refuse(spec.share_process_namespace().is_some(), path, "shareProcessNamespace");
    refuse(context.run_as_user().is_some(), &own, "runAsUser");
    refuse(context.run_as_group().is_some(), &own, "runAsGroup");
    refuse(!context.supplemental_groups().is_empty(), &own, "supplementalGroups");
    refuse(context.supplemental_groups_policy().is_some(), &own, "supplementalGroupsPolicy");
    refuse(context.se_linux_change_policy().is_some(), &own, "seLinuxChangePolicy");
    containers::each(spec, path, |container, path| {
        let Some(context) = container.security_context() else { return };
        let own = path.child("securityContext");
        refuse(context.app_armor_profile().is_some(), &own, "appArmorProfile");
        refuse(context.se_linux_options().is_some(), &own, "seLinuxOptions");
        refuse(context.seccomp_profile().is_some(), &own, "seccompProfile");
        refuse(context.capabilities().is_some(), &own, "capabilities");
        refuse(context.read_only_root_filesystem().is_some(), &own, "readOnlyRootFilesystem");
        refuse(context.privileged().is_some(), &own, "privileged");
        refuse(context.allow_privilege_escalation().is_some(), &own, "allowPrivilegeEscalation");
        refuse(context.proc_mount().is_some(), &own, "procMount");
        refuse(context.run_as_user().is_some(), &own, "runAsUser");
        refuse(context.run_as_group().is_some(), &own, "runAsGroup");
    });
    errors
}
