use serde_json::json;

use super::*;

fn variables() -> Variables {
    let mut variables = Variables::new("scenario-r4x", "r4x");
    variables.save("rv", "1234".into());
    variables.save("short", "12".into());
    variables
}

#[test]
fn fields_become_placeholders_by_name() {
    let before = json!({
        "uid": "0f0e0d0c-0000-4000-8000-0123456789ab", "resourceVersion": "17", "continue": "eyJ2Ij",
        "clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7", "fd00::1"], "nodePort": 30001,
        "healthCheckNodePort": 80, "token": "a.b.c",
    });
    let after = json!({
        "uid": "<uid>", "resourceVersion": "<rv>", "continue": "<continue>",
        "clusterIP": "<ip>", "clusterIPs": ["<ip>", "fd00::1"], "nodePort": "<nodePort>",
        "healthCheckNodePort": 80, "token": "<jwt>",
    });
    assert_eq!(normal(&before, &variables()), after);
}

#[test]
fn values_of_another_form_are_kept() {
    let value = json!({
        "uid": "x", "resourceVersion": "0", "continue": "", "clusterIP": "None", "nodePort": "30001", "token": "a.b",
        "age": "5m", "other": "kube-api-access-ABCDE", "date": "2024-01-02T03:04:05",
    });
    assert_eq!(normal(&value, &variables()), value);
}

#[test]
fn uids_times_names_and_saved_versions_in_texts_become_placeholders() {
    for (before, after) in [
        ("2024-01-02T03:04:05Z", "<time>"),
        ("at 2024-01-02T03:04:05.123456Z, é", "at <time>, é"),
        ("uid 0f0e0d0c-0000-4000-8000-0123456789ab!", "uid <uid>!"),
        ("in scenario-r4x, x-r4x", "in {ns}, x-{run}"),
        ("version 1234 of 12", "version ${rv} of 12"),
        ("kube-api-access-ab1de", "kube-api-access-<suffix>"),
    ] {
        assert_eq!(normal_text(before, &variables()), after);
    }
}

#[test]
fn short_saved_versions_are_filled_into_the_recorded_answer() {
    let mut variables = variables();
    variables.save("short", "875".into());
    let wanted = json!({"{ns}": ["version ${short} of ${rv} in {ns}"]});
    assert_eq!(variables.fill_short(&wanted), json!({"{ns}": ["version 875 of ${rv} in {ns}"]}));
    assert_eq!(normal_text("version 875 of 1234", &variables), "version 875 of ${rv}");
}

#[test]
fn ages_become_placeholders_in_cells_only() {
    let before = json!({"cells": ["5m", "3m12s", "x", "1m2", "<unknown>", "5w"], "other": ["5m"]});
    let after = json!({"cells": ["<age>", "<age>", "x", "1m2", "<unknown>", "5w"], "other": ["5m"]});
    assert_eq!(normal(&before, &variables()), after);
}

#[test]
fn generated_name_becomes_a_placeholder_in_nested_values() {
    let before = json!({"metadata": {"generateName": "web-", "name": "web-x7k2p"}, "text": "pod web-x7k2p"});
    let after =
        json!({"metadata": {"generateName": "web-", "name": "web-<suffix>"}, "text": "pod web-<suffix>"});
    assert_eq!(normal(&before, &variables()), after);
}

#[test]
fn managed_fields_are_sorted_by_manager() {
    let entry = |manager: &str, time: &str| json!({"manager": manager, "operation": "Update", "time": time});
    let before =
        json!({"managedFields": [entry("b", "2024-01-02T03:04:05Z"), entry("a", "2024-01-02T03:04:06Z")]});
    assert_eq!(
        normal(&before, &variables()),
        json!({"managedFields": [entry("a", "<time>"), entry("b", "<time>")]})
    );
}

#[test]
fn a_value_with_quotes_fills_a_json_text_safely() {
    let mut variables = variables();
    variables.save("odd", "a\"\\".into());
    assert_eq!(variables.fill_json(r#"{"x":"${odd}"}"#), r#"{"x":"a\"\\"}"#);
}

#[test]
fn without_variables_only_what_differs_from_run_to_run_is_replaced() {
    let value =
        json!({"metadata": {"name": "a", "uid": "0f0e0d0c-0000-4000-8000-0123456789ab"}, "empty": ""});
    let wanted = json!({"metadata": {"name": "a", "uid": "<uid>"}, "empty": ""});
    assert_eq!(normal(&value, &Variables::none()), wanted);
}
