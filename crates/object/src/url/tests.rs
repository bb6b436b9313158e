//! Tests of addresses of the web.

use super::*;

#[test]
fn an_address_is_taken_apart_and_put_together() {
    let text = "https://us%20er:p%3Aw@[fe80::1%25eth0]:80/a%2Fb?c=d&c=e&f#g%20h";
    let url = parse(text).unwrap();
    assert_eq!(url.to_string(), text);
    assert_eq!((&*url.hostname(), &*url.port()), ("fe80::1%eth0", "80"));
    assert_eq!(url.escaped_path(), "/a%2Fb");
    let query: Vec<_> = url.query().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(query, ["c=d", "c=e", "f="]);
}

#[test]
fn a_fault_names_the_part_and_not_the_fragment() {
    let why = |text| parse(text).unwrap_err().to_string();
    assert_eq!(why("http://a b#c"), r#"parse "http://a b": invalid character " " in host name"#);
    assert_eq!(why("/a#%zz"), r#"parse "/a#%zz": invalid URL escape "%zz""#);
    assert_eq!(why("http://a:1:b/"), r#"parse "http://a:1:b/": invalid port ":b" after host"#);
    assert_eq!(why("/%a€"), r#"parse "/%a€": invalid URL escape "%a\xe2""#);
    assert_eq!(why(":x"), r#"parse ":x": missing protocol scheme"#);
}

#[test]
fn a_request_has_an_absolute_path() {
    assert!(parse_request("/a").is_ok() && parse_request("mailto:a").is_ok() && parse_request("*").is_ok());
    assert_eq!(parse_request("").unwrap_err().why, "empty url");
    assert_eq!(parse_request("a/b").unwrap_err().why, "invalid URI for request");
    assert!(parse("a/b").is_ok());
}
