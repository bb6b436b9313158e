use super::*;
use object::field::List;
use std::time::Duration;

fn rule(text: &str) -> Rule {
    read_rule(&document::parse(text.as_bytes()).unwrap()).unwrap()
}

fn faults(seed: u64, rules: &[&str]) -> Faults {
    let faults = Faults::default();
    faults.replace(Plan { seed: Some(seed), rules: rules.iter().map(|text| rule(text)).collect() });
    faults
}

fn wrong(text: &str) -> Vec<String> {
    let errors = |errors: List| {
        errors.into_vec().iter().map(|error| format!("{}: {}", error.path, error.body())).collect()
    };
    read_plan(&document::parse(text.as_bytes()).unwrap()).map_err(errors).unwrap_err()
}

const CALL: Call<'static> = Call {
    user: "jane",
    user_agent: "operator/1.2 (linux)",
    verb: "update",
    group: "",
    resource: "pods",
    subresource: "",
    namespace: "default",
    name: "a",
    reads_any: false,
};

/// Which of some equal requests are hit.
fn hits(faults: &Faults, call: &Call<'_>, count: usize) -> Vec<bool> {
    (0..count).map(|_| !faults.decide(call).is_empty()).collect()
}

#[test]
fn every_fault_is_read_and_written() {
    for fault in [
        r#"{"error":{"code":503}}"#,
        r#"{"error":{"code":429,"reason":"X","message":"later","retryAfterSeconds":3}}"#,
        r#"{"conflict":{"afterCommit":true}}"#,
        r#"{"delay":{"duration":"2s","jitter":"1s"}}"#,
        r#"{"loseAnswer":{}}"#,
        r#"{"cutConnection":{}}"#,
        r#"{"endWatch":{"after":"5s","with":"expired"}}"#,
        r#"{"endWatch":{"after":7,"with":"cut"}}"#,
        r#"{"delayEvents":{"duration":"2s"}}"#,
        r#"{"omitBookmarks":{}}"#,
        r#"{"staleRead":{"by":"10s"}}"#,
        r#"{"staleRead":{"by":25}}"#,
        r#"{"throttle":{"retryAfterSeconds":1}}"#,
        r#"{"crash":{"at":"beforeCommit"}}"#,
    ] {
        let text = format!(r#"{{"name":"x","match":{{}},"share":0.5,"after":1,"times":2,"fault":{fault}}}"#);
        let written = faults(7, &[&text]).to_json();
        let expected = format!("{},\"seen\":0,\"injected\":0}}", text.strip_suffix('}').unwrap());
        assert_eq!(written, format!("{{\"seed\":7,\"rules\":[{expected}]}}\n"));
    }
    assert_eq!(Faults::default().to_json(), "{\"rules\":[]}\n");
}

#[test]
fn what_is_wrong_is_named_with_its_path() {
    for (document, said) in [
        (r#"{"rules":[{"fault":{"loseAnswer":{}}}]}"#, "rules[0].name: Required value"),
        (r#"{"rules":[{"name":"a b","fault":{"loseAnswer":{}}}]}"#, "rules[0].name: Invalid value: \"a b\""),
        (r#"{"rules":[{"name":"a"}]}"#, "rules[0].fault: Required value"),
        (r#"{"rules":[{"name":"a","fault":{}}]}"#, "rules[0].fault: Invalid value: 0: must have exactly one"),
        (
            r#"{"rules":[{"name":"a","fault":{"fire":{}}}]}"#,
            "rules[0].fault.fire: Unsupported value: \"fire\"",
        ),
        (r#"{"rules":[{"name":"a","fault":{"error":{}}}]}"#, "rules[0].fault.error.code: Required value"),
        (r#"{"rules":[{"name":"a","fault":{"error":{"code":200}}}]}"#, "rules[0].fault.error.code"),
        (r#"{"rules":[{"name":"a","fault":{"delay":{}}}]}"#, "rules[0].fault.delay.duration: Required value"),
        (r#"{"rules":[{"name":"a","fault":{"delay":{"duration":"2h"}}}]}"#, "must be at most an hour"),
        (
            r#"{"rules":[{"name":"a","fault":{"endWatch":{"after":0,"with":"cut"}}}]}"#,
            "endWatch.after: Invalid value: 0",
        ),
        (
            r#"{"rules":[{"name":"a","fault":{"endWatch":{"with":"fire"}}}]}"#,
            "endWatch.with: Unsupported value",
        ),
        (r#"{"rules":[{"name":"a","fault":{"crash":{}}}]}"#, "rules[0].fault.crash.at: Required value"),
        (
            r#"{"rules":[{"name":"a","share":2,"fault":{"loseAnswer":{}}}]}"#,
            "rules[0].share: Invalid value: 2",
        ),
        (
            r#"{"rules":[{"name":"a","times":-1,"fault":{"loseAnswer":{}}}]}"#,
            "rules[0].times: Invalid value: -1",
        ),
        (
            r#"{"rules":[{"name":"a","match":{"verbs":["write"]},"fault":{"loseAnswer":{}}}]}"#,
            "rules[0].match.verbs[0]: Unsupported value: \"write\"",
        ),
        (
            r#"{"rules":[{"name":"a","match":{"kinds":[]},"fault":{"loseAnswer":{}}}]}"#,
            "rules[0].match.kinds: Forbidden: unknown field",
        ),
        (
            r#"{"rules":[{"name":"a","fault":{"loseAnswer":{}}},{"name":"a","fault":{"loseAnswer":{}}}]}"#,
            "rules[1].name: Duplicate value: \"a\"",
        ),
        (r#"{"seed":-1}"#, "seed: Invalid value: -1"),
        (r#"{"rules":7}"#, "rules: Invalid value: 7: must be a list"),
        (r#"{"rules":[7]}"#, "rules[0]: Invalid value: 7: must be an object"),
    ] {
        let errors = wrong(document);
        assert!(errors.iter().any(|error| error.contains(said)), "{document}: {errors:?}");
    }
    assert!(document::parse(b"{\"a\":1,\"a\":2}").is_err(), "a field twice");
    assert!(document::parse(b"[]").unwrap_err().contains("an object is expected"));
}

#[test]
fn rules_match_by_all_their_lists() {
    let with = |matching: &str| {
        rule(&format!(r#"{{"name":"x","match":{matching},"fault":{{"loseAnswer":{{}}}}}}"#)).matching
    };
    for (matching, fits) in [
        ("{}", true),
        (
            r#"{"users":["jane"],"verbs":["get","update"],"resources":["pods"],"namespaces":["default"],"names":["a"]}"#,
            true,
        ),
        (r#"{"users":["joe"]}"#, false),
        (r#"{"userAgents":["operator/*"]}"#, true),
        (r#"{"userAgents":["operator/1.2"]}"#, false),
        (r#"{"apiGroups":[""]}"#, true),
        (r#"{"apiGroups":["apps"]}"#, false),
        (r#"{"resources":["pods/status"]}"#, false),
        (r#"{"resources":["*"]}"#, true),
        (r#"{"names":["b*"]}"#, false),
    ] {
        assert_eq!(with(matching).fits(&CALL), fits, "{matching}");
    }
    let status = Call { subresource: "status", ..CALL };
    for (resources, fits) in [
        (r#"["pods"]"#, false),
        (r#"["pods/status"]"#, true),
        (r#"["pods/*"]"#, true),
        (r#"["*/scale"]"#, false),
        (r#"["*"]"#, true),
    ] {
        assert_eq!(with(&format!(r#"{{"resources":{resources}}}"#)).fits(&status), fits, "{resources}");
    }
}

#[test]
fn faults_concern_the_requests_that_can_meet_them() {
    let concerns = |fault: &str, call: &Call<'_>| {
        rule(&format!(r#"{{"name":"x","fault":{fault}}}"#)).fault.concerns(call)
    };
    let (watch, list) = (Call { verb: "watch", ..CALL }, Call { verb: "list", ..CALL });
    let any = Call { reads_any: true, ..list };
    for (fault, calls) in [
        (r#"{"loseAnswer":{}}"#, [true, true, true, true]),
        (r#"{"conflict":{}}"#, [true, false, false, false]),
        (r#"{"crash":{"at":"afterCommit"}}"#, [true, false, false, false]),
        (r#"{"omitBookmarks":{}}"#, [false, true, false, false]),
        (r#"{"staleRead":{"by":1}}"#, [false, false, false, true]),
    ] {
        assert_eq!([&CALL, &watch, &list, &any].map(|call| concerns(fault, call)), calls, "{fault}");
    }
}

const HALF: &str = r#"{"name":"half","share":0.5,"fault":{"loseAnswer":{}}}"#;

#[test]
fn same_seed_hits_the_same_requests_and_another_seed_others() {
    let first = hits(&faults(7, &[HALF]), &CALL, 200);
    assert_eq!(first, hits(&faults(7, &[HALF]), &CALL, 200));
    assert_ne!(first, hits(&faults(8, &[HALF]), &CALL, 200));
    let count = first.iter().filter(|hit| **hit).count();
    assert!((70..130).contains(&count), "{count}");
}

#[test]
fn order_of_different_requests_does_not_matter() {
    let others = [Call { name: "b", ..CALL }, Call { user: "joe", ..CALL }, Call { verb: "patch", ..CALL }];
    let alone = faults(7, &[HALF]);
    let expected: Vec<Vec<bool>> = others.iter().map(|call| hits(&alone, call, 50)).collect();
    let mixed = faults(7, &[HALF]);
    let mut found = vec![Vec::new(); others.len()];
    for round in 0..150 {
        let at = (round * 7 + round / 11) % others.len();
        found[at].push(!mixed.decide(&others[at]).is_empty());
    }
    for (found, expected) in found.iter().zip(&expected) {
        let both = found.len().min(expected.len());
        assert_eq!(found[..both], expected[..both]);
    }
    assert_ne!(expected[0], expected[1]);
}

#[test]
fn after_and_times_bound_what_is_hit() {
    let text = r#"{"name":"x","after":2,"times":3,"fault":{"loseAnswer":{}}}"#;
    let faults = faults(1, &[text]);
    assert_eq!(hits(&faults, &CALL, 7), [false, false, true, true, true, false, false]);
    assert!(faults.to_json().contains(r#""seen":7,"injected":3"#), "{}", faults.to_json());
}

#[test]
fn delays_add_up_and_the_first_outcome_counts() {
    let faults = faults(
        1,
        &[
            r#"{"name":"slow","fault":{"delay":{"duration":"1s"}}}"#,
            r#"{"name":"slower","fault":{"delay":{"duration":"2s","jitter":"1s"}}}"#,
            r#"{"name":"lost","fault":{"loseAnswer":{}}}"#,
            r#"{"name":"never","times":1,"fault":{"error":{"code":500}}}"#,
        ],
    );
    let met = faults.decide(&CALL);
    let names: Vec<&str> = met.iter().map(|hit| hit.rule.name.as_str()).collect();
    assert_eq!(names, ["slow", "slower", "lost"]);
    let wait: Duration = met.modifiers.iter().map(|hit| hit.wait).sum();
    assert!((Duration::from_secs(3)..Duration::from_secs(4)).contains(&wait), "{wait:?}");
    assert!(faults.to_json().ends_with("\"seen\":1,\"injected\":0}]}\n"), "{}", faults.to_json());
}

#[test]
fn rules_are_replaced_added_and_removed() {
    let faults = faults(9, &[HALF]);
    hits(&faults, &CALL, 5);
    assert!(faults.add(rule(r#"{"name":"more","fault":{"omitBookmarks":{}}}"#)));
    assert!(!faults.add(rule(HALF)), "its name is taken");
    let json = faults.to_json();
    assert!(
        json.starts_with(r#"{"seed":9,"#)
            && json.contains(r#""seen":5"#)
            && json.contains(r#""name":"more""#),
        "{json}"
    );
    faults.clear();
    assert!(faults.seed().is_none() && faults.decide(&CALL).is_empty());
    assert!(faults.add(rule(HALF)) && faults.seed().is_some(), "a seed is chosen");
}

#[test]
fn what_a_rule_remembers_is_bounded() {
    let mut draws = draw::Draws::default();
    for number in 0..MOST_CALLS + 10 {
        draws.draw(1, "x", &Call { name: &number.to_string(), ..CALL });
    }
    assert_eq!(draws.len(), MOST_CALLS);
    let new = Call { name: "new", ..CALL };
    assert_eq!(draws.draw(1, "x", &new), draws.draw(1, "x", &new), "each is the first of its sort");
}
