use super::time::{Civil, Layout, parse};
use super::*;
use object::Map as Tree;
use object::Value as Node;
use object::shape::{Form, ListForm};

/// A schema of one kind of value, with the same for all of its parts.
struct Of {
    form: Form<'static>,
    nullable: bool,
    part: Option<Box<Of>>,
}

impl Shape for Of {
    fn form(&self) -> Form<'_> {
        self.form
    }

    fn is_nullable(&self) -> bool {
        self.nullable
    }

    fn field(&self, key: &str) -> Option<&dyn Shape> {
        if key == "unknown" {
            return None;
        }
        self.part.as_deref().map(|part| part as &dyn Shape)
    }

    fn items(&self) -> Option<&dyn Shape> {
        self.part.as_deref().map(|part| part as &dyn Shape)
    }
}

fn equals<'a>(one: &Value<'a>, other: &Value<'a>) -> Result<bool, crate::Failure> {
    equal(one, other, &mut Meter::new(0, None))
}

fn scalar(form: Form<'static>) -> Of {
    Of { form, nullable: false, part: None }
}

fn list_of(form: ListForm<'static>, part: Of) -> Of {
    Of { form: Form::List(form), nullable: false, part: Some(Box::new(part)) }
}

fn error(outcome: crate::Outcome<'_>) -> String {
    outcome.expect_err("an error").to_string()
}

fn text(text: &str) -> Node {
    Node::from(text)
}

#[test]
fn data_that_does_not_fit_its_schema_is_an_error_in_the_words_of_the_reference() {
    for (form, tree, expected) in [
        (Form::String, Node::Int(1), "invalid data, expected string, got int64"),
        (Form::Integer, text("a"), "invalid data, expected int, got string"),
        (Form::Integer, Node::Float(1.5), "invalid data, expected int, got float64"),
        (Form::Boolean, Node::Map(Tree::new()), "invalid data, expected bool, got map[string]interface {}"),
        (
            Form::IntOrString,
            Node::Bool(true),
            "invalid data, expected XIntOrString value to be either a string or integer",
        ),
        (Form::Object, text("a"), "invalid data, expected a map for the provided schema with type=object"),
        (Form::String, Node::Null, "invalid data, got null for schema with nullable=false"),
        (Form::Duration, text("x"), "Invalid duration x: unable to parse x as duration"),
        (
            Form::DateTime,
            text("x"),
            "Invalid date-time formatted string x: parsing time \"x\" as \"2006-01-02T15:04:05\": cannot parse \
             \"x\" as \"2006\"",
        ),
        (
            Form::Bytes,
            text("a+b="),
            "Invalid byte formatted string a+b=: illegal base64 data at input byte 1",
        ),
    ] {
        assert_eq!(error(Value::of(&tree, Some(&scalar(form)))), expected);
    }
}

#[test]
fn texts_with_a_format_become_what_they_mean() {
    let of = |form, tree: Node| Value::of(&tree, Some(&scalar(form))).unwrap().to_string();
    assert_eq!(of(Form::Duration, text("1 day")), "24h0m0s");
    assert_eq!(of(Form::Duration, text("1m30s")), "1m30s");
    assert_eq!(of(Form::Date, text("2020-02-29")), "2020-02-29 00:00:00 +0000 UTC");
    assert_eq!(of(Form::DateTime, text("2020-02-29T01:02:03+02:00")), "2020-02-29 01:02:03 +0200 +0200");
    assert_eq!(of(Form::Bytes, text("AQID")), "[1 2 3]");
    assert_eq!(of(Form::Number, Node::Int(1)), "1");
}

#[test]
fn numbers_of_different_types_are_equal_if_they_are_the_same_number() {
    let equal = |one: Value<'_>, other: Value<'_>| equals(&one, &other).unwrap();
    assert!(equal(Value::Int(1), Value::Uint(1)));
    assert!(equal(Value::Double(1.0), Value::Int(1)));
    assert!(!equal(Value::Int(-1), Value::Uint(u64::MAX)));
    assert!(!equal(Value::Double(f64::NAN), Value::Double(f64::NAN)));
    assert!(!equal(Value::Int(1), Value::from("1")));
    assert!(equal(Value::Null, Value::Null));
}

#[test]
fn order_does_not_count_in_a_set_of_a_schema() {
    let shape = list_of(ListForm::Set, scalar(Form::String));
    let one = Node::from_iter(["a", "b"]);
    let other = Node::from_iter(["b", "a"]);
    let [one, other] = [&one, &other].map(|tree| Value::of(tree, Some(&shape)).unwrap());
    assert!(equals(&one, &other).unwrap());
    let atomic = list_of(ListForm::Atomic, scalar(Form::String));
    let tree = Node::from_iter(["b", "a"]);
    assert!(!equals(&Value::of(&tree, Some(&atomic)).unwrap(), &one).unwrap());
    assert_eq!(error(equals(&one, &Value::Int(1)).map(Value::Bool)), "no such overload");
}

#[test]
fn the_sum_of_two_sets_has_each_element_once() {
    let shape = list_of(ListForm::Set, scalar(Form::String));
    let tree = Node::from_iter(["a", "b"]);
    let Value::List(set) = Value::of(&tree, Some(&shape)).unwrap() else { panic!("a list") };
    let added = List::of(vec![Value::from("b"), Value::from("c")]);
    let sum = Value::List(set.plus(&added).unwrap());
    assert_eq!(sum.to_string(), "[a, b, c]");
    let same = Node::from_iter(["c", "b", "a"]);
    assert!(equals(&sum, &Value::of(&same, Some(&shape)).unwrap()).unwrap());
}

#[test]
fn a_table_of_keys_answers_as_a_scan_does() {
    let mut entries = Entries::default();
    for number in 0..50 {
        entries.insert(Value::Int(number), Value::Int(number * 2));
        entries.insert(Value::from(number.to_string()), Value::Int(number));
    }
    entries.insert(Value::Int(7), Value::Null);
    assert_eq!(entries.len(), 100);
    assert!(matches!(entries.get(&Value::Int(7)), Some(Value::Null)));
    assert!(matches!(entries.get(&Value::Uint(8)), Some(Value::Int(16))));
    assert!(matches!(entries.get(&Value::Double(9.0)), Some(Value::Int(18))));
    assert!(entries.get(&Value::Double(9.5)).is_none());
    entries.remove(&Value::Int(8));
    assert!(entries.get(&Value::Uint(8)).is_none());
    assert!(matches!(entries.get(&Value::from("49".to_owned())), Some(Value::Int(49))));
}

#[test]
fn json_that_a_tree_keeps_unread_is_read_when_it_is_looked_at() {
    let raw = object::RawJson::from_checked(r#"{"a":[1,2.5,"\u00e9\ud83d\ude00"],"b":null,"c":{}}"#);
    let tree = Node::Raw(raw);
    assert_eq!(Value::plain(&tree).to_string(), "{a: [1, 2.5, é😀], b: 0, c: {}}");
}

#[test]
fn concatenated_lists_are_not_copied() {
    let list = List::of(vec![Value::Int(1)]);
    let mut sum = list.clone();
    for _ in 0..40 {
        sum = sum.plus(&sum).unwrap();
    }
    assert_eq!(sum.len(), 1 << 40);
    assert!(matches!(sum.get(1 << 39), Some(Ok(Value::Int(1)))));
}

#[test]
fn times_are_read_and_written_as_go_does() {
    for (given, written) in [
        ("2020-02-29T01:02:03Z", "2020-02-29T01:02:03Z"),
        ("2020-02-29T1:02:03.120Z", "2020-02-29T01:02:03.12Z"),
        ("2020-02-29T01:02:03-07:30", "2020-02-29T01:02:03-07:30"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
    ] {
        assert_eq!(parse(Layout::Rfc3339, given).unwrap().to_string(), written);
    }
    for wrong in ["", "2020", "2021-02-29T01:02:03Z", "2020-02-29T24:02:03Z", "2020-02-29t01:02:03Z"] {
        assert!(parse(Layout::Rfc3339, wrong).is_err(), "{wrong}");
    }
    assert_eq!(Civil::of(1_582_979_696).day_of_year(), 59);
}

#[test]
fn zones_are_offsets_or_names_of_the_database() {
    assert_eq!(zone::offset("+02:00", 0), Ok(7_200));
    assert_eq!(zone::offset("-02:30", 0), Ok(-9_000));
    assert_eq!(zone::offset("UTC", 0), Ok(0));
    assert_eq!(zone::offset("x:1", 0), Err("strconv.Atoi: parsing \"x\": invalid syntax".into()));
    assert_eq!(zone::offset("No/Where", 0), Err("unknown time zone No/Where".into()));
    assert_eq!(zone::offset("../etc/passwd", 0), Err("time: invalid location name".into()));
}

/// A file of the database with one change, from an hour to two, and a rule for the years after.
fn zone_file(rule: &str) -> Vec<u8> {
    let mut data = b"TZif2".to_vec();
    data.extend([0; 15 + 24]);
    data.extend(b"TZif2");
    data.extend([0; 15]);
    data.extend([0_u32, 0, 0, 1, 2, 8].into_iter().flat_map(u32::to_be_bytes));
    data.extend(1_000_i64.to_be_bytes());
    data.push(1);
    for (offset, summer) in [(3_600_i32, 0), (7_200, 1)] {
        data.extend(offset.to_be_bytes());
        data.extend([summer, 0]);
    }
    data.extend(b"CET\0CES\0");
    data.extend(format!("\n{rule}\n").bytes());
    data
}

#[test]
fn files_of_the_database_give_changes_and_rules() {
    let file = zone_file("CET-1CEST,M3.5.0,M10.5.0/3");
    assert_eq!(zone::at(&file, 999), Some(3_600));
    // 2024-03-31T00:59:59Z and one second later
    assert_eq!(zone::at(&file, 1_711_846_799), Some(3_600));
    assert_eq!(zone::at(&file, 1_711_846_800), Some(7_200));
    assert_eq!(zone::at(&zone_file(""), 1_711_846_800), Some(7_200));
}

#[test]
fn damaged_files_of_the_database_are_refused() {
    let file = zone_file("CET-1CEST,M3.5.0,M10.5.0/3");
    for length in 0..file.len() {
        let _ = zone::at(&file[..length], 5_000);
    }
    for place in 0..file.len() {
        let mut damaged = file.clone();
        damaged[place] ^= 0xff;
        let _ = zone::at(&damaged, 1_711_846_800);
        let _ = zone::at(&damaged, i64::MIN);
    }
    assert_eq!(zone::at(b"TZif", 0), None);
}
