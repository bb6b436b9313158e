//! URIs as they may be shown in logs and traces: without values of which it is not known that they are no
//! secrets, such as the words of a command, or the query of a request that is handed on to a pod.

use http::Uri;

use crate::Query;

/// The parameters whose values are shown: those of the API that have no free text.
const SHOWN: &[&str] = &[
    "allowWatchBookmarks",
    "container",
    "continue",
    "debug",
    "dryRun",
    "exclude",
    "fieldManager",
    "fieldSelector",
    "fieldValidation",
    "follow",
    "force",
    "gracePeriodSeconds",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "includeObject",
    "labelSelector",
    "limit",
    "limitBytes",
    "orphanDependents",
    "path",
    "pretty",
    "previous",
    "propagationPolicy",
    "resourceVersion",
    "resourceVersionMatch",
    "seconds",
    "sendInitialEvents",
    "sinceSeconds",
    "sinceTime",
    "stderr",
    "stdin",
    "stdout",
    "stream",
    "tailLines",
    "timeout",
    "timeoutSeconds",
    "timestamps",
    "tty",
    "verbose",
    "watch",
];
/// What stands in place of another value.
const HIDDEN: &str = "...";

/// The path and query of a URI, with the values of parameters that are no secrets.
pub(crate) fn uri(uri: &Uri) -> String {
    let mut out = uri.path().to_owned();
    let Some(query) = uri.query() else { return out };
    for (index, pair) in query.split('&').enumerate() {
        out.push(if index == 0 { '?' } else { '&' });
        let Some((name, value)) = pair.split_once('=') else {
            // A name alone may be a value that its client did not label.
            out.push_str(if pair.is_empty() || is_shown(pair) { pair } else { HIDDEN });
            continue;
        };
        out.push_str(name);
        out.push('=');
        out.push_str(if is_shown(name) { value } else { HIDDEN });
    }
    out
}

fn is_shown(name: &str) -> bool {
    Query::new(name).pairs().all(|pair| SHOWN.contains(&&*pair.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_parameters_of_the_api_are_shown_and_others_are_not() {
        for (given, expected) in [
            ("/api/v1/pods?limit=5&watch=1", "/api/v1/pods?limit=5&watch=1"),
            (
                "/api/v1/pods/a/exec?command=mysql&command=-psecret&tty=1",
                "/api/v1/pods/a/exec?command=...&command=...&tty=1",
            ),
            ("/x?password=secret&secret&watch", "/x?password=...&...&watch"),
            ("/x?%6cimit=5", "/x?%6cimit=5"),
            ("/x?", "/x?"),
            ("/x", "/x"),
        ] {
            assert_eq!(uri(&given.parse().unwrap()), expected);
        }
    }
}
