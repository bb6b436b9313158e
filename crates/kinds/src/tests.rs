use super::*;
use std::collections::HashSet;

#[test]
fn every_kind_and_subresource_body_has_a_built_in_type() {
    for kind in all() {
        for version in kind.versions {
            assert!(
                schema::builtin::by_kind(kind.group, version.name, kind.kind).is_some(),
                "{} {} {}",
                kind.group,
                version.name,
                kind.kind
            );
        }
        for subresource in kind.subresources {
            if let SubresourceBody::Kind(ty) = subresource.body {
                assert!(ty().kind.is_some(), "{}", subresource.name);
            }
        }
    }
}

#[test]
fn resource_names_are_unique_in_their_group() {
    let mut seen = HashSet::new();
    for kind in all() {
        assert!(seen.insert((kind.group, kind.resource)), "{} {}", kind.group, kind.resource);
    }
    assert_eq!(seen.len(), KINDS_OF_THE_REFERENCE);
}

/// The number of resource types of the reference; several versions count once.
const KINDS_OF_THE_REFERENCE: usize = 71;

#[test]
fn shared_storage_names_a_kind_that_stores_objects() {
    for kind in all() {
        if let Storage::Shared { group, resource } = kind.storage {
            let owner = all().find(|other| other.group == group && other.resource == resource);
            assert_eq!(owner.map(|owner| owner.storage), Some(Storage::Own));
        }
    }
}

#[test]
fn every_kind_has_a_name_column_and_a_cell_per_column() {
    for kind in all() {
        assert!(kind.columns.list.iter().any(|column| column.format == "name"), "{}", kind.resource);
        let row = (kind.columns.row)(&object::Map::new());
        let headless = usize::from(kind.resource == "ipaddresses");
        assert_eq!(row.cells.len(), kind.columns.list.len() + headless, "{}", kind.resource);
    }
}
