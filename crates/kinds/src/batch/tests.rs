//! The rules of jobs and cron jobs.

use crate::testing::{create, status, update, warnings};

fn template(more: &str) -> String {
    format!(
        r#""template":{{"spec":{{"restartPolicy":"Never","containers":[{{"name":"c","image":"i"}}]{more}}}}}"#
    )
}

fn job(spec: &str) -> String {
    let template = template("");
    format!(
        r#"{{"apiVersion":"batch/v1","kind":"Job","metadata":{{"name":"j"}},"spec":{{{template}{spec}}}}}"#
    )
}

/// A job as the server stores it.
fn stored(spec: &str, status: &str) -> String {
    let labels = r#"{"controller-uid":"u","batch.kubernetes.io/controller-uid":"u","job-name":"j","batch.kubernetes.io/job-name":"j"}"#;
    let template = template("");
    let template = template.replacen('{', &format!(r#"{{"metadata":{{"labels":{labels}}},"#), 1);
    format!(
        r#"{{"apiVersion":"batch/v1","kind":"Job","metadata":{{"name":"j","uid":"u"}},"spec":{{"selector":{{"matchLabels":{{"batch.kubernetes.io/controller-uid":"u"}}}},{template}{spec}}},"status":{{{status}}}}}"#
    )
}

fn cron_job(name: &str, spec: &str) -> String {
    let template = template("");
    format!(
        r#"{{"apiVersion":"batch/v1","kind":"CronJob","metadata":{{"name":"{name}"}},"spec":{{"jobTemplate":{{"spec":{{{template}}}}}{spec}}}}}"#
    )
}

#[test]
fn numbers_and_modes_of_jobs_are_checked() {
    let errors = |spec: &str| create(&job(spec));
    assert_eq!(errors(""), [""; 0]);
    let negative = "Invalid value: -1: must be greater than or equal to 0";
    assert_eq!(
        errors(
            r#","parallelism":-1,"completions":-1,"backoffLimit":-1,"activeDeadlineSeconds":-1,"ttlSecondsAfterFinished":-1"#
        ),
        ["parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"]
            .map(|name| format!("spec.{name}: {negative}"))
    );
    assert_eq!(
        errors(r#","completionMode":"Random","managedBy":"nodomain""#),
        [
            r#"spec.managedBy: Invalid value: "nodomain": must be a domain-prefixed path (such as "acme.io/foo")"#,
            r#"spec.completionMode: Unsupported value: "Random": supported values: "NonIndexed", "Indexed""#,
        ]
    );
    assert_eq!(
        errors(r#","backoffLimitPerIndex":1,"maxFailedIndexes":2"#),
        [
            "spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode",
            "spec.maxFailedIndexes: Invalid value: 2: requires indexed completion mode",
        ]
    );
    assert_eq!(
        errors(
            r#","completionMode":"Indexed","parallelism":100001,"completions":200000,"backoffLimitPerIndex":1"#
        ),
        [
            "spec.parallelism: Invalid value: 100001: must be less than or equal to 100000 when completion mode is Indexed",
            "spec.maxFailedIndexes: Required value: must be specified when completions is above 100000",
            "spec.parallelism: Invalid value: 100001: must be less than or equal to 10000 when completions are above 100000 and used with backoff limit per index",
        ]
    );
    assert_eq!(
        errors(r#","completionMode":"Indexed","completions":3,"parallelism":2,"maxFailedIndexes":4"#),
        [
            "spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified",
            "spec.maxFailedIndexes: Invalid value: 4: must be less than or equal to completions",
        ]
    );
    let restarted = job("").replace(r#""restartPolicy":"Never","#, "");
    assert_eq!(
        create(&restarted),
        [r#"spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never""#]
    );
    let long = "a".repeat(62);
    let host = job(r#","completionMode":"Indexed","completions":3"#)
        .replace(r#""name":"j""#, &format!(r#""name":"{long}""#));
    assert_eq!(
        create(&host),
        [format!(
            "metadata.name: Invalid value: \"{long}\": will not able to create pod with invalid DNS label: {long}-2"
        )]
    );
}

#[test]
fn failure_policies_of_pods_are_checked() {
    let errors = |rules: &str| create(&job(&format!(r#","podFailurePolicy":{{"rules":[{rules}]}}"#)));
    let path = "spec.podFailurePolicy.rules[0]";
    assert_eq!(
        errors("{}"),
        [
            format!(
                r#"{path}.action: Required value: valid values: ["Count" "FailIndex" "FailJob" "Ignore"]"#
            ),
            format!("{path}: Invalid value: specifying one of OnExitCodes and OnPodConditions is required"),
        ]
    );
    assert_eq!(
        errors(
            r#"{"action":"FailIndex","onExitCodes":{"operator":"In","containerName":"x","values":[3,0,3]},"onPodConditions":[{"type":"A","status":"Maybe"}]}"#
        ),
        [
            format!(
                r#"{path}.action: Invalid value: "FailIndex": requires the backoffLimitPerIndex to be set"#
            ),
            format!(
                r#"{path}.onExitCodes.containerName: Invalid value: "x": must be one of the container or initContainer names in the pod template"#
            ),
            format!("{path}.onExitCodes.values[1]: Invalid value: 0: must not be 0 for the In operator"),
            format!("{path}.onExitCodes.values[2]: Duplicate value: 3"),
            format!("{path}.onExitCodes.values: Invalid value: []int32{{3, 0, 3}}: must be ordered"),
            format!(
                r#"{path}.onPodConditions[0].status: Unsupported value: "Maybe": supported values: "False", "True", "Unknown""#
            ),
            format!(
                "{path}: Invalid value: specifying both OnExitCodes and OnPodConditions is not supported"
            ),
        ]
    );
    let replaced = r#","podFailurePolicy":{"rules":[{"action":"Count","onExitCodes":{"operator":"In","values":[1]}}]},"podReplacementPolicy":"TerminatingOrFailed""#;
    assert_eq!(
        create(&job(replaced).replace("Never", "OnFailure")),
        [
            r#"spec.podReplacementPolicy: Unsupported value: "TerminatingOrFailed": supported values: "Failed""#,
            r#"spec.template.spec.restartPolicy: Invalid value: "OnFailure": only "Never" is supported when podFailurePolicy is specified"#,
        ]
    );
}

#[test]
fn success_policies_are_checked() {
    let errors = |rules: &str| {
        let indexed = r#","completionMode":"Indexed","completions":3,"parallelism":2"#;
        create(&job(&format!(r#"{indexed},"successPolicy":{{"rules":[{rules}]}}"#)))
    };
    let path = "spec.successPolicy.rules";
    assert_eq!(
        errors(""),
        [format!(
            "{path}: Required value: at least one rules must be specified when the successPolicy is specified"
        )]
    );
    assert_eq!(
        errors("{}"),
        [format!(
            "{path}[0]: Required value: at least one of succeededCount or succeededIndexes must be specified"
        )]
    );
    assert_eq!(
        errors(r#"{"succeededIndexes":"2-0","succeededCount":4}"#),
        [
            format!(
                r#"{path}[0].succeededIndexes: Invalid value: "2-0": error parsing succeededIndexes: non-increasing order, previous: 2, current: 0"#
            ),
            format!(
                "{path}[0].succeededCount: Invalid value: 4: must be less than or equal to 3 (the number of specified completions)"
            ),
            format!(
                "{path}[0].succeededCount: Invalid value: 4: must be less than or equal to 0 (the number of indexes in the specified succeededIndexes field)"
            ),
        ]
    );
}

#[test]
fn generated_selectors_and_labels_are_those_of_the_job() {
    let wrong = r#","selector":{"matchLabels":{"a":"b"}}"#;
    let errors = create(&job(wrong));
    assert_eq!(errors.len(), 2);
    assert!(errors[0].ends_with("`selector` not auto-generated"), "{errors:?}");
    let labelled =
        job("").replace(r#""template":{"#, r#""template":{"metadata":{"labels":{"job-name":"other"}},"#);
    assert_eq!(
        create(&labelled),
        [
            r#"spec.template.metadata.labels[job-name]: Invalid value: map[string]string{"batch.kubernetes.io/controller-uid":"u", "batch.kubernetes.io/job-name":"j", "controller-uid":"u", "job-name":"other"}: must be 'j'"#
        ]
    );
    let manual = r#","manualSelector":true,"selector":{"matchLabels":{"a":"b"}}"#;
    assert_eq!(create(&job(manual)).len(), 1);
    // Labels of the template that the server sets are wrong there alone.
    let long = "n".repeat(64);
    let named = job("").replace(r#""name":"j""#, &format!(r#""name":"{long}""#));
    let why = format!(r#"spec.template.labels: Invalid value: "{long}": must be no more than 63 characters"#);
    assert_eq!(create(&named), [why.as_str(), &why]);
}

#[test]
fn spec_of_a_job_changes_only_where_it_may() {
    let old = stored("", "");
    assert_eq!(
        update(&stored(r#","completions":1,"parallelism":5,"backoffLimit":1,"suspend":true"#, ""), &old),
        [""; 0]
    );
    assert_eq!(
        update(&stored(r#","completions":5,"parallelism":1,"managedBy":"example.com/x""#, ""), &old),
        [
            "spec.completions: Invalid value: 5: field is immutable",
            r#"spec.managedBy: Invalid value: "example.com/x": field is immutable"#,
        ]
    );
    let indexed = |completions: i64, parallelism: i64| {
        let counts = format!(r#""completions":{completions},"parallelism":{parallelism}"#);
        stored(&format!(r#","completionMode":"Indexed",{counts}"#), "")
    };
    assert_eq!(update(&indexed(4, 4), &indexed(3, 2)), [""; 0]);
    assert_eq!(
        update(&indexed(4, 2), &indexed(3, 2)),
        ["spec.completions: Invalid value: 4: can only be modified in tandem with spec.parallelism"]
    );
    let moved = |job: &str| {
        job.replace(
            r#""restartPolicy""#,
            r#""nodeSelector":{"a":"b"},"affinity":{"nodeAffinity":{}},"restartPolicy""#,
        )
    };
    let suspended = stored(r#","suspend":true"#, "");
    assert_eq!(update(&moved(&suspended), &suspended), [""; 0]);
    let started = stored(r#","suspend":true"#, r#""startTime":"2026-01-01T00:00:00Z""#);
    for old in [&old, &started] {
        let errors = update(&moved(old), old);
        assert_eq!(errors.len(), 1);
        assert!(errors[0].starts_with("spec.template: Invalid value: {"), "{errors:?}");
    }
}

#[test]
fn status_of_a_job_goes_forward() {
    let of = |status: &str| stored("", status);
    let condition = |ty: &str| format!(r#"{{"type":"{ty}","status":"True"}}"#);
    assert_eq!(
        status(&of(r#""active":-1,"ready":5"#), &of(r#""failed":1,"succeeded":1"#)),
        [
            "status.active: Invalid value: -1: must be greater than or equal to 0",
            "status.ready: Invalid value: 5: cannot set more ready pods than active",
            "status.failed: Invalid value: 0: cannot decrease the failed counter",
            "status.succeeded: Invalid value: 0: cannot decrease the succeeded counter",
        ]
    );
    assert_eq!(
        status(&of(&format!(r#""conditions":[{}]"#, condition("Complete"))), &of("")),
        [
            "status.completionTime: Required value: completionTime is required for Complete jobs",
            "status.conditions: Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
            "status.startTime: Required value: startTime is required for finished job",
        ]
    );
    let done = format!(
        r#""startTime":"2026-01-02T03:04:05Z","completionTime":"2026-01-02T03:04:05Z","conditions":[{},{}]"#,
        condition("SuccessCriteriaMet"),
        condition("Complete")
    );
    assert_eq!(status(&of(&done), &of("")), [""; 0]);
    assert_eq!(
        status(
            &of(r#""startTime":"2026-01-02T03:04:05Z","completionTime":"2026-01-02T03:04:04Z""#),
            &of(&done)
        ),
        [
            "status.completionTime: Invalid value: 2026-01-02 03:04:04 +0000 UTC: cannot set completionTime when there is no Complete=True condition",
            "status.completionTime: Invalid value: 2026-01-02 03:04:04 +0000 UTC: completionTime cannot be set before startTime",
            "status.conditions: Invalid value: cannot disable the terminal Complete=True condition",
            "status.completionTime: Invalid value: 2026-01-02 03:04:04 +0000 UTC: completionTime cannot be mutated",
            "status.conditions: Invalid value: cannot disable the SuccessCriteriaMet=True condition",
        ]
    );
    let failed = format!(
        r#""startTime":"2026-01-02T03:04:05Z","conditions":[{},{}],"uncountedTerminatedPods":{{"succeeded":["a","a",""]}},"terminating":2"#,
        condition("Failed"),
        condition("FailureTarget")
    );
    assert_eq!(
        status(&of(&failed), &of("")),
        [
            r#"status.uncountedTerminatedPods.succeeded[1]: Duplicate value: "a""#,
            r#"status.uncountedTerminatedPods.succeeded[2]: Invalid value: "": must not be empty"#,
            r#"status.uncountedTerminatedPods: Invalid value: batch.UncountedTerminatedPods{Succeeded:[]types.UID{"a", "a", ""}, Failed:[]types.UID(nil)}: uncountedTerminatedPods needs to be empty for finished job"#,
            "status.terminating: Invalid value: 2: terminating>0 is invalid for finished job",
        ]
    );
    let indexed = |status: &str| {
        stored(r#","completionMode":"Indexed","completions":9,"backoffLimitPerIndex":1"#, status)
    };
    assert_eq!(
        status(&indexed(r#""completedIndexes":"0-2","failedIndexes":"2,1""#), &indexed("")),
        [
            r#"status.failedIndexes: Invalid value: "2,1": error parsing failedIndexes: non-increasing order, previous: 2, current: 1"#,
            r#"status.failedIndexes: Invalid value: "2,1": failedIndexes and completedIndexes overlap at index: 2"#,
        ]
    );
    assert_eq!(
        status(&of(""), &of(r#""startTime":"2026-01-02T03:04:05Z""#)),
        ["status.startTime: Required value: startTime cannot be removed for unsuspended job"]
    );
}

#[test]
fn cron_jobs_have_a_schedule_and_a_zone() {
    let errors = |spec: &str| create(&cron_job("c", spec));
    assert_eq!(errors(r#","schedule":"* * * * *","timeZone":"Europe/Berlin""#), [""; 0]);
    assert_eq!(
        errors(r#","timeZone":"","concurrencyPolicy":"Perhaps","startingDeadlineSeconds":-1"#),
        [
            "spec.schedule: Required value",
            "spec.startingDeadlineSeconds: Invalid value: -1: must be greater than or equal to 0",
            r#"spec.timeZone: Invalid value: "": timeZone must be nil or non-empty string"#,
            r#"spec.concurrencyPolicy: Unsupported value: "Perhaps": supported values: "Allow", "Forbid", "Replace""#,
        ]
    );
    assert_eq!(
        errors(r#","schedule":"CRON_TZ=Nope/Zone * * * * *","timeZone":"local""#),
        [
            r#"spec.schedule: Invalid value: "CRON_TZ=Nope/Zone * * * * *": provided bad location Nope/Zone: unknown time zone Nope/Zone"#,
            r#"spec.schedule: Invalid value: "CRON_TZ=Nope/Zone * * * * *": cannot use TZ or CRON_TZ in schedule, use timeZone field instead"#,
            r#"spec.timeZone: Invalid value: "local": timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"#,
            r#"spec.timeZone: Invalid value: "local": unknown time zone local"#,
        ]
    );
    let old = cron_job("c", r#","schedule":"TZ=UTC * * * * *""#);
    assert_eq!(update(&old, &old), [""; 0]);
    assert_eq!(
        update(&cron_job("c", r#","schedule":"TZ=UTC * * * * *","timeZone":"../etc""#), &old),
        [
            r#"spec.schedule: Invalid value: "TZ=UTC * * * * *": cannot use both timeZone field and TZ or CRON_TZ in schedule"#,
            r#"spec.timeZone: Invalid value: "../etc": unknown time zone ../etc"#,
        ]
    );
    assert_eq!(warnings(&old, Some(&old)).len(), 1);
    let selected = cron_job("c", r#","schedule":"@hourly""#)
        .replace(r#""template""#, r#""manualSelector":true,"selector":{"matchLabels":{"a":"b"}},"template""#);
    assert_eq!(
        create(&selected),
        [
            r#"spec.jobTemplate.spec.selector: Invalid value: v1.LabelSelector{MatchLabels:map[string]string{"a":"b"}, MatchExpressions:[]v1.LabelSelectorRequirement(nil)}: `selector` will be auto-generated"#,
            r#"spec.jobTemplate.spec.manualSelector: Unsupported value: true: supported values: "nil", "false""#,
        ]
    );
    let long = "n".repeat(53);
    assert_eq!(
        create(&cron_job(&long, r#","schedule":"@hourly""#)),
        [format!(r#"metadata.name: Invalid value: "{long}": must be no more than 52 characters"#)]
    );
}

#[test]
fn very_wide_jobs_are_warned_of() {
    let wide = job(r#","completionMode":"Indexed","completions":100001,"parallelism":10001"#);
    assert_eq!(
        warnings(&wide, None),
        [
            "spec: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
        ]
    );
}
