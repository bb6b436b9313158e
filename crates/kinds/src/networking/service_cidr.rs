//! `servicecidrs`.

use crate::Resets;
use crate::cells::joined;
use crate::{
    About, Cell, Check, Column, Kind, OldVersion, Rules, Scope, Strategy, Subresource, Version, checks,
    columns,
};
use object::Map;
use object::field::{BadValue, Error, List, Path};
use object::name::address::{self, parse_cidr_lenient};
use schema::view::{Items, View};
use schema::views::networking::v1beta1::ServiceCIDR;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "networking.k8s.io",
    resource: "servicecidrs",
    singular: "servicecidr",
    kind: "ServiceCIDR",
    scope: Scope::Cluster,
    versions: &[
        Version::V1_NOT_STORED.introduced(33),
        Version::on_request("v1beta1").stored().introduced(31).deprecated(34).removed(37),
    ],
    old_versions: &[OldVersion::named("networking.k8s.io/v1alpha1")],
    subresources: &[Subresource::STATUS],
    columns: columns!(|object| [
        Column::NAME => Cell::name(object),
        Column::text("CIDRs", About::Field("networking.v1beta1.ServiceCIDRSpec", "cidrs"))
            => Cell::Text(joined(ServiceCIDR::of(object).spec().cidrs().iter(), ",")),
        Column::AGE => Cell::age(object),
    ]),
    // The reference declares none.
    resets: &Resets { create: &[], update: &[("status", &[&["metadata"], &["spec"]])], declared: Some(&[]) },
    update_checks: &[Check::MetadataChange, Check::Change],
    strategy: &ServiceCIDRStrategy,
    ..Kind::PLAIN
};

struct ServiceCIDRStrategy;

/// Create and update write the status as well.
impl Strategy for ServiceCIDRStrategy {
    fn validate_object(&self, object: &Map, _old: Option<&Map>, _rules: &Rules<'_>) -> List {
        validate(ServiceCIDR::of(object).spec().cidrs())
    }

    fn validate_change(&self, new: &Map, old: &Map) -> List {
        validate_change(ServiceCIDR::of(new).spec().cidrs(), ServiceCIDR::of(old).spec().cidrs())
    }
}

const IMMUTABLE: &str = "field is immutable";

/// One network, or one of each family.
fn validate(ranges: Items<'_, &str>) -> List {
    let path = Path::new("spec");
    let path = path.child("cidrs");
    match ranges.len() {
        0 => return Error::required(&path, "at least one CIDR required").into(),
        1 | 2 => {}
        _ => {
            let shown = BadValue::Raw(format!("networking.ServiceCIDRSpec{{CIDRs:{}}}", shown(ranges)));
            return Error::invalid(&path, shown, "may only hold up to 2 values").into();
        }
    }
    let mut errors: List =
        ranges.iter().enumerate().map(|(at, range)| address::cidr(&path.index(at), range)).collect();
    let mut families =
        ranges.iter().filter_map(parse_cidr_lenient).map(|range| range.base().to_canonical().is_ipv4());
    if let (Some(first), Some(second)) = (families.next(), families.next())
        && first == second
    {
        let why = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        errors.push(Error::invalid(&path, shown(ranges), why));
    }
    errors
}

/// The only change is to add a network of the other family.
fn validate_change(ranges: Items<'_, &str>, before: Items<'_, &str>) -> List {
    let path = Path::new("spec");
    let path = path.child("cidrs");
    if ranges.len() != before.len() && (ranges.len(), before.len()) != (2, 1) {
        return Error::invalid(&path, shown(ranges), IMMUTABLE).into();
    }
    let mut errors = List::new();
    for (at, (range, before)) in ranges.iter().zip(before.iter()).enumerate() {
        if range != before {
            errors.push(Error::invalid(&path.index(at), range, IMMUTABLE));
        }
    }
    if ranges.len() != before.len() {
        errors.append(validate(ranges));
    }
    errors
}

fn shown(ranges: Items<'_, &str>) -> BadValue {
    match ranges.is_empty() {
        // A client has sent it: without a list the object is not changed.
        true => BadValue::Raw("[]string{}".to_owned()),
        false => checks::shown_texts("string", ranges),
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{create, update};

    fn ranges(cidrs: &str) -> String {
        let head = r#""apiVersion":"networking.k8s.io/v1","kind":"ServiceCIDR""#;
        format!(r#"{{{head},"spec":{{"cidrs":[{cidrs}]}}}}"#)
    }

    #[test]
    fn there_is_at_most_one_network_of_each_family() {
        let family =
            "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        let cases: [(&str, &[&str]); 5] = [
            ("", &["spec.cidrs: Required value: at least one CIDR required"]),
            (
                r#""10.0.0.0/8","::/64","x""#,
                &[
                    r#"spec.cidrs: Invalid value: networking.ServiceCIDRSpec{CIDRs:[]string{"10.0.0.0/8", "::/64", "x"}}: may only hold up to 2 values"#,
                ],
            ),
            (
                r#""2001:DB8::/64","x""#,
                &[
                    r#"spec.cidrs[0]: Invalid value: "2001:DB8::/64": must be in canonical form ("2001:db8::/64")"#,
                    r#"spec.cidrs[1]: Invalid value: "x": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"#,
                ],
            ),
            (
                r#""10.0.0.0/8","10.1.0.0/16""#,
                &[&format!(
                    r#"spec.cidrs: Invalid value: []string{{"10.0.0.0/8", "10.1.0.0/16"}}: {family}"#
                )],
            ),
            (r#""10.0.0.0/8","2001:db8::/64""#, &[]),
        ];
        for (cidrs, expected) in cases {
            assert_eq!(create(&ranges(cidrs)), expected, "{cidrs}");
        }
    }

    #[test]
    fn a_network_of_the_other_family_may_be_added() {
        let single = ranges(r#""10.0.0.0/8""#);
        let dual = ranges(r#""10.0.0.0/8","2001:db8::/64""#);
        assert!(update(&dual, &single).is_empty() && update(&dual, &dual).is_empty());
        assert_eq!(
            update(&ranges(""), &single),
            ["spec.cidrs: Invalid value: []string{}: field is immutable"]
        );
        assert_eq!(
            update(&single, &dual),
            [r#"spec.cidrs: Invalid value: []string{"10.0.0.0/8"}: field is immutable"#]
        );
        assert_eq!(
            update(&ranges(r#""11.0.0.0/8","x""#), &single),
            [
                r#"spec.cidrs[0]: Invalid value: "11.0.0.0/8": field is immutable"#,
                r#"spec.cidrs[1]: Invalid value: "x": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"#,
            ]
        );
    }
}
