use crate::each_fact;
use object::Value;
use object::json_path::{JsonPath, Missing};
use object::path::Element;

const DOCUMENTS: [&str; 2] = [
    r#"{"kind":"Pod","metadata":{"name":"web-0","labels":{"app":"web"},"annotations":{"example.com/a.b":"c"},"generation":3},"spec":{"replicas":2,"weight":1.5,"paused":false,"empty":[],"none":null,"containers":[{"name":"a","image":"x:1","ports":[{"containerPort":80,"name":"http"},{"containerPort":443,"name":"https"}]},{"name":"b","image":"y:2","ports":[]}]},"status":{"conditions":[{"type":"Ready","status":"True","count":5},{"type":"Failed","status":"False","count":0},{"type":"Odd","count":7}],"n":[1,2,3,4,5],"mixed":[1,"a",true,null,2.5,{"a":1},[1,2]],"text":"hey"}}"#,
    r#"{"a":{"b":{"c":"d"}},"l":[[1,2],[3],[]],"m":[{"k":"x","v":1},{"k":"y","v":2},{"k":"z"}],"s":"","t":true,"f":1.25}"#,
];

fn read(json: &str) -> Value {
    match format!("v:{json}").parse() {
        Ok(Element::Value(value)) => value,
        other => unreachable!("{json}: {other:?}"),
    }
}

fn evaluate(path: &JsonPath, document: &Value, missing: Missing) -> String {
    match path.find(document, missing) {
        Ok(found) => {
            let text = |value: &Value| Element::Value(value.clone()).text().split_off("v:".len());
            let mut texts: Vec<_> = found.iter().map(|value| text(value)).collect();
            // A map has no order there.
            if path.as_str().contains('*') || path.as_str().contains("..") {
                texts.sort();
            }
            texts.join(" ")
        }
        Err(failure) => format!("!{failure}"),
    }
}

#[test]
fn every_path_finds_what_it_finds_in_the_reference() {
    let documents = DOCUMENTS.map(read);
    each_fact(include_str!("json_path.tsv"), |columns, line| match columns {
        [text, error] => assert_eq!(format!("!!{}", JsonPath::parse(text).unwrap_err()), *error, "{line}"),
        [text, expected @ ..] => {
            let path = JsonPath::parse(text).unwrap_or_else(|error| panic!("{line}: {error}"));
            let found = documents.iter().flat_map(|document| {
                [Missing::Allowed, Missing::Refused].map(|missing| evaluate(&path, document, missing))
            });
            assert_eq!(found.collect::<Vec<_>>(), *expected, "{line}");
            for document in &documents {
                let found = path.find(document, Missing::Allowed).unwrap_or_default();
                assert_eq!(path.first(document), found.into_iter().next(), "{line}");
            }
        }
        _ => panic!("short line: {line}"),
    });
}
