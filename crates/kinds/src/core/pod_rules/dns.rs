//! The rules for the name resolution of a pod: `dnsConfig` and `hostAliases`.

use object::field::{BadValue, Error, List, Path};
use object::name::address::{Legacy, legacy_ip};
use object::name::{dns1123_subdomain, dns1123_subdomain_with_underscore, invalid};
use object::quote::quote_each;
use schema::view::Items;
use schema::views::core::v1::{HostAlias, PodSpec};

const MOST_NAMESERVERS: usize = 3;
const MOST_SEARCHES: usize = 32;
/// The most bytes of all search domains, joined by spaces.
const LONGEST_SEARCHES: usize = 2048;

/// The field errors of `dnsConfig`, and of its absence where `dnsPolicy` needs it.
pub(super) fn config(spec: PodSpec<'_>, path: &Path<'_>) -> List {
    let nameservers = path.child("nameservers");
    let Some(config) = spec.dns_config() else {
        let why = "must provide `dnsConfig` when `dnsPolicy` is None";
        return (spec.dns_policy() == "None").then(|| Error::required(path, why)).into_iter().collect();
    };
    if spec.dns_policy() == "None" && config.nameservers().is_empty() {
        let why = "must provide at least one DNS nameserver when `dnsPolicy` is None";
        return Error::required(&nameservers, why).into();
    }
    let mut errors = List::new();
    if config.nameservers().len() > MOST_NAMESERVERS {
        let why = format!("must not have more than {MOST_NAMESERVERS} nameservers");
        errors.push(Error::invalid(&nameservers, shown(config.nameservers()), why));
    }
    for (at, address) in config.nameservers().iter().enumerate() {
        errors.append(legacy_ip(&nameservers.index(at), address, Legacy::Lenient));
    }
    errors.append(searches(config.searches(), &path.child("searches")));
    let options = path.child("options");
    for (at, option) in config.options().iter().enumerate() {
        if option.name().is_empty() {
            errors.push(Error::required(&options.index(at), "must not be empty"));
        }
    }
    errors
}

fn searches(domains: Items<'_, &str>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    if domains.len() > MOST_SEARCHES {
        let why = format!("must not have more than {MOST_SEARCHES} search paths");
        errors.push(Error::invalid(path, shown(domains), why));
    }
    let length = domains.iter().map(|domain| domain.len() + 1).sum::<usize>().saturating_sub(1);
    if length > LONGEST_SEARCHES {
        let why = format!(
            "must not have more than {LONGEST_SEARCHES} characters (including spaces) in the search list"
        );
        errors.push(Error::invalid(path, shown(domains), why));
    }
    for (at, domain) in domains.iter().enumerate().filter(|(_, domain)| *domain != ".") {
        let domain = domain.strip_suffix('.').unwrap_or(domain);
        errors.append(invalid(&path.index(at), domain, dns1123_subdomain_with_underscore(domain)));
    }
    errors
}

fn shown(texts: Items<'_, &str>) -> BadValue {
    BadValue::Raw(format!("[]string{{{}}}", quote_each(texts.iter())))
}

/// The field errors of host aliases.
pub(super) fn host_aliases(aliases: Items<'_, HostAlias<'_>>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    for (at, alias) in aliases.iter().enumerate() {
        let path = path.index(at);
        errors.append(legacy_ip(&path.child("ip"), alias.ip(), Legacy::Lenient));
        let path = path.child("hostnames");
        for (at, name) in alias.hostnames().iter().enumerate() {
            errors.append(invalid(&path.index(at), name, dns1123_subdomain(name)));
        }
    }
    errors
}
