//! Shares of a sum among classes with bounds: how levels borrow seats from each other.

/// A class that gets a share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Class {
    /// What it would like to have. At least the lower bound.
    pub(crate) target: f64,
    /// The least that it gets.
    pub(crate) lower: f64,
    /// The most that it gets.
    pub(crate) upper: f64,
}

/// The least target: with less, a share in proportion to it has no meaning.
const LEAST_TARGET: f64 = 0.001;

/// How much sums may differ and count as equal.
const EPSILON: f64 = 1e-7;

/// What each class gets.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shares {
    /// In the order of the classes.
    pub(crate) shares: Vec<f64>,
    /// What a class gets for each unit of its target, unless a bound says otherwise.
    pub(crate) fair: f64,
}

/// Shares `sum` among classes: each gets the same part of its target, as far as its bounds allow. `None` if
/// no shares within the bounds have that sum.
pub(crate) fn shares(sum: f64, classes: &[Class]) -> Option<Shares> {
    let classes: Vec<Class> = classes
        .iter()
        .map(|class| Class { target: class.target.max(LEAST_TARGET).max(class.lower), ..*class })
        .collect();
    let total = |of: fn(&Class) -> f64| classes.iter().map(of).sum::<f64>();
    let (least, most) = (total(|class| class.lower), total(|class| class.upper));
    if classes.iter().any(|class| class.lower < 0.0 || class.upper < class.lower) {
        return None;
    }
    if least - sum > EPSILON || sum - most > EPSILON {
        return None;
    }
    if sum == 0.0 {
        return Some(Shares { shares: vec![0.0; classes.len()], fair: 0.0 });
    }
    let given = |fair: f64| -> Vec<f64> {
        classes.iter().map(|class| (fair * class.target).clamp(class.lower, class.upper)).collect()
    };
    // What is given grows with `fair`: it is flat or a straight line between two bounds of classes.
    let mut bounds: Vec<f64> =
        classes.iter().flat_map(|class| [class.lower / class.target, class.upper / class.target]).collect();
    bounds.sort_by(f64::total_cmp);
    let mut below = bounds.first().copied().unwrap_or_default();
    if least >= sum - EPSILON {
        return Some(Shares { shares: given(below), fair: below });
    }
    for above in bounds {
        let high: f64 = given(above).iter().sum();
        if high + EPSILON < sum {
            below = above;
            continue;
        }
        let low: f64 = given(below).iter().sum();
        let fair = if high > low { below + (above - below) * (sum - low) / (high - low) } else { above };
        return Some(Shares { shares: given(fair), fair });
    }
    Some(Shares { shares: given(below), fair: below })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(target: f64, lower: f64, upper: f64) -> Class {
        Class { target, lower, upper }
    }

    #[test]
    fn without_bounds_in_the_way_shares_are_in_proportion_to_targets() {
        let shares = shares(60.0, &[class(10.0, 0.0, 100.0), class(20.0, 0.0, 100.0)]).unwrap();
        assert_eq!(shares.shares, [20.0, 40.0]);
        assert!((shares.fair - 2.0).abs() < 1e-9);
    }

    #[test]
    fn a_bound_limits_its_class_and_the_others_get_the_rest() {
        let shares = shares(60.0, &[class(10.0, 0.0, 15.0), class(20.0, 0.0, 100.0), class(1.0, 1.0, 1.0)]);
        assert_eq!(shares.unwrap().shares, [15.0, 44.0, 1.0]);
    }

    #[test]
    fn what_no_bounds_allow_has_no_shares() {
        assert_eq!(shares(10.0, &[class(1.0, 0.0, 5.0)]), None);
        assert_eq!(shares(10.0, &[class(20.0, 11.0, 50.0)]), None);
        assert_eq!(shares(0.0, &[class(20.0, 0.0, 50.0)]).unwrap().shares, [0.0]);
    }

    #[test]
    fn shares_of_random_classes_have_the_sum_and_keep_to_the_rule() {
        for _ in 0..2_000 {
            let classes: Vec<Class> = (0..fastrand::usize(1..12))
                .map(|_| {
                    let lower = f64::from(fastrand::u8(0..20));
                    let target = lower + f64::from(fastrand::u8(0..30));
                    class(target, lower, lower + f64::from(fastrand::u8(0..50)))
                })
                .collect();
            let least: f64 = classes.iter().map(|class| class.lower).sum();
            let most: f64 = classes.iter().map(|class| class.upper).sum();
            let sum = (least + fastrand::f64() * (most - least)).round().clamp(least, most);
            let found = shares(sum, &classes).unwrap();
            assert!((found.shares.iter().sum::<f64>() - sum).abs() < 1e-4, "{sum} {classes:?} {found:?}");
            for (class, share) in classes.iter().zip(&found.shares) {
                let fair = found.fair * class.target.max(LEAST_TARGET);
                assert!(*share >= class.lower - 1e-6 && *share <= class.upper + 1e-6);
                let is_fair = (share - fair).abs() < 1e-4;
                let is_bound = (share - class.lower).abs() < 1e-6 || (share - class.upper).abs() < 1e-6;
                assert!(sum == 0.0 || is_fair || is_bound, "{sum} {classes:?} {found:?}");
            }
        }
    }
}
