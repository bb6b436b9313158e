use super::*;
use crate::{Limits, json};

/// The errors of an object with a list of ports, each with a name, a number and a protocol.
fn port_errors(text: &str) -> Vec<String> {
    use crate::{Builder, FieldBuilder, Ref};
    let protocols = ["TCP", "UDP"].map(object::Text::known);
    let port = Builder::new("test.v1.Port")
        .field("name", FieldBuilder::new(Shape::String).rule(Rule::Format(Format::PortName)))
        .field("number", FieldBuilder::new(Shape::Int64).rule(Rule::Required).rule(Rule::Between(1, 65535)))
        .field("protocol", FieldBuilder::new(Shape::String).values(protocols).rule(Rule::Listed))
        .build();
    let ports = Shape::List(Ref::Shared(Shape::Struct(port).into()));
    let ty = Builder::new("test.v1.Ports")
        .field("ports", FieldBuilder::new(ports).rule(Rule::Unique(Some("name".into()))))
        .build();
    let value = json::decode_shape(&Shape::Struct(ty.clone()), text.as_bytes(), &Limits::default())
        .expect("valid JSON")
        .value;
    let errors = validate(&ty, value.as_map().unwrap(), None, &Path::UNSET);
    errors.iter().map(Error::to_string).collect()
}

#[test]
fn errors_carry_their_field_path() {
    let text = r#"{"ports":[{"number":80,"protocol":"TCP"},{"protocol":"TCP"},{"number":70000,"protocol":"udp","name":"UPPER-a"}]}"#;
    assert_eq!(
        port_errors(text),
        [
            "ports[1].number: Required value",
            "ports[2].name: Invalid value: \"UPPER-a\": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
            "ports[2].number: Invalid value: 70000: must be between 1 and 65535, inclusive",
            "ports[2].protocol: Unsupported value: \"udp\": supported values: \"TCP\", \"UDP\"",
        ]
    );
}

#[test]
fn required_immutable_and_least_values_are_enforced() {
    use crate::{Builder, FieldBuilder};
    let ty = Builder::new("test.v1.Thing")
        .field("name", FieldBuilder::new(Shape::String).rule(Rule::Required).rule(Rule::Immutable))
        .field("count", FieldBuilder::new(Shape::Int64).rule(Rule::Min(0)))
        .build();
    let read = |text: &str| {
        let shape = Shape::Struct(ty.clone());
        json::decode_shape(&shape, text.as_bytes(), &Limits::default()).expect("valid JSON").value
    };
    let errors = |new: &str, old: Option<&str>| -> Vec<String> {
        let (new, old) = (read(new), old.map(read));
        let old = old.as_ref().and_then(Value::as_map);
        validate(&ty, new.as_map().unwrap(), old, &Path::UNSET).iter().map(Error::to_string).collect()
    };
    let (a, b) = (r#"{"name":"a","count":0}"#, r#"{"name":"b","count":-1}"#);
    assert_eq!(errors(a, None), [""; 0]);
    assert_eq!(errors(a, Some(a)), [""; 0]);
    assert_eq!(errors("{}", None), ["name: Required value"]);
    assert_eq!(
        errors(b, Some(a)),
        [
            "name: Invalid value: \"b\": field is immutable",
            "count: Invalid value: -1: must be greater than or equal to 0",
        ]
    );
}

#[test]
fn list_elements_with_the_same_key_are_duplicates() {
    let text = r#"{"ports":[{"name":"a","number":1},{"name":"b","number":1},{"name":"a","number":1}]}"#;
    assert_eq!(port_errors(text), ["ports[2].name: Duplicate value: \"a\""]);
}

#[test]
fn length_and_item_count_limits_are_enforced() {
    use crate::{Builder, FieldBuilder};
    let ty = Builder::new("test.v1.Thing")
        .field("text", FieldBuilder::new(Shape::String).rule(Rule::MaxLength(3)))
        .field(
            "list",
            FieldBuilder::new(Shape::List(crate::Ref::Static(&Shape::Int64)))
                .rule(Rule::MaxItems(2))
                .rule(Rule::Unique(None)),
        )
        .field(
            "few",
            FieldBuilder::new(Shape::List(crate::Ref::Static(&Shape::Int64))).rule(Rule::MinItems(2)),
        )
        .field("most", FieldBuilder::new(Shape::Int64).rule(Rule::Max(9)))
        .build();
    let text = br#"{"text":"long","list":[1,2,1],"few":[1],"most":10}"#;
    let value =
        json::decode_shape(&Shape::Struct(ty.clone()), text, &Limits::default()).expect("valid").value;
    let errors: Vec<_> =
        validate(&ty, value.as_map().unwrap(), None, &Path::UNSET).iter().map(Error::to_string).collect();
    assert_eq!(
        errors,
        [
            "text: Too long: may not be more than 3 bytes",
            "list: Too many: 3: must have at most 2 items",
            "list[2]: Duplicate value: 1",
            "few: Invalid value: 1: must have at least 2 items",
            "most: Invalid value: 10: must be less than or equal to 9",
        ]
    );
}

#[test]
fn union_members_must_match_the_discriminator() {
    use crate::{Builder, FieldBuilder, Member, Union};
    static MEMBERS: [Member; 2] = [
        Member { value: object::Text::known("A"), field: object::Text::known("a") },
        Member { value: object::Text::known("B"), field: object::Text::known("b") },
    ];
    let union = Union { discriminator: "type".into(), members: crate::Ref::Static(&MEMBERS), checked: true };
    let ty = Builder::new("test.v1.Choice")
        .field("type", FieldBuilder::new(Shape::String))
        .field("a", FieldBuilder::new(Shape::Int64))
        .field("b", FieldBuilder::new(Shape::Int64))
        .union(union)
        .build();
    let shape = Shape::Struct(ty.clone());
    let value =
        json::decode_shape(&shape, br#"{"type":"A","b":1}"#, &Limits::default()).expect("valid").value;
    let errors: Vec<_> =
        validate(&ty, value.as_map().unwrap(), None, &Path::UNSET).iter().map(Error::to_string).collect();
    assert_eq!(
        errors,
        [
            "a: Required value: must be specified when type is \"A\"",
            "b: Forbidden: may only be specified when type is \"B\""
        ]
    );
}

#[test]
fn counterparts_in_long_lists_are_those_of_short_ones() {
    let keys = [Text::known("port"), Text::known("protocol")];
    let topology = Topology::Keyed(crate::Ref::Shared(keys.to_vec().into()));
    let text = |count: usize| {
        let item = |at: usize| match at % 3 {
            0 => format!(r#"{{"port":{},"n":{at}}}"#, at / 6),
            1 => format!(r#"{{"port":{},"protocol":"UDP","n":{at}}}"#, at / 6),
            _ => format!(r#"{{"port":"{}","n":{at}}}"#, at / 6),
        };
        format!("[{}]", (0..count).map(item).collect::<Vec<_>>().join(","))
    };
    let list =
        |count| json::decode_shape(&Shape::Any, text(count).as_bytes(), &Limits::default()).unwrap().value;
    for count in [Elements::SCANNED, 40] {
        let old = list(count);
        let scan = Elements::Scan(&keys, old.as_list().unwrap());
        let chosen = Elements::of(&topology, Some(&old)).unwrap();
        assert_eq!(matches!(chosen, Elements::Index(..)), count > Elements::SCANNED);
        for element in list(60).as_list().unwrap() {
            assert_eq!(chosen.counterpart(element), scan.counterpart(element), "{element:?}");
        }
    }
    assert!(Elements::of(&Topology::Natural, Some(&list(3))).is_none());
}
