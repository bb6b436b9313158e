//! The files beside the server in a folder for `KUBEBUILDER_ASSETS`. They find the server by their own place,
//! so the folder may be moved.

/// `etcd`: the server beside it, as a shim. The shell is replaced, so signals reach the process.
pub(crate) const ETCD: &str = r#"#!/bin/sh
# In place of etcd: it stores nothing, and names a folder to the server beside it. See `kube-apiserver etcd --help`.
case $0 in
*/*) here=${0%/*} ;;
*) here=. ;;
esac
exec "$here/kube-apiserver" etcd "$@"
"#;

/// `kubectl`: the first one of the `PATH` that is not such a script that was run already.
pub(crate) const KUBECTL: &str = r#"#!/bin/sh
# In place of kubectl: runs the first other one of the PATH.
KEELSON_KUBECTL_RAN=$KEELSON_KUBECTL_RAN:$0:
export KEELSON_KUBECTL_RAN
ifs=$IFS
IFS=:
set -f
for folder in $PATH; do
	kubectl=${folder:-.}/kubectl
	if [ ! -f "$kubectl" ] || [ ! -x "$kubectl" ] || [ "$kubectl" -ef "$0" ]; then
		continue
	fi
	case $KEELSON_KUBECTL_RAN in
	*":$kubectl:"*) continue ;;
	esac
	IFS=$ifs
	exec "$kubectl" "$@"
done
echo "kubectl: there is no kubectl in the PATH beside $0" >&2
exit 127
"#;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;
    use std::process::{Command, Output};

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn run(path: &Path, search: &[&Path], arguments: &[&str]) -> Output {
        let search: Vec<String> = search.iter().map(|folder| folder.display().to_string()).collect();
        Command::new(path)
            .args(arguments)
            .env("PATH", format!("{}:/usr/bin:/bin", search.join(":")))
            .env_remove("KEELSON_KUBECTL_RAN")
            .output()
            .unwrap()
    }

    #[test]
    fn etcd_is_the_server_beside_it_with_all_arguments() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path().join("a folder");
        write(&here.join("etcd"), ETCD);
        write(
            &here.join("kube-apiserver"),
            "#!/bin/sh\nfor each in \"$@\"; do echo \"[$each]\"; done\nexit 7\n",
        );
        let output = run(&here.join("etcd"), &[], &["--data-dir=/a b", "--x"]);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "[etcd]\n[--data-dir=/a b]\n[--x]\n");
        assert_eq!(output.status.code(), Some(7));
    }

    #[test]
    fn kubectl_is_the_first_other_one_of_the_path() {
        let folder = tempfile::tempdir().unwrap();
        let [one, two, real] = ["one", "two", "real one"].map(|name| folder.path().join(name));
        write(&one.join("kubectl"), KUBECTL);
        write(&two.join("kubectl"), KUBECTL);
        write(&real.join("kubectl"), "#!/bin/sh\necho \"real $*\"\n");
        for path in [[&one, &two, &real], [&two, &one, &real], [&real, &one, &two]] {
            let path: Vec<&Path> = path.iter().map(|folder| folder.as_path()).collect();
            let output = run(&one.join("kubectl"), &path, &["get", "pods"]);
            assert_eq!(String::from_utf8_lossy(&output.stdout), "real get pods\n", "{path:?}");
        }
    }

    #[test]
    fn kubectl_says_when_there_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("one/kubectl");
        write(&script, KUBECTL);
        write(&folder.path().join("two/kubectl"), KUBECTL);
        let (one, two) = (folder.path().join("one"), folder.path().join("two"));
        // The system's own folders may have one.
        let output = Command::new("/bin/sh")
            .arg(&script)
            .env("PATH", format!("{}:{}", one.display(), two.display()))
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(127));
        assert!(String::from_utf8_lossy(&output.stderr).contains("there is no kubectl in the PATH"));
    }
}
