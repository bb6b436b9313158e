//! Table cells that several kinds share.

use crate::{About, Cell, Column};
use object::Map;
use object::label::{Error, Expression, Selector};
use schema::view::{Entries, Items};
use schema::views::core::v1::PodTemplateSpec;
use schema::views::meta::v1::LabelSelector;

/// Shown for a value that was never given.
pub(crate) const NONE: &str = "<none>";
/// Shown for a field that is not set.
pub(crate) const UNSET: &str = "<unset>";

/// The column with the names of a template's containers.
pub(crate) const CONTAINERS: Column =
    Column::text("Containers", About::Text("Names of each container in the template.")).wide();
/// The column with the images of a template's containers.
pub(crate) const IMAGES: Column =
    Column::text("Images", About::Text("Images referenced by each container in the template.")).wide();

/// A column of booleans.
pub(crate) const fn boolean(name: &'static str, about: About) -> Column {
    Column { ty: "boolean", ..Column::text(name, about) }
}

/// The names of a template's containers.
pub(crate) fn container_names(template: PodTemplateSpec<'_>) -> Cell {
    Cell::Text(joined(template.spec().containers().iter().map(|container| container.name()), ","))
}

/// The images of a template's containers.
pub(crate) fn container_images(template: PodTemplateSpec<'_>) -> Cell {
    Cell::Text(joined(template.spec().containers().iter().map(|container| container.image()), ","))
}

/// A selector as text: `<none>` for the one that selects everything or nothing, `<error>` for one that cannot
/// be read.
pub(crate) fn selector(selector: Option<LabelSelector<'_>>) -> Cell {
    Cell::Text(match read_selector(selector).map(|selector| selector.to_string()) {
        Ok(text) if text.is_empty() => NONE.into(),
        Ok(text) => text,
        Err(_) => "<error>".into(),
    })
}

/// A label selector; without one, the selector that matches nothing.
pub(crate) fn read_selector(selector: Option<LabelSelector<'_>>) -> Result<Selector, Error> {
    let Some(selector) = selector else { return Ok(Selector::nothing()) };
    let expressions = selector.match_expressions().iter().map(|expression| Expression {
        key: expression.key(),
        operator: expression.operator(),
        values: expression.values().iter().collect(),
    });
    Selector::from_structured(selector.match_labels().iter(), expressions)
}

/// Labels sorted as text, `a=1,b=2`; `<none>` without labels.
pub(crate) fn labels(labels: Entries<'_, &str>) -> Cell {
    let mut list: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    list.sort_unstable();
    Cell::Text(if list.is_empty() { NONE.into() } else { list.join(",") })
}

/// Up to `most` of the texts and the number of those left out; `<unset>` without any.
pub(crate) fn with_more<T: AsRef<str>>(texts: impl Iterator<Item = T>, most: usize) -> Cell {
    let mut texts = texts;
    let text = joined(texts.by_ref().take(most), ",");
    Cell::Text(match texts.count() {
        0 if text.is_empty() => UNSET.into(),
        0 => text,
        more => format!("{text} + {more} more..."),
    })
}

/// The texts with `between` between them.
pub(crate) fn joined<T: AsRef<str>>(texts: impl Iterator<Item = T>, between: &str) -> String {
    let mut out = String::new();
    for (at, text) in texts.enumerate() {
        if at > 0 {
            out.push_str(between);
        }
        out.push_str(text.as_ref());
    }
    out
}

/// A boolean as text; `<unset>` if it is absent.
pub(crate) fn word(flag: Option<bool>) -> Cell {
    Cell::text(match flag {
        Some(true) => "True",
        Some(false) => "False",
        None => UNSET,
    })
}

/// The text, or a replacement for an empty one.
pub(crate) fn text_or(text: Option<&str>, absent: &str) -> Cell {
    Cell::text(text.unwrap_or(absent))
}

/// The number of elements of a list.
pub(crate) fn count<'a, T: schema::view::Item<'a>>(list: Items<'a, T>) -> Cell {
    Cell::Integer(i64::try_from(list.len()).unwrap_or(i64::MAX))
}

/// The name of an object, with ` (default)` if one of these annotations marks it as the default of its kind.
pub(crate) fn name_or_default(object: &Map, marks: &[&str]) -> Cell {
    let metadata = crate::metadata(object);
    let annotations = metadata.annotations();
    let is_default = marks.iter().any(|mark| annotations.get(mark) == Some("true"));
    Cell::Text(format!("{}{}", metadata.name(), if is_default { " (default)" } else { "" }))
}
