//! The rules for containers on Windows hosts.

use super::{PodOptions, containers};
use crate::Privileged;
use object::field::{Error, List, Path};
use object::name::{dns1123_subdomain, invalid};
use schema::views::core::v1::{PodSpec, WindowsSecurityContextOptions};

/// The most bytes of a credential spec, in KiB.
const LONGEST_CREDENTIALS: usize = 64;
/// The domain of a user has fewer bytes.
const LONGEST_DOMAIN: usize = 256;
/// The most bytes of the name of a user.
const LONGEST_USER: usize = 104;
/// The most characters of a NetBIOS name.
const LONGEST_NETBIOS: usize = 15;

/// The field errors of the Windows options of a security context.
pub(super) fn options(options: Option<WindowsSecurityContextOptions<'_>>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let Some(options) = options else { return errors };
    if let Some(name) = options.gmsa_credential_spec_name() {
        errors.append(invalid(&path.child("gmsaCredentialSpecName"), name, dns1123_subdomain(name)));
    }
    if let Some(spec) = options.gmsa_credential_spec() {
        let path = path.child("gmsaCredentialSpec");
        if spec.is_empty() {
            errors.push(Error::invalid(&path, spec, "gmsaCredentialSpec cannot be an empty string"));
        } else if spec.len() > LONGEST_CREDENTIALS << 10 {
            let why = format!("gmsaCredentialSpec size must be under {LONGEST_CREDENTIALS} KiB");
            errors.push(Error::invalid(&path, spec, why));
        }
    }
    if let Some(name) = options.run_as_user_name() {
        errors.append(user_name(name, &path.child("runAsUserName")));
    }
    errors
}

/// The name of a user, with an optional domain before a backslash.
fn user_name(name: &str, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let mut refuse = |why: String| errors.push(Error::invalid(path, name, format!("runAsUserName{why}")));
    if name.is_empty() {
        refuse(" cannot be an empty string".into());
    } else if name.bytes().any(|byte| byte.is_ascii_control()) {
        refuse(" cannot contain control characters".into());
    } else if name.split('\\').count() > 2 {
        refuse(" cannot contain more than one backslash".into());
    } else {
        let (domain, user) = match name.split_once('\\') {
            Some((domain, user)) => (Some(domain), user),
            None => (None, name),
        };
        if let Some(domain) = domain {
            if domain.len() >= LONGEST_DOMAIN {
                refuse(format!("'s Domain length must be under {LONGEST_DOMAIN} characters"));
            }
            if !is_netbios(domain) && !is_dns(domain) {
                refuse("'s Domain doesn't match the NetBios nor the DNS format".into());
            }
        }
        if user.is_empty() {
            refuse("'s User cannot be empty".into());
        } else {
            if user.len() > LONGEST_USER {
                refuse(format!("'s User length must not be longer than {LONGEST_USER} characters"));
            }
            if user.bytes().all(|byte| matches!(byte, b'.' | b' ')) {
                refuse("'s User cannot contain only periods or spaces".into());
            }
            if user
                .contains(['"', '/', '\\', ':', ';', '|', '=', ',', '+', '*', '?', '<', '>', '@', '[', ']'])
            {
                refuse(r#"'s User cannot contain the following characters: "/\:;|=,+*?<>@[]"#.into());
            }
        }
    }
    errors
}

/// A NetBIOS domain: it does not start with a dot and has no special characters.
fn is_netbios(domain: &str) -> bool {
    !domain.is_empty()
        && !domain.starts_with('.')
        && domain.chars().count() <= LONGEST_NETBIOS
        && !domain.contains(['\\', '/', ':', '*', '?', '"', '<', '>', '|'])
}

/// A DNS domain in letters of any case.
fn is_dns(domain: &str) -> bool {
    let is_label = |label: &str| {
        label.len() <= 63
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && label.bytes().next().is_some_and(|byte| byte != b'-')
            && !label.ends_with('-')
    };
    domain.split('.').all(is_label)
}

/// The field errors of containers that run as processes of their host: all of a pod do, or none; `path` is
/// that of the pod spec.
pub(in crate::core) fn host_processes(spec: PodSpec<'_>, options: &PodOptions, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let of_pod = spec.security_context().and_then(|context| context.windows_options()?.host_process());
    let (mut all, mut processes) = (0, 0);
    containers::each(spec, path, |container, path| {
        all += 1;
        let own = container.security_context().and_then(|context| context.windows_options()?.host_process());
        if let (Some(of_pod), Some(own)) = (of_pod, own)
            && of_pod != own
        {
            let path = path.child("securityContext");
            let path = path.child("windowsOptions");
            let why = format!("pod hostProcess value must be identical if both are specified, was {of_pod}");
            errors.push(Error::invalid(&path.child("hostProcess"), own, why));
        }
        processes += usize::from(own.or(of_pod) == Some(true));
    });
    if processes == 0 {
        return errors;
    }
    if processes != all {
        let why =
            "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        errors.push(Error::invalid(path, "", why));
    }
    if !spec.host_network() {
        let why = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.push(Error::invalid(&path.child("hostNetwork"), false, why));
    }
    if options.privileged == Privileged::Refused {
        errors.push(Error::forbidden(path, "hostProcess containers are disallowed by cluster policy"));
    }
    errors
}
