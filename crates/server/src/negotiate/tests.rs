use super::*;
use http::Method;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};

const PLAIN: Negotiator = Negotiator { cbor: false, compression: true, custom: false };
const WITH_CBOR: Negotiator = Negotiator { cbor: true, compression: true, custom: false };
const OBJECTS: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

fn headers(pairs: &[(HeaderName, &'static str)]) -> HeaderMap {
    pairs.iter().map(|(name, value)| (name.clone(), http::HeaderValue::from_static(value))).collect()
}

fn accept(header: &'static str) -> Result<Accept, String> {
    let headers = headers(&[(ACCEPT, header)]);
    PLAIN
        .accept(&ClientPreferences::of(&headers, Query::new("")), AllowedTransforms::All)
        .map_err(|status| status.message)
}

fn format(header: &'static str) -> Format {
    accept(header).unwrap().format
}

fn transform(kind: TransformKind, version: MetaVersion) -> Option<Transform> {
    Some(Transform { kind, version })
}

#[test]
fn best_supported_media_type_is_chosen() {
    assert_eq!(format(""), Format::Json);
    assert_eq!(format("*/*"), Format::Json);
    assert_eq!(format("*"), Format::Json);
    assert_eq!(format("application/*"), Format::Json);
    assert_eq!(format("application/yaml"), Format::Yaml);
    assert_eq!(format("application/vnd.kubernetes.protobuf,application/json"), Format::Protobuf);
    assert_eq!(format("application/yaml;q=0.5, application/json;q=0.4"), Format::Yaml);
    assert_eq!(format("application/json;q=0.4, application/yaml;q=0.5"), Format::Yaml);
    assert_eq!(format("text/html, application/yaml;q=0.1"), Format::Yaml);
    assert_eq!(format("application/yaml;q=0"), Format::Yaml, "a weight of nothing is still a wish");
    assert_eq!(format("application/yaml, application/json"), Format::Yaml);
    assert_eq!(format("*/*, application/yaml"), Format::Yaml, "a range is less than a type");
    assert_eq!(format("application/json;q=0.1, */*;q=0.9"), Format::Json);
    assert_eq!(format("application/yaml;q=nonsense, application/json;q=0.1"), Format::Json);
    assert_eq!(format("application/a/b, application, ,, application/yaml"), Format::Yaml);
}

#[test]
fn more_than_12_clauses_are_sorted() {
    let header = format!("{}application/yaml;q=0.9", "text/html;q=0.1, */*;q=0.2,".repeat(2_000));
    let found = super::accept::clauses(&header);
    assert_eq!(found.len(), 4_001);
    assert_eq!(found[0].choose(Format::Yaml, AllowedTransforms::None).unwrap().0.format, Format::Yaml);
}

#[test]
fn no_supported_media_type_is_406() {
    let message = format!("only the following media types are accepted: {OBJECTS}");
    for header in [
        "text/plain",
        "application/json;as=Unheard;v=v1;g=meta.k8s.io",
        "application/json;as=Table;v=v1;g=other",
        "application/json;as=Table;v=v2;g=meta.k8s.io",
        "application/json;v=v1",
        "application/json;sv=v2",
        "application/json;stream=other",
        "application/yaml;stream=watch",
        "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io",
        "application/cbor",
    ] {
        assert_eq!(accept(header), Err(message.clone()), "{header}");
    }
    let found = headers(&[(ACCEPT, "application/cbor")]);
    assert_eq!(
        WITH_CBOR
            .accept(&ClientPreferences::of(&found, Query::new("")), AllowedTransforms::All)
            .unwrap()
            .format,
        Format::Cbor
    );
}

#[test]
fn transforms_are_requested_with_parameters() {
    use {MetaVersion::*, TransformKind::*};
    for (header, wanted, format) in [
        ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", transform(Table, V1), Format::Json),
        ("application/json;as=Table;g=meta.k8s.io;v=v1beta1", transform(Table, V1beta1), Format::Json),
        ("application/yaml;as=Table;g=meta.k8s.io;v=v1", transform(Table, V1), Format::Yaml),
        (
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            transform(Partial, V1),
            Format::Protobuf,
        ),
        (
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1beta1",
            transform(PartialList, V1beta1),
            Format::Json,
        ),
        ("application/json;as=Unheard;g=meta.k8s.io;v=v1,application/yaml", None, Format::Yaml),
        ("application/json;unheard=1;sv=v1;stream=watch;export=1", None, Format::Json),
        ("*/*;as=Table;g=meta.k8s.io;v=v1", transform(Table, V1), Format::Json),
    ] {
        assert_eq!(accept(header), Ok(Accept { format, transform: wanted }), "{header}");
    }
}

#[test]
fn pretty_parameter_and_interactive_user_agents_get_indented_json() {
    let pretty = |agent: &'static str, accept: &'static str, query: &str| {
        let headers = headers(&[(USER_AGENT, agent), (ACCEPT, accept)]);
        PLAIN
            .accept(&ClientPreferences::of(&headers, Query::new(query)), AllowedTransforms::All)
            .unwrap()
            .format
    };
    assert_eq!(pretty("curl/8.1", "", ""), Format::Pretty);
    assert_eq!(pretty("Wget/1", "*/*", ""), Format::Pretty);
    assert_eq!(pretty("Mozilla/5.0 (X11)", "*/*", ""), Format::Pretty);
    assert_eq!(pretty("Mozilla/4.0", "*/*", ""), Format::Json);
    assert_eq!(pretty("curl/8.1", "*/*", "pretty=false"), Format::Json);
    assert_eq!(pretty("curl/8.1", "*/*", "pretty=nonsense"), Format::Json);
    assert_eq!(pretty("curl/8.1", "*/*", "pretty="), Format::Pretty);
    assert_eq!(pretty("kubectl", "*/*", "pretty=true"), Format::Pretty);
    assert_eq!(pretty("kubectl", "*/*", "pretty=yes"), Format::Json);
    assert_eq!(pretty("kubectl", "application/json;pretty=1", "pretty=0"), Format::Pretty);
    assert_eq!(pretty("curl/8.1", "application/yaml", ""), Format::Yaml);
}

#[test]
fn watches_stream_json_and_protobuf_but_not_yaml() {
    let stream = |header, negotiator: Negotiator| {
        let headers = headers(&[(ACCEPT, header)]);
        let accept = negotiator
            .accept(&ClientPreferences::of(&headers, Query::new("pretty=1")), AllowedTransforms::All)
            .unwrap();
        accept.stream(negotiator).map(|(accept, ty)| (accept.format, ty)).map_err(|status| status.message)
    };
    assert_eq!(stream("application/json;stream=watch", PLAIN), Ok((Format::Json, "application/json")));
    assert_eq!(
        stream("application/vnd.kubernetes.protobuf", PLAIN),
        Ok((Format::Protobuf, "application/vnd.kubernetes.protobuf;stream=watch"))
    );
    assert_eq!(stream("application/cbor", WITH_CBOR), Ok((Format::Cbor, "application/cbor-seq")));
    assert_eq!(
        stream("application/yaml", PLAIN),
        Err("only the following media types are accepted: application/json;stream=watch, \
             application/vnd.kubernetes.protobuf;stream=watch"
            .into())
    );
}

#[test]
fn errors_are_not_transformed() {
    let format_of =
        |header| PLAIN.error_format(&ClientPreferences::of(&headers(&[(ACCEPT, header)]), Query::new("")));
    assert_eq!(
        format_of("application/json;as=Table;v=v1;g=meta.k8s.io,application/json"),
        ErrorFormat::Negotiated(Format::Json)
    );
    assert_eq!(
        format_of("application/json;as=Table;v=v1;g=meta.k8s.io,application/yaml"),
        ErrorFormat::Negotiated(Format::Yaml)
    );
    assert_eq!(format_of("application/json;as=Table;v=v1;g=meta.k8s.io"), ErrorFormat::IndentedJson);
    assert_eq!(format_of("application/json;sv=v1"), ErrorFormat::IndentedJson);
    assert_eq!(format_of("text/plain"), ErrorFormat::IndentedJson);
    assert_eq!(format_of("application/vnd.kubernetes.protobuf"), ErrorFormat::Negotiated(Format::Protobuf));
}

#[test]
fn gzip_is_accepted_by_name() {
    let gzip = |header| ClientPreferences::of(&headers(&[(ACCEPT_ENCODING, header)]), Query::new("")).gzip();
    assert!(gzip("gzip"));
    assert!(gzip("deflate, gzip"));
    assert!(!gzip("gzip;q=1"));
    assert!(!gzip("*"));
}

#[test]
fn content_type_selects_the_body_format() {
    for (header, wanted) in [
        ("", BodyFormat::Json),
        ("application/json", BodyFormat::Json),
        ("Application/JSON; charset=utf-8", BodyFormat::Json),
        ("application/json;", BodyFormat::Json),
        ("application/json; a=\"x;\\\"y\"; b=c", BodyFormat::Json),
        ("application/json; a=b; a=b", BodyFormat::Json),
        (" application/yaml ", BodyFormat::Yaml),
        ("application/vnd.kubernetes.protobuf", BodyFormat::Protobuf),
    ] {
        assert_eq!(PLAIN.body_format(header), Ok(wanted), "{header}");
    }
    for header in [
        "text/plain",
        "application/json; x",
        "application/json; a=b; a=c",
        "application/json, application/yaml",
        "application/json; a=\"x",
        "application/cbor",
        "application/apply-patch+yaml",
    ] {
        let status = PLAIN.body_format(header).unwrap_err();
        assert_eq!((status.code, status.details), (415, None), "{header}");
        assert_eq!(
            status.message,
            format!(
                "the body of the request was in an unknown format - accepted media types include: {OBJECTS}"
            )
        );
    }
    assert_eq!(WITH_CBOR.body_format("application/cbor"), Ok(BodyFormat::Cbor));
}

#[test]
fn content_type_selects_the_patch_type() {
    assert_eq!(PLAIN.patch_type("application/json-patch+json"), Ok(PatchType::Json));
    assert_eq!(PLAIN.patch_type("application/apply-patch+yaml; charset=utf-8"), Ok(PatchType::Apply));
    assert_eq!(WITH_CBOR.patch_type("application/apply-patch+cbor"), Ok(PatchType::ApplyCbor));
    let status = PLAIN.patch_type("application/merge-patch+json ; charset=utf-8").unwrap_err();
    assert_eq!(
        status.message,
        "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, \
         application/merge-patch+json, application/strategic-merge-patch+json, application/apply-patch+yaml"
    );
}

fn routed(method: Method, pairs: &[(HeaderName, &'static str)], produces: route::Produces) -> String {
    match route::check(&method, &headers(pairs), produces, PLAIN) {
        Ok(()) => "ok".into(),
        Err(status) => {
            assert_eq!(status.details, Some(Default::default()));
            format!("{} {}", status.code, status.message)
        }
    }
}

#[test]
fn route_check_ignores_media_type_parameters() {
    use route::Produces::*;
    let get = |header, produces| routed(Method::GET, &[(ACCEPT, header)], produces);
    for header in ["", "*/*", "text/html, */*;q=0.1", "application/yaml;as=Nonsense"] {
        assert_eq!(get(header, Objects), "ok", "{header}");
    }
    let refusal = format!("406: Not Acceptable\n\nAvailable representations: {OBJECTS}");
    assert_eq!(get("application/*", Objects), format!("406 {refusal}"));
    assert_eq!(
        get("text/plain", ObjectsAndStreams),
        format!(
            "406 {refusal}, application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
        )
    );
    assert_eq!(get("text/plain", TextAndObjects), "ok");
    assert_eq!(get("image/png", Anything), "ok");
    let post = routed(Method::POST, &[(ACCEPT, "text/plain"), (CONTENT_LENGTH, "2")], Objects);
    assert_eq!(post, format!("406 {refusal}"));
    let post = routed(Method::POST, &[(ACCEPT, "text/plain")], Objects);
    assert_eq!(post, format!("415 415: Unsupported Media Type\n\nAvailable representations: {OBJECTS}"));
}

#[test]
fn route_check_refuses_unknown_patch_types() {
    let patch = |content_type, length: Option<&'static str>| {
        let mut pairs = vec![(CONTENT_TYPE, content_type)];
        pairs.extend(length.map(|length| (CONTENT_LENGTH, length)));
        routed(Method::PATCH, &pairs, route::Produces::Objects)
    };
    assert_eq!(patch("application/merge-patch+json ; charset=utf-8", Some("2")), "ok");
    assert_eq!(patch("application/json, application/merge-patch+json", Some("2")), "ok");
    for unknown in ["", "application/json", "Application/Apply-Patch+YAML", "application/apply-patch+cbor"] {
        assert_eq!(patch(unknown, Some("2")), "415 415: Unsupported Media Type", "{unknown}");
    }
    assert_eq!(
        patch("application/json", None),
        "415 415: Unsupported Media Type\n\nAvailable representations: "
    );
    assert_eq!(
        patch("application/json", Some("0")),
        "406 406: Not Acceptable\n\nAvailable representations: "
    );
}

#[test]
fn tables_can_be_disallowed() {
    let ask = |header| {
        let headers = headers(&[(ACCEPT, header)]);
        PLAIN
            .accept(&ClientPreferences::of(&headers, Query::new("")), AllowedTransforms::NoTables)
            .map(|accept| accept.transform)
    };
    let table = "application/json;as=Table;g=meta.k8s.io;v=v1";
    assert_eq!(ask(table).unwrap_err().code, 406);
    assert_eq!(ask("application/json;as=Table;g=meta.k8s.io;v=v1,application/json").unwrap(), None);
    let partial = ask("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1").unwrap();
    assert_eq!(partial, transform(TransformKind::Partial, MetaVersion::V1));
}
