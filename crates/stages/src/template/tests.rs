use super::*;
use crate::stage::testing::value;

fn render(template: &str, object: &str) -> Result<String, String> {
    Template::parse(template)?.render(&value(object), &())
}

#[test]
fn templates_write_what_gos_do() {
    let object = r#"{a: {b: x, n: 3, l: [p, q], m: {k: v}}, t: true, e: "", z: null}"#;
    for (template, expected) in [
        ("text", "text"),
        ("{{ .a.b }} {{ .a.n }} {{ .t }}", "x 3 true"),
        ("{{ .none }}{{ .none.deeper }}{{ .z }}", "<no value><no value><no value>"),
        ("{{ .a.l }} {{ .a.m }}", "[p q] map[k:v]"),
        (r#"{{ .a.b | Quote }} {{ Quote .a.n }} {{ .none | Quote }}"#, r#""x" "3" "null""#),
        ("{{ $x := .a }}{{ $x.b }}{{ $.a.n }}", "x3"),
        ("{{ if .e }}1{{ else if .t }}2{{ else }}3{{ end }}", "2"),
        ("{{ if and .t .a (not .e) }}yes{{ end }}", "yes"),
        (r#"{{ or .e .none "third" }} {{ or .e false }}"#, "third false"),
        ("{{ with .a.m }}{{ .k }}{{ else }}none{{ end }}{{ with .e }}x{{ else }}{{ .t }}{{ end }}", "vtrue"),
        ("{{ range .a.l }}[{{ . }}]{{ end }}{{ range .none }}x{{ else }}empty{{ end }}", "[p][q]empty"),
        ("{{ range $i, $v := .a.l }}{{ $i }}={{ $v }};{{ end }}", "0=p;1=q;"),
        ("{{ range $k, $v := .a.m }}{{ $k }}={{ $v }}{{ end }}", "k=v"),
        ("{{ $x := 1 }}{{ range .a.l }}{{ $x = . }}{{ end }}{{ $x }}", "q"),
        ("{{ $x := 1 }}{{ if .t }}{{ $x := 2 }}{{ end }}{{ $x }}", "1"),
        (r#"{{ index .a.l 1 }}{{ index .a.m "k" }}{{ index .a "l" 0 }}"#, "qvp"),
        (r#"{{ (index .a.l 0) }}{{ ( .a ).b }}"#, "px"),
        ("{{ len .a.l }}{{ len .a.b }}", "21"),
        (
            r#"{{ eq .a.b "x" }}{{ eq .a.n 3 }}{{ eq .none "x" }}{{ eq 1 2 1 }}{{ ne 1 2 }}{{ lt 1 2 }}{{ ge "b" "a" }}"#,
            "truetruefalsetruetruetruetrue",
        ),
        (r#"{{ printf "%s-%d-%v-%q%%" "a" 1 true "b" }}"#, r#"a-1-true-"b"%"#),
        (r#"{{ default "d" .e }}{{ .a.b | default "d" }}{{ dict "a" 1 }}{{ list 1 2 }}"#, "dxmap[a:1][1 2]"),
        ("{{ add 1 2 3 }}{{ sub 5 2 }}{{ mul 2 3 }}{{ div 7 2 }}{{ mod 7 2 }}", "63631"),
        ("a {{- /* gone */ -}} b {{- .a.b -}}  c", "abxc"),
        ("{{ `raw \"text\"` }}{{ \"tab\\t\" }}", "raw \"text\"tab\t"),
        ("{{ YAML .a.m }} x:{{ YAML .a.l 1 }}", "{\"k\":\"v\"} x:\n  [\"p\",\"q\"]\n"),
        (
            "{{ range NodeConditions }}{{ .type }} {{ end }}",
            "Ready MemoryPressure DiskPressure PIDPressure NetworkUnavailable ",
        ),
    ] {
        assert_eq!(render(template, object).as_deref(), Ok(expected), "{template}");
    }
}

#[test]
fn templates_that_are_not_understood_are_refused() {
    for (template, why) in [
        ("{{ frob }}", "function \"frob\" not defined"),
        ("{{ if .a }}", "{{end}} is missing"),
        ("{{ end }}", "unexpected {{end}}"),
        ("{{ .a", "unclosed action"),
        ("{{ (.a }}", "unclosed left paren"),
        ("{{ .a) }}", "right paren"),
        ("{{ }}", "missing value"),
        ("{{ \"a }}", "unterminated"),
        ("{{ define \"x\" }}", "not supported"),
        ("{{ .a .b }}", "non-function"),
        ("{{ .a | .b }}", "non executable"),
        ("{{ /* a }}", "unclosed comment"),
    ] {
        let error = Template::parse(template).unwrap_err();
        assert!(error.contains(why), "{template}: {error}");
    }
    let deep = "{{ if .a }}".repeat(1_000) + &"{{ end }}".repeat(1_000);
    assert!(Template::parse(&deep).unwrap_err().contains("too deeply"));
    let deep = format!("{{{{ {}.a{} }}}}", "(".repeat(1_000), ")".repeat(1_000));
    assert!(Template::parse(&deep).unwrap_err().contains("too deeply"));
}

#[test]
fn templates_that_fail_or_do_too_much_end() {
    for (template, why) in [
        ("{{ index .l 7 }}", "index out of range"),
        ("{{ $x }}", "undefined variable"),
        ("{{ lt .l 1 }}", "incompatible types"),
        ("{{ range \"text\" }}{{ end }}", "can't iterate"),
        ("{{ div 1 0 }}", "division by zero"),
        ("{{ NodeIP }}", "not defined"),
        ("{{ range 100000 }}{{ range 100000 }}x{{ end }}{{ end }}", "too much"),
        ("{{ $x := \"xxxxxxxxxx\" }}{{ range 100 }}{{ $x = print $x $x }}{{ end }}", "too much"),
        ("{{ $x := . }}{{ range 100 }}{{ $x = list $x $x }}{{ end }}", "too much"),
        ("{{ $x := . }}{{ range 10000 }}{{ $x = list $x }}{{ end }}", "too much"),
    ] {
        let error = render(template, "{l: [1]}").unwrap_err();
        assert!(error.contains(why), "{template}: {error}");
    }
}
