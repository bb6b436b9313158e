use super::path::{Path, Paths};
use super::*;

#[test]
fn sums_and_products_stay_at_the_largest_number() {
    let large = CostEstimate::fixed(u64::MAX);
    assert_eq!(large.plus(CostEstimate::fixed(1)), large);
    assert_eq!(large.times(CostEstimate { min: 0, max: 2 }), CostEstimate::UNKNOWN);
}

#[test]
fn a_product_with_a_factor_is_rounded_up_and_stays_at_the_largest_number() {
    assert_eq!(scaled(0, 0.1), 0);
    assert_eq!(scaled(1, 0.1), 1);
    assert_eq!(scaled(30, 0.1), 3);
    assert_eq!(scaled(31, 0.1), 4);
    assert_eq!(scaled(u64::MAX, 0.1), 1_844_674_407_370_955_264);
    assert_eq!(scaled(u64::MAX, 1.0), u64::MAX);
    assert_eq!(scaled(u64::MAX, 2.0), u64::MAX);
}

#[test]
fn numbers_that_do_not_fit_become_what_go_makes_of_them() {
    assert_eq!(converted(1.5), 1);
    assert_eq!(converted(9_223_372_036_854_775_808.0), 1 << 63);
    assert_eq!(converted(18_446_744_073_709_549_568.0), 18_446_744_073_709_549_568);
    assert_eq!(converted(18_446_744_073_709_551_616.0), 1 << 63);
    assert_eq!(converted(f64::NAN), 1 << 63);
}

#[test]
fn a_path_changes_another_one_that_goes_on_from_the_same_place_if_there_is_room() {
    let mut paths = Paths::new();
    let mut path = paths.variable("self");
    for name in ["a", "b", "@items", "c"] {
        path = paths.append(path, name);
    }
    // Five names, with room for eight.
    let list = paths.append(path, "list");
    let element = paths.append(list, "@items");
    let other = paths.append(path, "other");
    assert_eq!(paths.names(other), ["self", "a", "b", "@items", "c", "other"]);
    assert_eq!(paths.names(element), ["self", "a", "b", "@items", "c", "other", "@items"]);
}

#[test]
fn a_path_without_room_behind_it_is_copied() {
    let mut paths = Paths::new();
    let path = paths.variable("self");
    let (one, other) = (paths.append(path, "one"), paths.append(path, "other"));
    assert_eq!(paths.names(one), ["self", "one"]);
    assert_eq!(paths.names(other), ["self", "other"]);
    assert!(paths.names(Path::default()).is_empty());
}
