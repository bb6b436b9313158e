//! The rules of the flags `--etcd-*` and `--storage-*`, with the texts of the reference.

use layout::MediaType;

use storage::{Backend, EtcdOverride};

use crate::options::ServerOptions;

/// Refuses flags that contradict each other; servers of etcd choose the storage.
pub(super) fn check(options: &mut ServerOptions) -> Result<(), String> {
    if options.storage.encryption.automatic_reload && options.storage.encryption.config.is_none() {
        return Err(
            "--encryption-provider-config-automatic-reload must be set with --encryption-provider-config"
                .into(),
        );
    }
    let etcd = &options.storage.etcd;
    if etcd.servers.is_empty() {
        return match etcd.overrides.is_empty() {
            true => Ok(()),
            false => Err("--etcd-servers-overrides needs --etcd-servers".into()),
        };
    }
    match options.storage.backend {
        Backend::Memory => Err("--etcd-servers and --storage=memory cannot be given together".into()),
        Backend::Embedded | Backend::Etcd => {
            options.storage.backend = Backend::Etcd;
            Ok(())
        }
    }
}

/// Reads `group/resource#servers`.
pub(super) fn server_override(text: &str) -> Result<EtcdOverride, String> {
    let parsed = || {
        let (of, servers) = text.split_once('#').filter(|(_, servers)| !servers.contains('#'))?;
        let (group, resource) = of.split_once('/').filter(|(_, resource)| !resource.contains('/'))?;
        let servers: Vec<String> = servers.split(';').map(str::to_owned).collect();
        let are_urls = servers.iter().all(|server| server.contains("://"));
        are_urls.then(|| EtcdOverride { group: group.into(), resource: resource.into(), servers })
    };
    parsed().ok_or_else(|| {
        "--etcd-servers-overrides invalid, must be of format: group/resource#servers, where servers are URLs, semicolon separated"
            .to_owned()
    })
}

pub(super) fn media_type(text: &str) -> Result<MediaType, String> {
    match text {
        "application/vnd.kubernetes.protobuf" => Ok(MediaType::Protobuf),
        "" | "application/json" => Ok(MediaType::Json),
        "application/yaml" => {
            Err("objects are not written as YAML; they are read as JSON just as well".into())
        }
        _ => Err(format!(
            "--storage-media-type {text:?} invalid, allowed values: application/json, application/vnd.kubernetes.protobuf"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::parse;

    fn refusal(line: &str) -> Option<String> {
        parse(line.split_whitespace().map(str::to_owned)).err().map(|error| error.to_string())
    }

    #[test]
    fn servers_choose_the_storage() {
        let parsed =
            parse(["--etcd-servers=https://a,https://b".to_owned(), "--etcd-servers=c".to_owned()]).unwrap();
        assert_eq!(parsed.options.storage.backend, Backend::Etcd);
        assert_eq!(parsed.options.storage.etcd.servers, ["https://a", "https://b", "c"]);
        for line in ["--etcd-servers=a --storage=memory", "--storage=memory --etcd-servers=a"] {
            assert_eq!(
                refusal(line).unwrap(),
                "--etcd-servers and --storage=memory cannot be given together"
            );
        }
        assert!(
            refusal("--etcd-servers-overrides=/events#http://a").unwrap().contains("needs --etcd-servers")
        );
    }

    #[test]
    fn objects_are_written_as_protobuf_or_json_which_is_also_the_empty_media_type() {
        for (text, expected) in [
            ("", MediaType::Json),
            ("application/json", MediaType::Json),
            ("application/vnd.kubernetes.protobuf", MediaType::Protobuf),
        ] {
            let parsed = parse([format!("--storage-media-type={text}")]).unwrap();
            assert_eq!(parsed.options.storage.etcd.media_type, expected, "{text}");
        }
        assert!(
            refusal("--storage-media-type=application/cbor").unwrap().contains("invalid, allowed values")
        );
        assert!(refusal("--storage-media-type=application/yaml").unwrap().contains("not written as YAML"));
    }

    #[test]
    fn overrides_name_a_group_a_resource_and_servers() {
        let events = server_override("/events#http://a;http://b").unwrap();
        assert_eq!(
            (events.group.as_str(), events.resource.as_str(), events.servers.len()),
            ("", "events", 2)
        );
        for wrong in ["events#http://a", "/events", "/events#a", "/a/b#http://a", "/events#http://a#http://b"]
        {
            assert!(
                server_override(wrong).unwrap_err().starts_with("--etcd-servers-overrides invalid"),
                "{wrong}"
            );
        }
    }
}
