//! What is noted of requests for deprecated versions, beside the warning to the client: a metric, and
//! annotations for audit.
//!
//! Both are noted when the request has been handled, as in the reference: the last audit event of a request
//! has the annotations, that of a watch that starts has none yet.

use kinds::Subresource;
use object::Text;
use observe::Observation;
use registry::Served;

use crate::at_end::at_end;
use crate::count;
use crate::{Body, Response};

const DEPRECATED: &str = "k8s.io/deprecated";
const REMOVED_RELEASE: &str = "k8s.io/removed-release";

/// The request of a deprecated version.
pub(super) struct DeprecatedRequest {
    group: Text,
    version: Text,
    resource: Text,
    subresource: &'static str,
    /// The release that does not serve the version any more, if there is one yet.
    removed_release: Option<Text>,
}

impl DeprecatedRequest {
    /// The request of a kind, or of one of its subresources; `None` if it is not deprecated.
    pub(super) fn of(served: &Served, subresource: Option<&Subresource>) -> Option<Self> {
        served.deprecation(subresource).map(|_| Self {
            group: served.group.clone(),
            version: served.version.clone(),
            resource: served.resource.clone(),
            subresource: subresource.map_or("", |subresource| subresource.name),
            removed_release: served.removed_release.clone(),
        })
    }

    /// Notes the request when it has been handled: at once, or, if the response is a stream, at its end.
    pub(super) fn note_when_handled(self, response: &mut Response, observation: Observation) {
        match response.body() {
            Body::Stream(_) => at_end(response, move |_| self.note(&observation)),
            _ => self.note(&observation),
        }
    }

    /// Notes the request.
    pub(super) fn note(&self, observation: &Observation) {
        let Self { group, version, resource, subresource, removed_release } = self;
        let removed = removed_release.as_deref().unwrap_or_default();
        count::deprecated_requested(group, version, resource, subresource, removed);
        observation.annotate(DEPRECATED, "true");
        if !removed.is_empty() {
            observation.annotate(REMOVED_RELEASE, removed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::testing::Fixture;
    use crate::at_end;
    use http_body_util::BodyExt as _;
    use observe::AuditLevel;
    use registry::Selection;

    async fn server() -> Fixture {
        let mut selection = Selection::default();
        selection.set("storage.k8s.io/v1alpha1", true);
        Fixture::with(|config| config.selection = selection).await
    }

    /// What is noted of a request, in the audit annotations, before and after its response was sent.
    fn noted(served: &Served, subresource: &str, body: Body) -> Option<[Vec<String>; 2]> {
        let request = DeprecatedRequest::of(served, served.subresource(subresource))?;
        let observation = Observation::begin("id");
        observation.set_audit_level(AuditLevel::Metadata);
        let mut response = Response::new(body);
        request.note_when_handled(&mut response, observation.clone());
        let shown =
            || observation.annotations().iter().map(|(key, value)| format!("{key}={value}")).collect();
        let before = shown();
        drop(at_end::Ending::of(&mut response));
        Some([before, shown()])
    }

    /// The body of a response that is sent while it is made.
    fn stream() -> Body {
        Body::Stream(Box::pin(http_body_util::Empty::new().map_err(|never| match never {})))
    }

    #[tokio::test]
    async fn requests_of_deprecated_versions_are_noted_when_they_are_handled() {
        let server = server().await;
        let catalog = server.registry.catalog();
        let find = |group, version, resource| catalog.find(group, version, resource).unwrap();
        let classes = find("storage.k8s.io", "v1alpha1", "volumeattributesclasses");
        let both = ["k8s.io/deprecated=true", "k8s.io/removed-release=1.35"];
        assert_eq!(noted(classes, "", Body::Empty).unwrap(), [both, both]);
        let [before, after] = noted(classes, "", stream()).unwrap();
        assert!(before.is_empty(), "{before:?}");
        assert_eq!(after, both);
        let endpoints = noted(find("", "v1", "endpoints"), "", Body::Empty).unwrap();
        assert_eq!(endpoints[0], ["k8s.io/deprecated=true"]);
        assert!(noted(find("", "v1", "pods"), "", Body::Empty).is_none());

        let registry = metrics::Registry::new();
        registry.register(crate::families::FAMILIES);
        let text = registry.expose(metrics::Format::Text);
        for labels in [
            r#"group="",removed_release="",resource="endpoints",subresource="",version="v1""#,
            r#"group="storage.k8s.io",removed_release="1.35",resource="volumeattributesclasses",subresource="",version="v1alpha1""#,
        ] {
            let sample = format!("apiserver_requested_deprecated_apis{{{labels}}} 1");
            assert!(text.contains(&sample), "{sample}: {text}");
        }
    }
}
