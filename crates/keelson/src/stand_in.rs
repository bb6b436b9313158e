//! What the program is by the name it was started by, and what is different then.
//!
//! Under the name `kube-apiserver` it stands in for that: no controllers run, no pods are assigned to nodes
//! and no nodes are played, as far as flags and the environment do not say more; and an `--etcd-servers` that
//! is not an etcd but `keelson etcd` means the embedded store in the folder that this names. Under the name
//! `etcd` it is `keelson etcd`.

use std::path::Path;
use std::time::Duration;

use envtest::StorageFolder;
use storage::Backend;

use crate::options::ServerOptions;

/// Which controllers run under the name `kube-apiserver`, as `--controllers`.
const CONTROLLERS: &str = "KEELSON_CONTROLLERS";
/// Further flags under the name `kube-apiserver`, with spaces between them: who starts it has fixed ones.
const FLAGS: &str = "KEELSON_FLAGS";
/// How long requests in flight may take to finish in a server whose objects nobody will miss.
const DRAIN: Duration = Duration::from_millis(50);

/// What the program is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    /// Itself.
    Keelson,
    /// kube-apiserver.
    ApiServer,
    /// etcd.
    Etcd,
}

impl Program {
    /// The program by the path that it was started by.
    pub(crate) fn named(path: &str) -> Self {
        match Path::new(path).file_name().and_then(|name| name.to_str()) {
            Some("kube-apiserver") => Self::ApiServer,
            Some("etcd") => Self::Etcd,
            _ => Self::Keelson,
        }
    }
}

/// The flags of a kube-apiserver: those of the environment come first, so those of the command line win. The
/// error names a variable.
pub(crate) fn api_server_arguments(
    arguments: Vec<String>,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Vec<String>, String> {
    let controllers = variable(CONTROLLERS).unwrap_or_default();
    let controllers = if controllers.trim().is_empty() { "-*" } else { controllers.trim() };
    controllers::Selection::default().add(controllers).map_err(|error| format!("{CONTROLLERS}: {error}"))?;
    let own =
        [format!("--controllers={controllers}"), "--scheduler=off".to_owned(), "--fake-nodes=off".to_owned()];
    let flags = variable(FLAGS).unwrap_or_default();
    let flags = flags.split_whitespace().map(str::to_owned);
    Ok(own.into_iter().chain(flags).chain(arguments).collect())
}

/// Has the server keep its objects in the folder of `keelson etcd`, if that is what `--etcd-servers` names.
/// Blocking.
pub(crate) fn find_storage(options: &mut ServerOptions) {
    let is_etcd = options.storage.backend == Backend::Etcd;
    if let [server] = options.storage.etcd.servers.as_slice()
        && is_etcd
        && let Some(folder) = envtest::probe(server)
    {
        log::info!(etcd = server.as_str(), folder:% = folder.path.display(); "objects are kept in the folder that the etcd names");
        keep_in(options, &folder);
    }
}

fn keep_in(options: &mut ServerOptions, folder: &StorageFolder) {
    let storage = &mut options.storage;
    if options.data_dir.is_none() {
        storage.data_dir = folder.of_prefix(&storage.etcd.prefix);
    }
    storage.backend = Backend::Embedded;
    storage.syncs &= folder.is_synced;
    if !folder.is_synced {
        options.drain = Some(DRAIN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags;

    fn parsed(line: &str, controllers: &str, further: &str) -> ServerOptions {
        let variable = |name: &str| match name {
            CONTROLLERS => Some(controllers.to_owned()),
            FLAGS => Some(further.to_owned()),
            _ => None,
        };
        let words = line.split_whitespace().map(str::to_owned).collect();
        flags::parse(api_server_arguments(words, variable).unwrap()).unwrap().options
    }

    fn running(options: &ServerOptions) -> usize {
        controllers::CONTROLLERS.iter().filter(|each| options.controllers.runs(each)).count()
    }

    #[test]
    fn name_of_the_file_says_what_the_program_is() {
        for (path, program) in [
            ("/assets/kube-apiserver", Program::ApiServer),
            ("kube-apiserver", Program::ApiServer),
            ("./etcd", Program::Etcd),
            ("/usr/bin/keelson", Program::Keelson),
            ("/etcd/keelson", Program::Keelson),
            ("kube-apiserver-2", Program::Keelson),
            ("", Program::Keelson),
        ] {
            assert_eq!(Program::named(path), program, "{path}");
        }
    }

    #[test]
    fn api_server_has_no_controllers_unless_they_are_asked_for() {
        let none = parsed("--allow-privileged=true", "", "");
        assert_eq!((running(&none), none.scheduler, none.plays_nodes), (0, Some(false), Some(false)));
        let all = parsed("", " * ", "--scheduler=on --fake-nodes=2");
        assert_eq!(running(&all), controllers::CONTROLLERS.len());
        assert_eq!((all.scheduler, all.plays_nodes, all.nodes.count), (Some(true), Some(true), 2));
        let two = parsed("", "namespace-controller,garbage-collector-controller", "");
        assert_eq!(running(&two), 2);
        assert!(two.controllers.runs(&controllers::GARBAGE_COLLECTOR));
        assert_eq!(running(&parsed("--controllers=*", "", "")), controllers::CONTROLLERS.len());
        let wrong = api_server_arguments(Vec::new(), |name| (name == CONTROLLERS).then(|| "x".to_owned()));
        assert!(wrong.unwrap_err().starts_with("KEELSON_CONTROLLERS: \"x\""));
    }

    #[test]
    fn flags_of_the_command_line_win_over_those_of_the_environment() {
        assert_eq!(parsed("--secure-port=2", "", "--secure-port=1 -v4").secure_port, 2);
        assert_eq!(parsed("", "", "--secure-port=1 -v4").verbosity, 4);
    }

    #[test]
    fn folder_of_the_shim_is_the_data_directory() {
        let folder = StorageFolder { path: "/d".into(), is_synced: false };
        let mut options = parsed("--etcd-servers=http://127.0.0.1:1 --cert-dir=/c", "", "");
        keep_in(&mut options, &folder);
        let storage = &options.storage;
        assert_eq!((storage.backend, storage.syncs), (Backend::Embedded, false));
        assert_eq!(storage.data_dir, Path::new("/d/registry"));
        assert!(options.drain.is_some());

        let mut options =
            parsed("--etcd-servers=http://127.0.0.1:1 --etcd-prefix=/x --data-dir=/mine", "", "");
        keep_in(&mut options, &StorageFolder { is_synced: true, ..folder });
        assert_eq!(options.storage.data_dir, Path::new("/mine"));
        assert!(options.storage.syncs && options.drain.is_none());
    }

    #[test]
    fn etcd_that_does_not_answer_stays_an_etcd() {
        let mut options = parsed("--etcd-servers=https://127.0.0.1:1", "", "");
        find_storage(&mut options);
        assert_eq!((options.storage.backend, options.drain), (Backend::Etcd, None));
    }

    /// As envtest passes them, sorted, in all its versions.
    const ENVTEST: &str = "--allow-privileged=true --authorization-mode=RBAC --bind-address=127.0.0.1 --cert-dir=/d \
        --client-ca-file=/d/client-cert-auth-ca.crt --disable-admission-plugins=ServiceAccount \
        --etcd-servers=http://127.0.0.1:4001 --secure-port=4003 --service-account-issuer=https://127.0.0.1:4003/ \
        --service-account-key-file=/d/sa-signer.crt --service-account-signing-key-file=/d/sa-signer.key \
        --service-cluster-ip-range=10.0.0.0/24";

    /// What public test suites add to them.
    const SUITES: &str = "--token-auth-file=/t --feature-gates=WatchList=true --runtime-config=api/all=true \
        --enable-admission-plugins=OwnerReferencesPermissionEnforcement,MutatingAdmissionWebhook \
        --disable-admission-plugins= --authorization-mode=RBAC,Webhook \
        --authorization-webhook-config-file=/w --authorization-webhook-cache-authorized-ttl=1s \
        --authorization-webhook-cache-unauthorized-ttl=1s --authentication-token-webhook-config-file=/a \
        --max-requests-inflight=800 --max-mutating-requests-inflight=400 --delete-collection-workers=2 \
        --advertise-address=127.0.0.1 --etcd-prefix=/x --audit-policy-file=/p --audit-log-path=-";

    /// As kwokctl passes them.
    const KWOK: &str = "--etcd-prefix=/registry --allow-privileged=true --endpoint-reconciler-type=none \
        --admission-control= --runtime-config=api/legacy=true --feature-gates=WatchList=true --max-requests-inflight=0 \
        --max-mutating-requests-inflight=0 --enable-priority-and-fairness=false --etcd-servers=http://127.0.0.1:4001 \
        --authorization-mode=Node,RBAC --bind-address=127.0.0.1 --secure-port=4003 --tls-cert-file=/c \
        --tls-private-key-file=/k --client-ca-file=/ca --service-account-key-file=/k \
        --service-account-signing-key-file=/k --service-account-issuer=https://kubernetes.default.svc.cluster.local \
        --proxy-client-key-file=/k --proxy-client-cert-file=/c --requestheader-client-ca-file=/ca \
        --requestheader-allowed-names=front-proxy-client --requestheader-username-headers=X-Remote-User \
        --requestheader-group-headers=X-Remote-Group --requestheader-extra-headers-prefix=X-Remote-Extra- \
        --audit-policy-file=/p --audit-log-path=/l --tracing-config-file=/t --v=4";

    #[test]
    fn command_lines_of_other_projects_are_accepted() {
        for line in [ENVTEST, &format!("{ENVTEST} {SUITES}"), KWOK] {
            let options = parsed(line, "", "");
            assert_eq!(options.storage.backend, Backend::Etcd);
            assert_eq!(options.secure_port, 4003);
        }
        assert_eq!(parsed(ENVTEST, "", "").storage.data_dir, Path::new("/d/keelson"));
    }

    #[test]
    fn help_has_no_flag_that_envtest_would_add() {
        assert!(!flags::help::text().lines().any(|line| line.trim_start().starts_with("--insecure-port")));
    }
}
