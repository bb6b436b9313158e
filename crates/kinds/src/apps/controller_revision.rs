//! `controllerrevisions`.

use crate::cells::NONE;
use crate::{About, Cell, Column, Kind, OldVersion, Rules, Strategy, Version, checks, columns, metadata};
use object::field::{BadValue, Error, List, Path};
use object::{Map, RawJson};
use schema::view::View;
use schema::views::apps::v1::ControllerRevision;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "apps",
    resource: "controllerrevisions",
    singular: "controllerrevision",
    kind: "ControllerRevision",
    versions: &[Version::V1.introduced(9)],
    old_versions: &[OldVersion::named("apps/v1beta2"), OldVersion::named("apps/v1beta1")],
    columns: columns!(|object| [
        Column::NAME => Cell::name(object),
        Column::text("Controller", About::Text("Controller of the object")) => Cell::Text(controller(object)),
        Column::text(
            "Revision",
            About::Text("revision indicates the revision of the state represented by Data."),
        ) => Cell::Integer(ControllerRevision::of(object).revision()),
        Column::AGE => Cell::age(object),
    ]),
    strategy: &ControllerRevisionStrategy,
    ..Kind::PLAIN
};

/// The controller of the object: `statefulset.apps/web`.
fn controller(object: &Map) -> String {
    let owners = metadata(object).owner_references();
    let Some(owner) = owners.iter().find(|owner| owner.controller() == Some(true)) else {
        return NONE.into();
    };
    let group = owner.api_version().split_once('/').map_or("", |(group, _)| group);
    let kind = owner.kind().to_lowercase();
    match (kind.as_str(), group) {
        ("", "") => owner.name().into(),
        (kind, "") => format!("{kind}/{}", owner.name()),
        (kind, group) => format!("{kind}.{}/{}", group.to_lowercase(), owner.name()),
    }
}

struct ControllerRevisionStrategy;

impl Strategy for ControllerRevisionStrategy {
    fn validate_create(&self, object: &Map, rules: &Rules<'_>) -> List {
        let mut errors = validate(object, rules);
        let path = Path::new("data");
        match ControllerRevision::of(object).data().map(RawJson::as_str) {
            None | Some("null") => errors.push(Error::required(&path, "data is mandatory")),
            Some(text) if !text.starts_with('{') => {
                errors.push(Error::required(&path, "data must be a valid JSON object"));
            }
            Some(_) => {}
        }
        errors
    }

    fn validate_update(&self, new: &Map, old: &Map, rules: &Rules<'_>) -> List {
        let mut errors = rules.metadata_update(new, old);
        errors.append(validate(new, rules));
        let data = |object| ControllerRevision::of(object).data();
        if data(new) != data(old) {
            errors.push(Error::invalid(&Path::new("data"), shown(data(new)), "field is immutable"));
        }
        errors
    }
}

fn validate(object: &Map, rules: &Rules<'_>) -> List {
    let mut errors = rules.metadata(object);
    let revision = ControllerRevision::of(object).revision();
    errors.extend(checks::non_negative(revision, &Path::new("revision")));
    errors
}

/// The data as an error shows it: its bytes, as far as an error repeats them.
fn shown(data: Option<&RawJson>) -> BadValue {
    const MOST: usize = 16 << 10;
    let raw = match data {
        None => "[]uint8(nil)".to_owned(),
        Some(data) => {
            let bytes = data.as_str().bytes().take(MOST).map(|byte| format!("{byte:#x}"));
            format!("[]uint8{{{}}}", crate::cells::joined(bytes, ", "))
        }
    };
    BadValue::Raw(format!("runtime.RawExtension{{Raw:{raw}, Object:runtime.Object(nil)}}"))
}
