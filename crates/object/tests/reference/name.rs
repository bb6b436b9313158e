use crate::each_fact;
use object::field::{List, Path};
use object::name::address::{self, Legacy};
use object::name::{self, Messages, Mode, domain};

const PATH: Path<'static> = Path::new("f");

fn joined(messages: Messages) -> String {
    messages.join("|")
}

fn errors(errors: List) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("|")
}

fn details(errors: List) -> String {
    errors.iter().map(|error| error.detail.clone()).collect::<Vec<_>>().join("|")
}

#[test]
fn every_name_gets_the_messages_of_the_reference() {
    each_fact(include_str!("name.tsv"), |columns, line| {
        let (text, expected) = columns.split_first().unwrap();
        let rules = [
            ("dns1123_label", joined(name::dns1123_label(text))),
            ("dns1123_subdomain", joined(name::dns1123_subdomain(text))),
            ("dns1123_subdomain_with_underscore", joined(name::dns1123_subdomain_with_underscore(text))),
            ("wildcard_dns1123_subdomain", joined(name::wildcard_dns1123_subdomain(text))),
            ("dns1035_label", joined(name::dns1035_label(text))),
            ("qualified_name", joined(name::qualified_name(text))),
            ("label_value", joined(name::label_value(text))),
            ("c_identifier", joined(name::c_identifier(text))),
            ("env_var_name", joined(name::env_var_name(text))),
            ("relaxed_env_var_name", joined(name::relaxed_env_var_name(text))),
            ("config_map_key", joined(name::config_map_key(text))),
            ("port_name", joined(name::port_name(text))),
            ("percent", joined(name::percent(text))),
            ("http_header_name", joined(name::http_header_name(text))),
            ("subdomain prefix", joined(name::name_is_dns_subdomain(text, Mode::Prefix))),
            ("label prefix", joined(name::name_is_dns_label(text, Mode::Prefix))),
            ("dns1035 prefix", joined(name::name_is_dns1035_label(text, Mode::Prefix))),
            ("path segment", joined(name::name_is_path_segment(text, Mode::Name))),
            ("path segment prefix", joined(name::name_is_path_segment(text, Mode::Prefix))),
            ("fully_qualified_name", errors(domain::fully_qualified_name(&PATH, text))),
            ("fully_qualified_domain_name", errors(domain::fully_qualified_domain_name(&PATH, text))),
            ("domain_prefixed_path", errors(domain::domain_prefixed_path(&PATH, text))),
        ];
        assert_eq!(rules.len(), expected.len(), "{line}");
        for ((rule, messages), expected) in rules.iter().zip(expected) {
            assert_eq!(messages, expected, "{rule} of {text:?}");
        }
    });
}

#[test]
fn every_address_gets_the_messages_of_the_reference() {
    each_fact(include_str!("address.tsv"), |columns, line| {
        let (text, expected) = columns.split_first().unwrap();
        let rules = [
            ("ip", details(address::ip(&PATH, text))),
            ("strict legacy ip", details(address::legacy_ip(&PATH, text, Legacy::Strict))),
            ("lenient legacy ip", details(address::legacy_ip(&PATH, text, Legacy::Lenient))),
            ("ip warnings", address::ip_warnings(&PATH, text).join("|")),
            ("cidr", details(address::cidr(&PATH, text))),
            ("strict legacy cidr", details(address::legacy_cidr(&PATH, text, Legacy::Strict))),
            ("lenient legacy cidr", details(address::legacy_cidr(&PATH, text, Legacy::Lenient))),
            ("cidr warnings", address::cidr_warnings(&PATH, text).join("|")),
            ("interface_address", details(address::interface_address(&PATH, text))),
        ];
        assert_eq!(rules.len(), expected.len(), "{line}");
        for ((rule, messages), expected) in rules.iter().zip(expected) {
            assert_eq!(messages, expected, "{rule} of {text:?}");
        }
    });
}
