//! The secrets that the pods of a service account may use, where the account says so.

use object::Text;
use schema::view::Items;
use schema::views::core::v1::{EnvFromSource, EnvVar, PodSpec};
use std::collections::HashSet;

pub(super) struct Allowed<'a> {
    pub(super) account: &'a str,
    pub(super) mountable: &'a HashSet<Text>,
    pub(super) pull: &'a [Text],
}

impl Allowed<'_> {
    /// Why a new pod is refused: the first secret that it may not use.
    pub(super) fn refuse(&self, spec: PodSpec<'_>) -> Option<String> {
        let account = self.account;
        for volume in spec.volumes().iter() {
            if let Some(secret) = volume.secret().map(|source| source.secret_name())
                && !self.mountable.contains(secret)
            {
                return Some(self.not_mountable(&format!(r#"volume with secret.secretName="{secret}""#)));
            }
        }
        let mut init = spec.init_containers().iter();
        let refused = init.find_map(|container| {
            let title = format_args!("init container {}", container.name());
            self.refuse_environment(title, container.env(), container.env_from())
        });
        let refused = refused.or_else(|| {
            spec.containers().iter().find_map(|container| {
                let title = format_args!("container {}", container.name());
                self.refuse_environment(title, container.env(), container.env_from())
            })
        });
        if refused.is_some() {
            return refused;
        }
        let pull: HashSet<&str> = self.pull.iter().map(Text::as_str).collect();
        let mut references = spec.image_pull_secrets().iter().map(|secret| secret.name()).enumerate();
        let (at, name) = references.find(|(_, name)| !pull.contains(name))?;
        Some(format!(
            r#"imagePullSecrets[{at}].name="{name}" is not allowed because service account {account} does not reference that imagePullSecret"#
        ))
    }

    /// Why an update of ephemeral containers is refused.
    pub(super) fn refuse_ephemeral(&self, spec: PodSpec<'_>) -> Option<String> {
        spec.ephemeral_containers().iter().find_map(|container| {
            let title = format_args!("ephemeral container {}", container.name());
            self.refuse_environment(title, container.env(), container.env_from())
        })
    }

    fn refuse_environment<'a>(
        &self,
        title: std::fmt::Arguments<'_>,
        env: Items<'a, EnvVar<'a>>,
        env_from: Items<'a, EnvFromSource<'a>>,
    ) -> Option<String> {
        for variable in env.iter() {
            if let Some(secret) = variable.value_from().and_then(|source| source.secret_key_ref())
                && !self.mountable.contains(secret.name())
            {
                let (variable, secret) = (variable.name(), secret.name());
                return Some(self.not_mountable(&format!(
                    r#"{title} with envVar {variable} referencing secret.secretName="{secret}""#
                )));
            }
        }
        let mut secrets =
            env_from.iter().filter_map(|source| source.secret_ref()).map(|secret| secret.name());
        let secret = secrets.find(|secret| !self.mountable.contains(*secret))?;
        Some(self.not_mountable(&format!(r#"{title} with envFrom referencing secret.secretName="{secret}""#)))
    }

    fn not_mountable(&self, what: &str) -> String {
        let account = self.account;
        format!("{what} is not allowed because service account {account} does not reference that secret")
    }
}
