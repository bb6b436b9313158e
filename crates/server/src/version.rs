//! `/version`: the version of the API, and the build of this server.
//!
//! Clients compare some fields with their own: `kubectl --match-server-version` goes on only if version,
//! commit and tree state are those of its release. So these are of the release of Kubernetes whose API is
//! served; the other fields are of the build of this server.

mod emulated;
mod number;

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method};

use schema::json;

use crate::negotiate::route;
use crate::{Body, Error, Request, Response, Status};

/// The version of the Kubernetes API, as a git tag of the reference.
pub const API: &str = "v1.33.7";

/// The commit of that tag, and what a release says of its tree.
const COMMIT: &str = "a7245cdf3f69e11356c7e8f92b3e78ca4ee4e757";
const TREE_STATE: &str = "clean";

const MAJOR: &str = "1";
const MINOR: &str = "33";

pub use emulated::EmulatedVersion;
pub use number::check_reported;

/// What `/version` says of this server; the rest of the document is constant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Info {
    /// The version that is reported: [`API`], or that of `--version`.
    pub git_version: String,
    /// The time of the commit, in RFC 3339.
    pub build_date: String,
    /// The compiler and its version.
    pub compiler: String,
    /// The release that is emulated.
    pub emulated: EmulatedVersion,
}

impl Default for Info {
    fn default() -> Self {
        Self {
            git_version: API.to_owned(),
            build_date: String::new(),
            compiler: String::new(),
            emulated: EmulatedVersion::OWN,
        }
    }
}

impl Info {
    /// The labels of the build in metrics: date, compiler, commit, tree state, version, version of Go,
    /// major and minor version, platform.
    pub fn labels(&self) -> [String; 9] {
        let constant = |text: &str| text.to_owned();
        [
            self.build_date.clone(),
            self.compiler.clone(),
            constant(COMMIT),
            constant(TREE_STATE),
            self.git_version.clone(),
            constant("none"),
            constant(MAJOR),
            constant(MINOR),
            platform(),
        ]
    }

    /// The text of `--version=raw`, a Go value in the reference.
    pub fn to_raw(&self) -> String {
        let quote = object::quote::quote;
        format!(
            "version.Info{{Major:\"{MAJOR}\", Minor:\"{MINOR}\", EmulationMajor:\"\", EmulationMinor:\"\", \
             MinCompatibilityMajor:\"\", MinCompatibilityMinor:\"\", GitVersion:{}, GitCommit:\"{COMMIT}\", \
             GitTreeState:\"{TREE_STATE}\", BuildDate:{}, GoVersion:\"none\", Compiler:{}, Platform:{}}}\n",
            quote(&self.git_version),
            quote(&self.build_date),
            quote(&self.compiler),
            quote(&platform()),
        )
    }

    /// The document, indented as in the reference.
    pub fn to_json(&self) -> String {
        let platform = platform();
        let (emulated, compatible) = (self.emulated, self.emulated.min_compatible());
        let members = [
            ("major", MAJOR),
            ("minor", MINOR),
            ("emulationMajor", &emulated.major.to_string()),
            ("emulationMinor", &emulated.minor.to_string()),
            ("minCompatibilityMajor", &compatible.major.to_string()),
            ("minCompatibilityMinor", &compatible.minor.to_string()),
            ("gitVersion", &self.git_version),
            ("gitCommit", COMMIT),
            ("gitTreeState", TREE_STATE),
            ("buildDate", &self.build_date),
            ("goVersion", "none"),
            ("compiler", &self.compiler),
            ("platform", &platform),
        ];
        let mut out = String::with_capacity(512);
        for (name, value) in members {
            out.push_str(if out.is_empty() { "{\n  " } else { ",\n  " });
            out.push_str(&json::string(name));
            out.push_str(": ");
            out.push_str(&json::string(value));
        }
        out.push_str("\n}");
        out
    }

    pub(crate) fn answer(&self, request: &Request) -> Result<Response, Error> {
        if *request.method() != Method::GET {
            return Err(Status::method_not_allowed().into());
        }
        route::check_json(request.headers())?;
        let mut response = Response::new(Body::from(self.to_json()));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(response)
    }
}

fn platform() -> String {
    format!("{}/{}", std::env::consts::OS, go_architecture(std::env::consts::ARCH))
}

/// The Go name of an architecture.
fn go_architecture(rust: &str) -> &str {
    match rust {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        "powerpc64" => "ppc64le",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Peer;
    use bytes::Bytes;
    use std::sync::Arc;

    #[test]
    fn document_has_the_fields_of_the_reference_in_order() {
        let info = Info {
            git_version: "v1.33.7-custom".into(),
            build_date: "2026-01-01T00:00:00Z".into(),
            compiler: "rustc 1.95.0".into(),
            ..Info::default()
        };
        let text = info.to_json();
        let names: Vec<&str> =
            text.lines().filter_map(|line| line.trim().split_once(':')).map(|(name, _)| name).collect();
        assert_eq!(
            names,
            [
                "\"major\"",
                "\"minor\"",
                "\"emulationMajor\"",
                "\"emulationMinor\"",
                "\"minCompatibilityMajor\"",
                "\"minCompatibilityMinor\"",
                "\"gitVersion\"",
                "\"gitCommit\"",
                "\"gitTreeState\"",
                "\"buildDate\"",
                "\"goVersion\"",
                "\"compiler\"",
                "\"platform\"",
            ]
        );
        assert!(text.starts_with("{\n  \"major\": \"1\",\n  \"minor\": \"33\",\n"), "{text}");
        assert!(text.contains("\"gitVersion\": \"v1.33.7-custom\""), "{text}");
        assert!(text.contains("\"gitTreeState\": \"clean\""), "{text}");
        let raw = info.to_raw();
        assert!(raw.starts_with("version.Info{Major:\"1\", Minor:\"33\", "), "{raw}");
        assert!(raw.contains("GitVersion:\"v1.33.7-custom\", GitCommit:\"a7245cdf"), "{raw}");
        assert!(text.ends_with("\"\n}"), "{text}");
    }

    #[test]
    fn emulated_release_and_the_one_before_are_shown() {
        let shown = |minor| {
            let emulated = EmulatedVersion { minor, ..EmulatedVersion::OWN };
            Info { emulated, ..Info::default() }.to_json()
        };
        for (minor, compatible) in [(33, 32), (32, 31), (31, 31)] {
            let text = shown(minor);
            for member in [
                "\"major\": \"1\",\n  \"minor\": \"33\"".to_owned(),
                format!("\"emulationMajor\": \"1\",\n  \"emulationMinor\": \"{minor}\""),
                format!("\"minCompatibilityMajor\": \"1\",\n  \"minCompatibilityMinor\": \"{compatible}\""),
                "\"gitVersion\": \"v1.33.7\"".to_owned(),
            ] {
                assert!(text.contains(&member), "{member}: {text}");
            }
        }
    }

    #[test]
    fn methods_other_than_get_are_405() {
        for method in [Method::HEAD, Method::POST, Method::OPTIONS] {
            let head = http::Request::builder().method(&method).uri("/version").body(Bytes::new()).unwrap();
            let peer = Arc::new(Peer::plain(([127, 0, 0, 1], 1).into()));
            let refused = Info::default().answer(&Request::in_process(head, peer)).unwrap_err();
            let Error::Status(status) = refused else { panic!("{refused}") };
            assert_eq!(status.code, 405, "{method}");
        }
    }

    #[test]
    fn client_that_does_not_accept_json_gets_406_in_its_format() {
        let head =
            http::Request::get("/version").header("accept", "application/yaml").body(Bytes::new()).unwrap();
        let peer = Arc::new(Peer::plain(([127, 0, 0, 1], 1).into()));
        let request = Request::in_process(head, peer);
        let refused = Info::default().answer(&request).unwrap_err();
        let answer = refused.into_response(request.context.error_format);
        assert_eq!(
            (answer.status().as_u16(), &answer.headers()[CONTENT_TYPE]),
            (406, &"application/yaml".parse().unwrap())
        );
    }
}
