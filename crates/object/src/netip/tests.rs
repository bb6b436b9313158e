//! Tests of addresses.

use super::*;

fn why(text: &str) -> String {
    parse_address(text).unwrap_err().to_string()
}

#[test]
fn an_address_has_no_leading_zeros_and_all_of_its_fields() {
    assert_eq!(why("01.2.3.4"), r#"ParseAddr("01.2.3.4"): IPv4 field has octet with leading zero"#);
    assert_eq!(why("1..2.3"), r#"ParseAddr("1..2.3"): IPv4 field must have at least one digit (at ".2.3")"#);
    assert_eq!(why("1:2"), r#"ParseAddr("1:2"): address string too short"#);
    assert_eq!(why("1::2::3"), r#"ParseAddr("1::2::3"): multiple :: in address (at ":3")"#);
    assert_eq!(why("x"), r#"ParseAddr("x"): unable to parse IP"#);
}

#[test]
fn an_address_of_ipv4_may_end_one_of_ipv6() {
    let ip = parse_address("64:ff9b::1.2.3.4").unwrap().ip;
    assert_eq!(ip, "64:ff9b::102:304".parse::<IpAddr>().unwrap());
    let late = r#"ParseAddr("1:2:3:4:5:6:7:1.2.3.4"): embedded IPv4 address must replace the final 2 fields of the address (at "1.2.3.4")"#;
    assert_eq!(why("1:2:3:4:5:6:7:1.2.3.4"), late);
}

#[test]
fn a_network_has_addresses_of_its_own_family() {
    let network = parse_prefix("10.1.2.3/8").unwrap();
    assert!(network.contains("10.255.0.1".parse().unwrap()));
    assert!(!network.contains("::ffff:10.0.0.1".parse().unwrap()));
    assert!(network.overlaps(&parse_prefix("10.9.0.0/16").unwrap()));
    assert!(parse_prefix("::/0").unwrap().contains("::1".parse().unwrap()));
    assert!(parse_prefix("fe80::%eth0/64").unwrap_err().to_string().contains("zones cannot be present"));
}
