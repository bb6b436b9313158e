//! The warnings for the specs of volume claims: of claims, and of the claim templates of stateful sets.

use object::field::Path;
use object::quantity::Quantity;
use object::quote::Quoted;
use schema::views::core::v1::PersistentVolumeClaimSpec;

/// The warnings for amounts of storage in a claim spec at `path` that are no whole numbers of bytes.
pub(crate) fn fractions(spec: PersistentVolumeClaimSpec<'_>, path: &Path<'_>) -> Vec<String> {
    let path = path.child("resources");
    let lists = [("requests", spec.resources().requests()), ("limits", spec.resources().limits())];
    let warnings = lists.into_iter().filter_map(|(name, list)| {
        let text = list.get("storage")?;
        let amount: Quantity = text.parse().ok()?;
        let path = path.child(name);
        (amount.milli_value() % 1000 != 0).then(|| {
            let path = path.key("storage");
            format!("{path}: fractional byte value {} is invalid, must be an integer", Quoted(text))
        })
    });
    warnings.collect()
}
