//! The selectors of devices (`resource.k8s.io`): expressions over a `device`. The server compiles them where
//! they are written; schedulers evaluate them.
//!
//! A device has a `driver`, and `attributes` and a `capacity` for each domain: maps from the name that an
//! attribute has in the domain to a value of a type that only the device knows, or to a quantity.

use crate::compiled::{self, Compiled, Fault};
use crate::stage::{self, Stage};
use cel::cost::{SizeEstimate, Sizes};
use cel::declared::{Declared, DeclaredField, DeclaredForm, DeclaredTypes};
use cel::types::RuntimeNames;
use cel::{EnvSet, Type};
use std::sync::{Arc, LazyLock};

/// The most bytes of a selector.
pub const MOST_BYTES: usize = 10 * 1024;

/// The most that an evaluation may cost by its estimate.
pub const MOST_COST: u64 = 1_000_000;

/// The name of the variable.
const DEVICE: &str = "device";

static ENVS: LazyLock<EnvSet> = LazyLock::new(|| {
    let types = Arc::new(DeclaredTypes::new("kubernetes.DRADevice", declared()));
    let base = stage::base().with_device_libraries();
    base.extend(|env| env.types(types.clone()).variable(DEVICE, types.root()))
});

/// What an evaluation of a selector costs at most by its estimate, which may be more than [`MOST_COST`].
pub fn max_cost(selector: &str, stage: Stage) -> Result<u64, Fault> {
    let env = stage.of(&ENVS);
    let checked = compiled::check(env, selector)?;
    let result = checked.result_type();
    if !matches!(result, Type::Bool | Type::Any) {
        let shown = RuntimeNames(result);
        return Err(Fault::Invalid(format!("must evaluate to bool or the unknown type, not {shown}")));
    }
    Compiled::of(env, &checked)?;
    Ok(checked.estimate(&DeviceSizes).max)
}

/// The types of a device. [`DeviceSizes`] says how large its values are.
fn declared() -> Arc<Declared> {
    let scalar =
        |ty: Type| Arc::new(Declared { form: DeclaredForm::Scalar(ty), max_elements: 0, min_serialized: 0 });
    let map = |values: Arc<Declared>| Arc::new(Declared::map(values, None));
    let by_domain = |ty: Type| map(map(scalar(ty)));
    let field = |name: &str, declared: Arc<Declared>| DeclaredField {
        name: name.into(),
        escaped: Some(name.into()),
        declared,
        is_required: true,
        has_default: false,
    };
    Arc::new(Declared::object(vec![
        field("driver", scalar(Type::String)),
        field("attributes", by_domain(Type::Any)),
        field("capacity", by_domain(Type::object("kubernetes.Quantity"))),
    ]))
}

/// How large the values of a device are: the bounds that the API sets for slices of resources.
struct DeviceSizes;

impl DeviceSizes {
    /// The most attributes and capacities of a device, which is also the most domains.
    const ENTRIES: u64 = 32;
    /// The most bytes of a driver's name, and of a domain, which is one.
    const DOMAIN: u64 = 63;
    /// The most bytes of a name within a domain.
    const NAME: u64 = 32;
    /// The most bytes of the value of an attribute.
    const VALUE: u64 = 64;
}

impl Sizes for DeviceSizes {
    fn size(&self, path: &[&str]) -> Option<SizeEstimate> {
        let Some((&DEVICE, path)) = path.split_first() else { return None };
        let max = match path {
            [] => 0,
            ["driver"] => Self::DOMAIN,
            ["attributes" | "capacity"] => Self::ENTRIES,
            ["attributes" | "capacity", "@keys"] => Self::DOMAIN,
            ["attributes" | "capacity", "@items" | "@values"] => Self::ENTRIES,
            ["attributes" | "capacity", "@items" | "@values", "@keys"] => Self::NAME,
            ["capacity", "@items" | "@values", "@items" | "@values"] => 0,
            // By whatever name an attribute is selected.
            ["attributes", "@items" | "@values", _] => Self::VALUE,
            _ => return None,
        };
        Some(SizeEstimate { min: 0, max })
    }
}
