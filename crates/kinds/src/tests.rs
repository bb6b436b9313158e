use super::*;
use std::collections::HashSet;

#[test]
fn every_version_of_every_kind_has_a_type() {
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
            if let SubresourceBody::Kind { group, version, kind } = subresource.body {
                assert!(schema::builtin::by_kind(group, version, kind).is_some(), "{kind}");
            }
        }
    }
}

#[test]
fn a_resource_stands_once_in_its_group() {
    let mut seen = HashSet::new();
    for kind in all() {
        assert!(seen.insert((kind.group, kind.resource)), "{} {}", kind.group, kind.resource);
    }
    assert_eq!(seen.len(), KINDS_OF_THE_REFERENCE);
}

/// As many resource types does the reference have, counted over all versions once.
const KINDS_OF_THE_REFERENCE: usize = 70;

#[test]
fn what_is_shared_is_kept_somewhere() {
    for kind in all() {
        if let Storage::Shared { group, resource } = kind.storage {
            let owner = all().find(|other| other.group == group && other.resource == resource);
            assert_eq!(owner.map(|owner| owner.storage), Some(Storage::Own));
        }
    }
}

#[test]
fn names_shown_in_tables_come_first() {
    for kind in all() {
        assert!(kind.columns.list.iter().any(|column| column.format == "name"), "{}", kind.resource);
        let row = (kind.columns.row)(&object::Map::new());
        let headless = usize::from(kind.resource == "ipaddresses");
        assert_eq!(row.cells.len(), kind.columns.list.len() + headless, "{}", kind.resource);
    }
}
