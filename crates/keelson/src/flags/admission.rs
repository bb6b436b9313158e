//! The rules of the flags of admission, with the texts of the reference.

use std::collections::BTreeSet;

use object::quote::quote;

use admission::config::{AdmissionOptions, is_known};

/// Refuses plugins that do not exist, and flags that contradict each other.
pub(super) fn check(options: &AdmissionOptions) -> Result<(), String> {
    let AdmissionOptions { only, enabled, disabled, .. } = options;
    let mut errors = Vec::new();
    if only.is_some() && (enabled.is_some() || disabled.is_some()) {
        errors.push(
            "admission-control and enable-admission-plugins/disable-admission-plugins flags are mutually exclusive"
                .to_owned(),
        );
    }
    let lists = [
        ("admission-control", only),
        ("enable-admission-plugins", enabled),
        ("disable-admission-plugins", disabled),
    ];
    for (flag, names) in lists {
        for name in names.iter().flatten().filter(|name| !is_known(name)) {
            errors.push(format!("{flag} plugin {} is unknown", quote(name)));
        }
    }
    let [enabled, disabled] =
        [enabled, disabled].map(|names| names.iter().flatten().map(String::as_str).collect::<BTreeSet<_>>());
    let both: Vec<&str> = enabled.intersection(&disabled).copied().collect();
    if !both.is_empty() {
        let both = both.join(" ");
        errors.push(format!("[{both}] in enable-admission-plugins and disable-admission-plugins overlapped"));
    }
    match errors.as_slice() {
        [] => Ok(()),
        [one] => Err(one.clone()),
        several => Err(format!("[{}]", several.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use crate::flags::parse;

    fn refusal(line: &str) -> Option<String> {
        parse(line.split_whitespace().map(str::to_owned)).err().map(|error| error.to_string())
    }

    #[test]
    fn plugins_are_known_and_flags_do_not_contradict_each_other() {
        assert_eq!(refusal("--enable-admission-plugins=NamespaceLifecycle,ValidatingAdmissionPolicy"), None);
        assert_eq!(refusal("--disable-admission-plugins=NamespaceLifecycle"), None);
        assert_eq!(refusal("--admission-control=NamespaceLifecycle"), None);
        for flag in ["admission-control", "enable-admission-plugins", "disable-admission-plugins"] {
            let wanted = format!("{flag} plugin \"Foo\" is unknown");
            assert_eq!(refusal(&format!("--{flag}=Foo")), Some(wanted));
        }
        let name = "NamespaceLifecycle";
        let overlap =
            "[NamespaceLifecycle] in enable-admission-plugins and disable-admission-plugins overlapped";
        let line = format!("--enable-admission-plugins={name} --disable-admission-plugins={name}");
        assert_eq!(refusal(&line).as_deref(), Some(overlap));
        let exclusive = "admission-control and enable-admission-plugins/disable-admission-plugins flags are mutually exclusive";
        let line = format!("--admission-control={name} --disable-admission-plugins={name}");
        assert_eq!(refusal(&line).as_deref(), Some(exclusive));
    }

    #[test]
    fn toleration_seconds_are_numbers() {
        let seconds = |line: &str| {
            let parsed = parse(line.split_whitespace().map(str::to_owned)).unwrap();
            let seconds = parsed.options.admission.settings.toleration;
            (seconds.not_ready, seconds.unreachable)
        };
        assert_eq!(seconds(""), (300, 300));
        let line = "--default-not-ready-toleration-seconds=7 --default-unreachable-toleration-seconds=-1";
        assert_eq!(seconds(line), (7, -1));
        assert!(refusal("--default-not-ready-toleration-seconds=x").is_some());
    }
}
