//! The ids and tags of operations.

/// The id (the verb, then group and version, then the rest of the path) and the tag (group and version).
pub(super) fn id_and_tag(path: &str, verb: &str, rest: &str) -> (String, String) {
    let mut parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    if parts.first() == Some(&"api") {
        parts.splice(..1, ["apis", "core"]);
    }
    // In compound verbs such as "deletecollection" and "connectGet" the group goes after the first word.
    let (verb, rest) = match verb {
        "deletecollection" => ("delete", format!("collection{rest}")),
        _ => match verb.strip_prefix("connect") {
            Some(method) => ("connect", format!("{method}{rest}")),
            None => (verb, rest.to_owned()),
        },
    };
    let mut id = verb.to_owned();
    let mut tag = String::new();
    match parts.as_slice() {
        [first] => tag = identifier(first, false),
        [_, group, version @ ..] => {
            let group = group.strip_suffix(".k8s.io").unwrap_or(group);
            id.push_str(&identifier(group, true));
            tag = identifier(group, false);
            if let Some(version) = version.first() {
                id.push_str(&identifier(version, true));
                tag = format!("{tag}_{}", identifier(version, false));
            }
        }
        [] => {}
    }
    id.push_str(&identifier(&rest, true));
    (id, tag)
}

/// Removes characters that are not allowed in an identifier, and capitalizes the letter after them.
fn identifier(text: &str, capital: bool) -> String {
    let mut capital = capital;
    let mut id = String::with_capacity(text.len());
    for (at, character) in text.char_indices() {
        if character.is_alphabetic() || character == '_' || (at != 0 && character.is_numeric()) {
            if std::mem::take(&mut capital) {
                id.extend(character.to_uppercase());
            } else {
                id.push(character);
            }
        } else {
            capital = true;
        }
    }
    id
}

/// Capitalizes the first letter.
pub(super) fn title(text: &str) -> String {
    identifier(text, true)
}

/// The kind with its article: `a Pod`, `an Ingress`, `Endpoints`.
pub(super) fn with_article(noun: &str) -> String {
    if noun.ends_with('s') && !noun.ends_with("ss") {
        return noun.to_owned();
    }
    let vowel = noun.starts_with(['a', 'e', 'i', 'o', 'u', 'A', 'E', 'I', 'O', 'U']);
    format!("{} {noun}", if vowel { "an" } else { "a" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operation_ids_put_the_verb_before_the_group() {
        let id = |path, verb, rest| id_and_tag(path, verb, rest).0;
        assert_eq!(id("/api/v1", "list", "NamespacedPod"), "listCoreV1NamespacedPod");
        assert_eq!(id("/apis/apps/v1", "deletecollection", "X"), "deleteAppsV1CollectionX");
        assert_eq!(id("/api/v1", "connectGet", "NamespacedPodExec"), "connectCoreV1GetNamespacedPodExec");
        let (id, tag) = id_and_tag("/apis/flowcontrol.apiserver.k8s.io/v1", "read", "FlowSchema");
        assert_eq!(
            (id.as_str(), tag.as_str()),
            ("readFlowcontrolApiserverV1FlowSchema", "flowcontrolApiserver_v1")
        );
        assert_eq!(id_and_tag("/apis/", "get", "APIVersions").0, "getAPIVersions");
    }

    #[test]
    fn plural_kinds_have_no_article() {
        assert_eq!(with_article("Endpoints"), "Endpoints");
        assert_eq!(with_article("Ingress"), "an Ingress");
        assert_eq!(with_article("Pod"), "a Pod");
    }
}
