use super::*;

fn row(user: &str, agent: &str, resource: &str, busy: f64) -> Row {
    let sums = Sums { busy, requests: 1.0, read_objects: 2.0, ..Sums::default() };
    let key = Key { user: user.into(), agent: agent.into(), resource: resource.into() };
    Row { key, late: sums, total: sums }
}

fn rows() -> Vec<Row> {
    vec![
        row("jane", "kubectl", "pods", 5e9),
        row("jane", "helm", "pods", 3e9),
        row("joe\n", "kubectl", "apps/deployments", 6e9),
    ]
}

fn wanted(query: &str, accept: &str) -> Result<Wanted, &'static str> {
    Wanted::of(Query::new(query), accept)
}

#[test]
fn parameters_say_what_is_shown() {
    let plain = wanted("", "").unwrap();
    assert_eq!(plain, Wanted { form: Form::Text, by: By::All, top: MOST_ROWS });
    assert_eq!(wanted("format=&by=&top=", ""), Ok(plain));
    assert_eq!(
        wanted("format=json&by=user&top=3", ""),
        Ok(Wanted { form: Form::Json, by: By::User, top: 3 })
    );
    assert_eq!(wanted("by=agent", "").unwrap().by, By::Agent);
    assert_eq!(wanted("by=resource", "").unwrap().by, By::Resource);
    for wrong in ["format=xml", "by=x", "top=x", "top=-1"] {
        assert!(wanted(wrong, "").is_err(), "{wrong}");
    }
    for (accept, form) in [
        ("application/json", Form::Json),
        ("application/json;q=1", Form::Json),
        // kubectl get --raw.
        ("application/json, */*", Form::Text),
        ("text/plain", Form::Text),
        ("*/*", Form::Text),
    ] {
        assert_eq!(wanted("", accept).unwrap().form, form, "{accept}");
    }
    assert_eq!(wanted("format=text", "application/json").unwrap().form, Form::Text);
}

#[test]
fn rows_are_summed_by_one_name_and_sorted() {
    let names = |query: &str| -> Vec<(String, f64)> {
        let rows = wanted(query, "").unwrap().of_rows(rows());
        rows.into_iter()
            .map(|row| ([&*row.key.user, &*row.key.agent, &*row.key.resource].concat(), row.late.busy / 1e9))
            .collect()
    };
    assert_eq!(names("by=user"), [("jane".to_owned(), 8.0), ("joe\n".to_owned(), 6.0)]);
    assert_eq!(names("by=agent"), [("kubectl".to_owned(), 11.0), ("helm".to_owned(), 3.0)]);
    assert_eq!(names("by=resource&top=1"), [("pods".to_owned(), 8.0)]);
    assert_eq!(names("top=2").len(), 2);
}

fn page() -> Page {
    let holder = |flow: &str, seats| flowcontrol::Holder {
        schema: "users".into(),
        flow: flow.into(),
        seats,
        requests: 1,
    };
    let level =
        |name: &str, seats, holders| Standing { level: name.into(), seats, taken: 3, waiting: 1, holders };
    Page {
        rows: wanted("", "").unwrap().of_rows(rows()),
        others: Row::none(Key::default()),
        all: row("", "", "", 14e9),
        levels: vec![
            level("exempt", None, Vec::new()),
            level("narrow", Some(4), vec![holder("jane", 2), holder("\u{1b}[2J", 1)]),
        ],
    }
}

#[test]
fn text_is_a_table_without_control_characters() {
    let text = page().text();
    assert!(text.chars().all(|character| character == '\n' || !character.is_control()), "{text:?}");
    let lines: Vec<&str> = text.lines().collect();
    let head = lines.iter().position(|line| line.starts_with("USER ")).unwrap();
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(lines[head]).len(), 15);
    assert_eq!(words(lines[head + 1])[..6], ["joe?", "kubectl", "apps/deployments", "6.000000", "1", "0"]);
    assert_eq!(words(lines[head + 4])[..2], ["(others)", "0.000000"]);
    assert_eq!(words(lines[head + 5])[..2], ["(all)", "14.000000"]);
    assert!(lines.contains(&"narrow  4      3      1        users/jane: 2, users/?[2J: 1"), "{text}");
    assert!(lines.iter().any(|line| words(line)[..] == ["exempt", "-", "3", "1"]), "{text}");
}

#[test]
fn json_has_the_same() {
    let json: serde_json::Value = serde_json::from_str(&page().json()).unwrap();
    assert_eq!(json["halfLifeSeconds"], 600);
    let row = &json["rows"][0];
    assert_eq!((&row["user"], &row["userAgent"]), (&"joe\n".into(), &"kubectl".into()));
    assert_eq!((&row["recent"]["cpuSeconds"], &row["total"]["readObjects"]), (&6.into(), &2.into()));
    assert_eq!(json["all"]["recent"]["cpuSeconds"], 14);
    assert_eq!(json["others"]["total"]["requests"], 0);
    assert_eq!(json["levels"][0]["seats"], serde_json::Value::Null);
    let holder = &json["levels"][1]["holders"][0];
    assert_eq!(
        (&holder["flow"], &holder["flowSchema"], &holder["seats"]),
        (&"jane".into(), &"users".into(), &2.into())
    );
}
