//! The release that is emulated: `--emulated-version` and the flags that go with it, for gates and versions
//! of the API. The order of the checks and the texts of errors are those of the reference.

use kinds::Release;
use registry::Emulation;
use server::version::EmulatedVersion;

use super::gates;
use crate::options::{EmulationOptions, ServerOptions};

/// Reads the emulated release, and with it the feature gates and the versions of the API. The warnings are
/// for the log.
pub(super) fn resolve(options: &mut ServerOptions) -> Result<Vec<String>, String> {
    let version = EmulatedVersion::parse(&options.emulation.versions)?;
    let resolved = gates::resolve(&options.feature_gates, version)?;
    let mut errors = options.emulation.errors(version);
    errors.extend(options.runtime_config.errors(options.priority_and_fairness));
    errors.extend(resolved.conflict.map(str::to_owned));
    aggregate(errors)?;
    let mut selection = options.runtime_config.selection(options.emulation.of(version))?;
    if !options.gates.objects.cluster_trust_bundle {
        selection.leave_out("certificates.k8s.io", "clustertrustbundles");
    }
    selection.check().map_err(|error| error.to_string())?;
    options.selection = selection;
    options.emulated = version;
    options.gates = resolved.gates;
    options.gate_states = resolved.states;
    Ok(resolved.warnings)
}

/// One error as it is, several in brackets; none twice.
pub(super) fn aggregate(errors: Vec<String>) -> Result<(), String> {
    let mut distinct: Vec<String> = Vec::new();
    for error in errors {
        if !distinct.contains(&error) {
            distinct.push(error);
        }
    }
    match distinct.as_slice() {
        [] => Ok(()),
        [one] => Err(one.clone()),
        several => Err(format!("[{}]", several.join(", "))),
    }
}

/// A minor release of Kubernetes 1. The version was checked.
pub(crate) fn release(version: EmulatedVersion) -> Release {
    Release(u32::try_from(version.minor).unwrap_or(u32::MAX))
}

impl EmulationOptions {
    /// Why a version cannot be emulated with these flags.
    fn errors(&self, version: EmulatedVersion) -> Vec<String> {
        let mut errors = version.errors();
        for (is_set, name) in [
            (self.forward_compatible, "EmulationForwardCompatible"),
            (self.runtime_config_forward_compatible, "RuntimeConfigEmulationForwardCompatible"),
        ] {
            if is_set && version.is_own() {
                errors.push(format!(
                    "ServerRunOptions.{name} cannot be set to true if the emulation version is the same as the binary version"
                ));
            }
        }
        errors
    }

    fn of(&self, version: EmulatedVersion) -> Emulation {
        Emulation {
            release: release(version),
            is_forward_compatible: self.forward_compatible,
            serves_what_is_named: self.runtime_config_forward_compatible,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::flags::{Error, parse};
    use crate::options::ServerOptions;
    use server::version::EmulatedVersion;

    fn parsed(line: &str) -> Result<ServerOptions, Error> {
        parse(line.split_whitespace().map(str::to_owned)).map(|parsed| parsed.options)
    }

    /// The message of a command line that is refused.
    fn error(line: &str) -> String {
        parsed(line).unwrap_err().to_string()
    }

    /// What the reference says to command lines that it refuses, one a line.
    const REFUSED: &str = include_str!("emulation/refused.tsv");

    #[test]
    fn command_lines_are_refused_with_the_words_of_the_reference() {
        let mut count = 0;
        for (line, message) in REFUSED.lines().filter_map(|line| line.split_once('\t')) {
            assert_eq!(error(line), message, "{line}");
            count += 1;
        }
        assert!(count > 30, "{count}");
    }

    /// What the reference serves: command lines, then the resources, with a mark for each command line.
    const SERVED: &str = include_str!("emulation/served.tsv");

    #[test]
    fn resources_are_served_as_by_the_reference() {
        let (lines, rows): (Vec<&str>, Vec<&str>) = SERVED.lines().partition(|line| line.starts_with('#'));
        for (column, line) in lines.iter().map(|line| line.trim_start_matches("# ")).enumerate() {
            let selection = parsed(line).unwrap().selection;
            let mut served: Vec<String> = kinds::all()
                .flat_map(|kind| kind.versions.iter().map(move |version| (kind, version)))
                .filter(|(kind, version)| selection.serves(kind, version))
                .map(|(kind, version)| {
                    format!("{} {}", kinds::api_version(kind.group, version.name), kind.resource)
                })
                .collect();
            served.sort_unstable();
            let expected: Vec<&str> = rows
                .iter()
                .filter_map(|row| row.split_once('\t'))
                .filter(|(_, marks)| marks.as_bytes()[column] == b'x')
                .map(|(resource, _)| resource)
                .collect();
            assert_eq!(served, expected, "{line}");
        }
    }

    #[test]
    fn emulated_release_decides_about_gates_and_versions() {
        let options = parsed("--emulated-version=1.32").unwrap();
        assert_eq!(options.emulated, EmulatedVersion { major: 1, minor: 32 });
        let on = |options: &ServerOptions, name: &str| {
            options.gate_states.iter().find(|state| state.name == name).map(|state| state.enabled)
        };
        assert!(options.gates.watch_list);
        assert_eq!(on(&options, "MultiCIDRServiceAllocator"), Some(false));
        // Introduced in 1.33.
        assert_eq!(on(&options, "PreferSameTrafficDistribution"), None);
        let addresses = kinds::all().find(|kind| kind.resource == "ipaddresses").unwrap();
        let serves = |options: &ServerOptions| options.selection.serves(addresses, &addresses.versions[0]);
        assert!(!serves(&options));
        let forward = "--emulated-version=1.32 --emulation-forward-compatible --runtime-config=networking.k8s.io/v1beta1";
        assert!(serves(&parsed(forward).unwrap()));
        let own = parsed("").unwrap();
        assert!(serves(&own) && !own.gates.watch_list && own.emulated.is_own());
        assert_eq!(on(&own, "PreferSameTrafficDistribution"), Some(false));
    }

    #[test]
    fn oldest_compatible_release_is_no_flag() {
        assert_eq!(
            error("--min-compatibility-version=1.32"),
            "unknown flag: --min-compatibility-version; see keelson --help"
        );
    }
}
