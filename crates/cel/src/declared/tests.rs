use super::*;

fn field(name: &str, declared: Declared, flags: &str) -> DeclaredField {
    DeclaredField {
        name: name.into(),
        escaped: crate::escape::escape(name).map(|name| (*name).into()),
        declared: Arc::new(declared),
        is_required: flags.contains('r'),
        has_default: flags.contains('d'),
    }
}

#[test]
fn lists_have_as_many_items_as_a_request_has_room_for() {
    let most = |item| Declared::list(Arc::new(item), None).max_elements;
    assert_eq!(most(Declared::integer()), 1_572_863);
    assert_eq!(most(Declared::boolean()), 629_145);
    assert_eq!(most(Declared::string(None, None)), 1_048_575);
    assert_eq!(most(Declared::date()), 241_978);
    assert_eq!(most(Declared::date_time()), 142_987);
    assert_eq!(most(Declared::duration()), 786_431);
    assert_eq!(Declared::list(Arc::new(Declared::integer()), Some(7)).max_elements, 7);
    assert_eq!(Declared::list(Arc::new(Declared::integer()), Some(-7)).max_elements, 0);
}

#[test]
fn maps_have_as_many_entries_as_a_request_has_room_for() {
    let most = |value| Declared::map(Arc::new(value), None).max_elements;
    assert_eq!(most(Declared::number()), 449_389);
    assert_eq!(most(Declared::string(None, None)), 393_215);
}

#[test]
fn required_fields_without_default_add_to_the_least_size_of_an_object() {
    let fields = vec![
        field("name", Declared::string(None, None), "r"),
        field("on", Declared::boolean(), "rd"),
        field("count", Declared::integer(), ""),
    ];
    assert_eq!(Declared::object(fields).min_serialized, 2 + 4 + 2 + 4);
}

#[test]
fn characters_of_a_text_take_up_to_four_bytes() {
    assert_eq!(Declared::string(Some(10), Some(99)).max_elements, 40);
    assert_eq!(Declared::string(None, Some(9)).max_elements, 9);
    assert_eq!(Declared::string(None, None).max_elements, 3_145_726);
    assert_eq!(Declared::string(Some(-1), None).max_elements, 0);
    assert_eq!(Declared::bytes(Some(10)).max_elements, 10);
}

#[test]
fn a_length_past_all_numbers_is_the_size_that_the_reference_has() {
    let root = Declared::object(vec![field("huge", Declared::string(Some(i64::MAX), None), "")]);
    let size = DeclaredSizes(&root).size(&["self", "huge"]);
    assert_eq!(size, Some(SizeEstimate { min: 0, max: u64::MAX - 3 }));
}

#[test]
fn sizes_are_found_by_paths_whatever_the_variable() {
    let tags = Declared::list(Arc::new(Declared::string(Some(2), None)), Some(5));
    let labels = Declared::map(Arc::new(Declared::string(Some(3), None)), Some(6));
    let root = Declared::object(vec![field("tags", tags, ""), field("labels", labels, "")]);
    let size = |path: &[&str]| DeclaredSizes(&root).size(path).map(|size| size.max);
    assert_eq!(size(&[]), None);
    assert_eq!(size(&["self"]), Some(0));
    assert_eq!(size(&["anything", "tags"]), Some(5));
    assert_eq!(size(&["self", "tags", "@items"]), Some(8));
    assert_eq!(size(&["self", "tags", "@keys"]), None);
    assert_eq!(size(&["self", "labels", "@values"]), Some(12));
    assert_eq!(size(&["self", "labels", "@keys"]), Some(0));
    assert_eq!(size(&["self", "labels", "@keys", "@items"]), None);
    assert_eq!(size(&["self", "missing"]), None);
}

#[test]
fn types_within_an_object_have_the_names_of_their_places() {
    let item = Declared::object(vec![field("namespace", Declared::integer(), "")]);
    let items = Declared::list(Arc::new(item), None);
    let types = DeclaredTypes::new("t", Arc::new(Declared::object(vec![field("items", items, "")])));
    assert_eq!(types.root(), Type::object("t"));
    assert_eq!(types.field("t", "items"), Some(Type::list(Type::object("t.items.@idx"))));
    assert_eq!(types.field("t.items.@idx", "namespace"), Some(Type::Int));
    assert_eq!(types.field("t.items.@idx", "__namespace__"), Some(Type::Int));
    assert_eq!(types.field("t.items.@idx", "missing"), None);
    assert_eq!(types.find("t.items"), Some(Type::list(Type::object("t.items.@idx"))));
    assert_eq!(types.find("t.items.@idx.namespace"), None);
    assert_eq!(types.find("other"), None);
}

#[test]
fn a_list_or_a_map_at_the_root_has_no_name() {
    let types = DeclaredTypes::new("t", Arc::new(Declared::map(Arc::new(Declared::integer()), None)));
    assert_eq!(types.root(), Type::map(Type::String, Type::Int));
    assert_eq!(types.find("t"), None);
}
