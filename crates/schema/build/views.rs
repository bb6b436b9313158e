//! Writes a typed view for every type: a borrowed map whose fields are methods, so that a misspelt field does
//! not compile.

use crate::emit::ident;
use crate::parse::{Field, Schema, Shape};
use std::fmt::Write;

pub(crate) fn views(schema: &Schema) -> String {
    let mut out = String::new();
    let mut packages: Vec<(&str, &str, usize)> = schema
        .packages
        .iter()
        .enumerate()
        .map(|(at, package)| {
            let (group, version) = package.name.split_once('.').unwrap();
            (group, version, at)
        })
        .collect();
    packages.sort_unstable();
    let mut open = "";
    for (group, version, at) in packages {
        if group != open {
            if !open.is_empty() {
                out.push_str("}\n");
            }
            writeln!(out, "/// Types of `{group}`.\npub mod {group} {{").unwrap();
            open = group;
        }
        let package = &schema.packages[at];
        writeln!(out, "/// Types of `{}`.\npub mod {version} {{", package.name).unwrap();
        for ty in &package.types {
            view(schema, &format!("{}.{}", package.name, ty.name), &ty.name, &mut out);
        }
        out.push_str("}\n");
    }
    out.push_str("}\n");
    out
}

fn view(schema: &Schema, full: &str, name: &str, out: &mut String) {
    let (fields, _) = schema.flatten(full);
    writeln!(
        out,
        "/// A `{full}`.\n#[derive(Clone, Copy, Debug)]\npub struct {name}<'a>(&'a ::object::Map);\n\
         impl<'a> crate::view::View<'a> for {name}<'a> {{\n\
         #[inline]\nfn of(map: &'a ::object::Map) -> Self {{ Self(map) }}\n\
         #[inline]\nfn map(self) -> &'a ::object::Map {{ self.0 }}\n\
         fn schema() -> &'static crate::Type {{ &crate::builtin::table::{} }}\n}}\nimpl<'a> {name}<'a> {{",
        ident(full)
    )
    .unwrap();
    for field in &fields {
        let method = snake(&field.name);
        let (kind, call) = accessor(field);
        writeln!(
            out,
            "/// The key of `{0}`.\npub const {1}: ::object::Key = ::object::Key::known({0:?});\n\
             /// `{0}`.\n#[inline]\npub fn {2}(self) -> {kind} {{ crate::view::{call}(self.0, {0:?}) }}",
            field.name,
            method.trim_start_matches("r#").trim_end_matches('_').to_uppercase(),
            method,
        )
        .unwrap();
    }
    out.push_str("}\n");
}

/// The type that a field's method gives, and the function that gets it.
fn accessor(field: &Field) -> (String, &'static str) {
    let optional = field.has("ptr");
    match &field.shape {
        Shape::Word("String") if optional => ("Option<&'a str>".into(), "optional"),
        Shape::Word("Time" | "MicroTime" | "Quantity" | "Duration") => ("Option<&'a str>".into(), "optional"),
        Shape::Word("IntOrString" | "Any") | Shape::SchemaOr(_) => {
            ("Option<&'a ::object::Value>".into(), "optional")
        }
        Shape::Word(word) if word.starts_with("Raw") => ("Option<&'a ::object::RawJson>".into(), "optional"),
        shape if optional => (format!("Option<{}>", item(shape)), "optional"),
        shape => (item(shape), "present"),
    }
}

fn item(shape: &Shape) -> String {
    match shape {
        Shape::Word("Bool") => "bool".into(),
        Shape::Word("Int32" | "Int64") => "i64".into(),
        Shape::Word("Float64") => "f64".into(),
        Shape::Word("Bytes") => "&'a [u8]".into(),
        Shape::Word("IntOrString" | "Any") | Shape::SchemaOr(_) => "&'a ::object::Value".into(),
        Shape::Word(word) if word.starts_with("Raw") => "&'a ::object::RawJson".into(),
        Shape::Word(_) => "&'a str".into(),
        Shape::Struct(name) => {
            let path = name.replace('.', "::");
            format!("crate::views::{path}<'a>")
        }
        Shape::List(inner) => format!("crate::view::Items<'a, {}>", item(inner)),
        Shape::Map(inner) => format!("crate::view::Entries<'a, {}>", item(inner)),
    }
}

/// `clusterIPs` -> `cluster_ips`, `x-kubernetes-list-type` -> `x_kubernetes_list_type`, `type` -> `r#type`.
fn snake(name: &str) -> String {
    let mut name = name.replace('$', "dollar-");
    for plural in ["IPs", "CIDRs", "URLs", "UIDs", "IDs", "WWNs", "GIDs"] {
        let mut chars = plural.chars();
        let softened: String =
            chars.next().into_iter().chain(chars.as_str().to_lowercase().chars()).collect();
        name = name.replace(plural, &softened);
    }
    let chars: Vec<char> = name.chars().collect();
    let mut out = String::new();
    for (at, &c) in chars.iter().enumerate() {
        if !c.is_ascii_alphanumeric() {
            out.push('_');
            continue;
        }
        let after_lower = at > 0 && (chars[at - 1].is_ascii_lowercase() || chars[at - 1].is_ascii_digit());
        let ends_acronym = at > 0
            && chars[at - 1].is_ascii_uppercase()
            && chars.get(at + 1).is_some_and(char::is_ascii_lowercase);
        if c.is_ascii_uppercase() && (after_lower || ends_acronym) {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    match out.as_str() {
        "as" | "type" | "continue" | "default" | "enum" | "ref" | "match" | "use" | "static" | "in"
        | "for" | "where" => {
            format!("r#{out}")
        }
        _ => out,
    }
}
