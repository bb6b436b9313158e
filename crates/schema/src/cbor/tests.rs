use super::*;
use crate::json;
use crate::model::{Raw, Shape};
use object::Value;

fn read(shape: &Shape, bytes: &[u8]) -> Result<String, String> {
    let decoded = decode_shape(shape, bytes, &Limits::default()).map_err(|error| error.to_string())?;
    let mut out = Vec::new();
    json::encode_shape(shape, &decoded.value, &mut out);
    Ok(String::from_utf8(out).expect("text"))
}

fn write(shape: &Shape, json: &str) -> Vec<u8> {
    let value = json::decode_shape(shape, json.as_bytes(), &Limits::default()).expect("valid").value;
    let mut out = Vec::new();
    encode_shape(shape, &value, &mut out);
    out.strip_prefix(&PREFIX).expect("the prefix").to_vec()
}

#[test]
fn numbers_are_written_in_the_shortest_exact_form() {
    for (json, bytes) in [
        ("0", &b"\x00"[..]),
        ("23", b"\x17"),
        ("24", b"\x18\x18"),
        ("256", b"\x19\x01\x00"),
        ("65536", b"\x1a\x00\x01\x00\x00"),
        ("4294967296", b"\x1b\x00\x00\x00\x01\x00\x00\x00\x00"),
        ("-1", b"\x20"),
        ("-9223372036854775808", b"\x3b\x7f\xff\xff\xff\xff\xff\xff\xff"),
        ("1.5", b"\xf9\x3e\x00"),
        ("-0.0", b"\xf9\x80\x00"),
        ("5.960464477539063e-8", b"\xf9\x00\x01"),
        ("0.00006097555160522461", b"\xf9\x03\xff"),
        ("65504.0", b"\xf9\x7b\xff"),
        ("65505.0", b"\xfa\x47\x7f\xe1\x00"),
        ("0.1", b"\xfb\x3f\xb9\x99\x99\x99\x99\x99\x9a"),
        ("1e300", b"\xfb\x7e\x37\xe4\x3c\x88\x00\x75\x9c"),
    ] {
        assert_eq!(write(&Shape::Any, json), bytes, "{json}");
        let decoded = decode_shape(&Shape::Any, bytes, &Limits::default()).expect("valid").value;
        let direct =
            json::decode_shape(&Shape::Any, json.as_bytes(), &Limits::default()).expect("valid").value;
        assert_eq!(decoded, direct, "{json}");
    }
}

#[test]
fn map_entries_are_sorted_by_encoded_key() {
    assert_eq!(write(&Shape::Any, r#"{"b":1,"aa":2,"a":3}"#), b"\xa3\x41a\x03\x41b\x01\x42aa\x02");
}

#[test]
fn text_is_read_from_text_byte_and_indefinite_length_strings() {
    for bytes in [
        &b"\x62ab"[..],
        b"\x42ab",
        b"\x7f\x61a\x61b\xff",
        b"\x5f\x41a\x41b\xff",
        b"\xd9\xd9\xf7\x62ab",
        b"\xc6\x62ab",
    ] {
        assert_eq!(read(&Shape::String, bytes), Ok("\"ab\"".into()));
        assert_eq!(read(&Shape::Any, bytes), Ok("\"ab\"".into()));
    }
    assert_eq!(read(&Shape::String, b"\x61\xff"), Err("cbor: invalid UTF-8 string".into()));
    assert_eq!(read(&Shape::String, b"\x41\xff"), Ok("\"\u{fffd}\"".into()));
}

#[test]
fn byte_strings_are_base64_unless_a_tag_says_otherwise() {
    assert_eq!(write(&Shape::Bytes, "\"AAH/\""), b"\xd6\x43\x00\x01\xff");
    assert_eq!(read(&Shape::Bytes, b"\xd6\x43\x00\x01\xff"), Ok("\"AAH/\"".into()));
    assert_eq!(read(&Shape::Bytes, b"\x44AAH/"), Ok("\"AAH/\"".into()));
    assert_eq!(read(&Shape::Bytes, b"\x83\x00\x01\x18\xff"), Ok("\"AAH/\"".into()));
    for (bytes, text) in
        [(b"\xd5\x42\xfb\xff", "-_8"), (b"\xd6\x42\xfb\xff", "+/8="), (b"\xd7\x42\xfb\xff", "fbff")]
    {
        assert_eq!(read(&Shape::Any, bytes), Ok(format!("\"{text}\"")));
    }
    let error = "cbor: failed to decode base64 from byte string: illegal base64 data at input byte 1";
    assert_eq!(read(&Shape::Bytes, b"\x44A==="), Err(error.into()));
}

#[test]
fn tagged_times_become_rfc_3339_text() {
    let tagged = |text: &str| [&[0xc0, 0x78, text.len() as u8][..], text.as_bytes()].concat();
    assert_eq!(read(&Shape::Any, &tagged("2024-05-01T12:00:00Z")), Ok("\"2024-05-01T12:00:00Z\"".into()));
    assert_eq!(
        read(&Shape::Any, &tagged("2024-05-01T12:00:00.120+02:00")),
        Ok("\"2024-05-01T12:00:00.12+02:00\"".into())
    );
    assert_eq!(
        read(&Shape::Time, &tagged("2024-05-01T12:00:00+02:00")),
        Ok("\"2024-05-01T10:00:00Z\"".into())
    );
    assert_eq!(read(&Shape::Any, b"\xc1\x00"), Ok("\"1970-01-01T00:00:00Z\"".into()));
    assert_eq!(read(&Shape::Any, b"\xc1\xf9\xb8\x00"), Ok("\"1969-12-31T23:59:59.5Z\"".into()));
    assert_eq!(
        read(&Shape::Any, b"\xc1\x1b\x00\x04\x00\x00\x00\x00\x00\x00"),
        Err("cbor: decoded time cannot be represented in RFC3339 format with sub-second precision: \
             Time.MarshalText: year outside of range [0,9999]"
            .into())
    );
}

#[test]
fn values_without_a_json_form_are_refused() {
    let accepted = "is not accepted by protocol";
    for (bytes, error) in [
        (
            &b"\xf9\x7e\x00"[..],
            format!("cbor: data item of cbor type primitives {accepted}: floating-point NaN"),
        ),
        (
            b"\xf9\xfc\x00",
            format!("cbor: data item of cbor type primitives {accepted}: floating-point infinity"),
        ),
        (b"\xc2\x41\x01", format!("cbor: data item of cbor type tag {accepted}: bignum")),
        (
            b"\xf7",
            format!("cbor: data item of cbor type primitives {accepted}: simple value 23 is not recognized"),
        ),
        (
            b"\xe0",
            format!("cbor: data item of cbor type primitives {accepted}: simple value 0 is not recognized"),
        ),
        (b"\xa2\x41a\x01\x61a\x02", "cbor: found duplicate map key \"a\" at map element index 1".into()),
        (b"\xa1\xf6\x01", "cbor: cannot unmarshal primitives into Go value of type string".into()),
        (b"\x00\x00", "cbor: 1 bytes of extraneous data starting at index 1".into()),
        (b"\xf8\x14", "cbor: invalid simple value 20 for type primitives".into()),
        (b"\xff", "cbor: unexpected \"break\" code".into()),
        (b"\x1c", "cbor: invalid additional information 28 for type positive integer".into()),
        (b"", "EOF".into()),
    ] {
        assert_eq!(read(&Shape::Any, bytes), Err(error));
    }
}

#[test]
fn raw_json_round_trips_through_cbor() {
    let raw = Shape::Raw(Raw::Extension);
    let bytes = write(&raw, r#"{"b":[1,-2.5,"<&>",true,null],"a":{}}"#);
    let value = decode_shape(&raw, &bytes, &Limits::default()).expect("valid").value;
    let Value::Raw(text) = value else { panic!("{value:?}") };
    assert_eq!(text.as_str(), r#"{"a":{},"b":[1,-2.5,"<&>",true,null]}"#);
    assert_eq!(read(&raw, b"\xf6"), Ok("null".into()));
    assert_eq!(
        read(&Shape::Raw(Raw::Fields), b"\x80"),
        Err("failed to transcode FieldsV1 to JSON: metav1.FieldsV1 cbor invalid: \
             cbor: cannot unmarshal array into Go value of type map[string]interface {}"
            .into())
    );
}
