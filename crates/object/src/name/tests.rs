use super::*;
use std::collections::HashSet;

#[test]
fn valid_names_are_checked_without_allocation() {
    assert_eq!(dns1123_subdomain("example.com").capacity(), 0);
    assert_eq!(qualified_name("example.com/name").capacity(), 0);
    assert_eq!(label_value("").capacity(), 0);
}

#[test]
fn a_prefix_may_end_in_a_dash() {
    assert!(name_is_dns_subdomain("web-", Mode::Prefix).is_empty());
    assert!(!name_is_dns_subdomain("web-", Mode::Name).is_empty());
    assert!(!name_is_dns_label("-", Mode::Prefix).is_empty());
    assert!(name_is_dns_label("é-", Mode::Prefix).len() == 1);
}

#[test]
fn generated_names_keep_58_bytes_and_add_five() {
    let name = generate(&"x".repeat(80));
    assert_eq!(name.len(), 63);
    assert!(name.starts_with(&"x".repeat(58)));
    assert!(dns1123_label(&generate("a-")).is_empty());
    assert_eq!(generate(&"é".repeat(40)).chars().filter(|&c| c == 'é').count(), 29);
}

#[test]
fn generated_suffix_comes_from_the_random_source() {
    let mut numbers = [0b11111_00001_11010_11011, 0b00010].into_iter();
    assert_eq!(generate_with("a", || numbers.next().unwrap_or(0)), "a9cbbb");
}

#[test]
fn every_character_of_the_alphabet_comes_up_evenly() {
    let text = random_suffix(27_000);
    let mut counts = std::collections::HashMap::new();
    for character in text.chars() {
        *counts.entry(character).or_insert(0) += 1;
    }
    assert_eq!(counts.len(), 27);
    assert!(counts.values().all(|count| (800..1200).contains(count)), "{counts:?}");
    assert!(!text.contains(['a', 'e', 'i', 'o', 'u', 'y', '0', '1', '3']));
}

#[test]
fn threads_generate_different_suffixes() {
    let threads: Vec<_> = (0..8).map(|_| std::thread::spawn(|| generate("t-"))).collect();
    let names: HashSet<String> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert_eq!(names.len(), 8);
}

#[test]
fn out_of_range_errors_name_the_bounds() {
    assert_eq!(port_number(0), ["must be between 1 and 65535, inclusive"]);
    assert!(port_number(65535).is_empty());
    assert_eq!(group_id(-1), ["must be between 0 and 2147483647, inclusive"]);
    assert!(user_id(2147483647).is_empty());
    assert_eq!(user_id(2147483648), ["must be between 0 and 2147483647, inclusive"]);
}

#[test]
fn messages_become_field_errors() {
    let metadata = field::Path::new("metadata");
    let path = metadata.child("name");
    let errors = invalid(&path, "a/b", name_is_path_segment("a/b", Mode::Name));
    assert_eq!(errors[0].to_string(), r#"metadata.name: Invalid value: "a/b": may not contain '/'"#);
}
