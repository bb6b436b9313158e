//! `csinodes`.

use crate::cells::count;
use crate::core::volume_sources::csi_driver_name;
use crate::seen::Seen;
use crate::{
    About, Cell, Check, Column, Deleted, Kind, OldVersion, Rules, Scope, Strategy, Version, checks, columns,
};
use object::Map;
use object::field::{BadValue, Error, List, Path};
use object::name::{invalid, qualified_name};
use object::quote::{Quoted, quote_each};
use schema::view::{Items, View};
use schema::views::storage::v1::{CSINode, CSINodeDriver};
use std::collections::HashMap;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "storage.k8s.io",
    resource: "csinodes",
    singular: "csinode",
    kind: "CSINode",
    versions: &[Version::V1.introduced(17)],
    old_versions: &[OldVersion::named("storage.k8s.io/v1beta1")],
    scope: Scope::Cluster,
    columns: columns!(|object| [
        Column::NAME => Cell::name(object),
        Column::integer(
            "Drivers",
            About::Text("Drivers indicates the number of CSI drivers registered on the node"),
        ) => count(CSINode::of(object).spec().drivers()),
        Column::AGE => Cell::age(object),
    ]),
    deleted: Deleted::Object,
    // The reference checks the new state twice.
    update_checks: &[Check::Metadata, Check::Object, Check::Metadata, Check::Object, Check::Change],
    strategy: &CSINodeStrategy,
    ..Kind::PLAIN
};

const LONGEST_NODE_ID: usize = 256;

struct CSINodeStrategy;

impl Strategy for CSINodeStrategy {
    fn validate_object(&self, object: &Map, _old: Option<&Map>, _rules: &Rules<'_>) -> List {
        let spec = Path::new("spec");
        drivers(CSINode::of(object).spec().drivers(), &spec.child("drivers"))
    }

    fn validate_change(&self, new: &Map, old: &Map) -> List {
        changes(CSINode::of(new).spec().drivers(), CSINode::of(old).spec().drivers())
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }
}

fn drivers(drivers: Items<'_, CSINodeDriver<'_>>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let mut names = Seen::new();
    for (at, of) in drivers.iter().enumerate() {
        let path = path.index(at);
        errors.append(driver(of, &path));
        if !names.insert(of.name()) {
            errors.push(Error::duplicate(&path.child("name"), of.name()));
        }
        errors.append(topology_keys(of, &path));
    }
    errors
}

fn driver(driver: CSINodeDriver<'_>, path: &Path<'_>) -> List {
    let mut errors = csi_driver_name(driver.name(), &path.child("name"));
    let (id, at) = (driver.node_id(), path.child("nodeID"));
    errors.extend(checks::required(id, &at));
    if id.len() > LONGEST_NODE_ID {
        let why = format!("must be {LONGEST_NODE_ID} characters or less");
        errors.push(Error::invalid(&at, id, why));
    }
    if let Some(count) = driver.allocatable().and_then(|allocatable| allocatable.count()) {
        let at = path.child("allocatable");
        errors.extend(checks::non_negative(count, &at.child("count")));
    }
    errors
}

/// Errors have the path of the driver.
fn topology_keys(driver: CSINodeDriver<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let mut keys = Seen::new();
    for key in driver.topology_keys().iter() {
        errors.extend(checks::required(key, path));
        if !keys.insert(key) {
            errors.push(Error::duplicate(path, key));
        }
        errors.append(invalid(path, key, qualified_name(key)));
    }
    errors
}

/// A driver that stays does not change.
fn changes(new: Items<'_, CSINodeDriver<'_>>, old: Items<'_, CSINodeDriver<'_>>) -> List {
    let mut by_name: HashMap<&str, Vec<CSINodeDriver<'_>>> = HashMap::new();
    for driver in new.iter() {
        by_name.entry(driver.name()).or_default().push(driver);
    }
    let mut errors = List::new();
    let spec = Path::new("spec");
    let path = spec.child("drivers");
    for before in old.iter() {
        let same_name = by_name.get(before.name()).into_iter().flatten();
        for after in same_name.filter(|after| after.map() != before.map()) {
            errors.push_with(|| Error::invalid(&path, shown(*after), "field is immutable"));
        }
    }
    errors
}

/// A driver as an error shows it. The reference shows the address of `allocatable`.
fn shown(driver: CSINodeDriver<'_>) -> BadValue {
    if driver.allocatable().is_some() {
        return checks::shown(Some(&driver.map().clone().into()));
    }
    let keys = match driver.topology_keys() {
        none if none.is_empty() => "[]string(nil)".to_owned(),
        keys => format!("[]string{{{}}}", quote_each(keys.iter())),
    };
    BadValue::Raw(format!(
        "storage.CSINodeDriver{{Name:{}, NodeID:{}, TopologyKeys:{keys}, Allocatable:(*storage.VolumeNodeResources)(nil)}}",
        Quoted(driver.name()),
        Quoted(driver.node_id())
    ))
}

#[cfg(test)]
mod tests {
    use crate::testing::{create, update};

    fn node(drivers: &str) -> String {
        format!(r#"{{"apiVersion":"storage.k8s.io/v1","kind":"CSINode","spec":{{"drivers":[{drivers}]}}}}"#)
    }

    #[test]
    fn drivers_are_checked_one_by_one() {
        let drivers = r#"{"name":"D.io","nodeID":"n","topologyKeys":["a","a"],"allocatable":{"count":-1}},{"name":"D.io"}"#;
        assert_eq!(
            create(&node(drivers)),
            [
                "spec.drivers[0].allocatable.count: Invalid value: -1: must be greater than or equal to 0",
                r#"spec.drivers[0]: Duplicate value: "a""#,
                "spec.drivers[1].nodeID: Required value",
                r#"spec.drivers[1].name: Duplicate value: "D.io""#,
            ]
        );
        let long = format!(r#"{{"name":"d","nodeID":"{}"}}"#, "n".repeat(257));
        assert!(create(&node(&long))[0].ends_with("must be 256 characters or less"));
    }

    #[test]
    fn driver_that_stays_does_not_change() {
        let old = node(r#"{"name":"a","nodeID":"n"},{"name":"b","nodeID":"n"}"#);
        let new = node(r#"{"name":"c","nodeID":"n"},{"name":"a","nodeID":"m","topologyKeys":["k"]}"#);
        let repeated = node(r#"{"name":"a","nodeID":"m"},{"name":"a","nodeID":"o"}"#);
        let immutable =
            update(&repeated, &old).iter().filter(|error| error.ends_with("field is immutable")).count();
        assert_eq!(immutable, 2);
        assert_eq!(
            update(&new, &old),
            [
                r#"spec.drivers: Invalid value: storage.CSINodeDriver{Name:"a", NodeID:"m", TopologyKeys:[]string{"k"}, Allocatable:(*storage.VolumeNodeResources)(nil)}: field is immutable"#
            ]
        );
    }
}
