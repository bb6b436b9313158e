use crate::each_fact;
use object::duration::Duration;
use object::int_or_string::{IntOrString, Round};
use object::time::{MicroTime, Time, canonicalize, canonicalize_micro};

#[test]
fn every_text_is_the_time_it_is_in_the_reference() {
    each_fact(include_str!("time.tsv"), |columns, line| {
        let [text, written, seconds, _, micro_written, micro_seconds, micro_nanos] = columns else {
            panic!("short line: {line}")
        };
        match written.strip_prefix('!') {
            Some(error) => assert_eq!(text.parse::<Time>().unwrap_err().to_string(), error),
            None => {
                let time: Time = text.parse().unwrap_or_else(|error| panic!("{line}: {error}"));
                assert_eq!(time.to_string(), *written, "{line}");
                assert_eq!(time.unix().to_string(), *seconds, "{line}");
                assert_eq!(canonicalize(text).unwrap(), *written, "{line}");
                assert_eq!(Time::from_unix(time.unix()), time);
            }
        }
        match micro_written.strip_prefix('!') {
            Some(error) => assert_eq!(text.parse::<MicroTime>().unwrap_err().to_string(), error),
            None => {
                let time: MicroTime = text.parse().unwrap_or_else(|error| panic!("{line}: {error}"));
                assert_eq!(time.to_string(), *micro_written, "{line}");
                assert_eq!(time.unix().to_string(), *micro_seconds, "{line}");
                assert_eq!(time.subsec_nanos().to_string(), *micro_nanos, "{line}");
                assert_eq!(canonicalize_micro(text).unwrap(), *micro_written, "{line}");
                assert_eq!(MicroTime::from_unix(time.unix(), time.subsec_nanos() as i32), time);
            }
        }
    });
}

#[test]
fn every_text_is_the_duration_it_is_in_the_reference() {
    each_fact(include_str!("duration.tsv"), |columns, line| match columns {
        [text, written, nanos] => {
            let span: Duration = text.parse().unwrap_or_else(|error| panic!("{line}: {error}"));
            assert_eq!(span.to_string(), *written, "{line}");
            assert_eq!(span.as_nanos().to_string(), *nanos, "{line}");
        }
        [text, error] => {
            assert_eq!(format!("!{}", text.parse::<Duration>().unwrap_err()), *error, "{line}");
        }
        _ => panic!("short line: {line}"),
    });
}

#[test]
fn every_text_is_the_number_or_share_it_is_in_the_reference() {
    each_fact(include_str!("int_or_string.tsv"), |columns, line| {
        let [text, kind, number, total, rest @ ..] = columns else { panic!("short line: {line}") };
        let value = IntOrString::from(text.as_str());
        assert_eq!(value.to_string(), *text);
        assert_eq!(value.int_value().to_string(), *number, "{line}");
        assert_eq!(matches!(IntOrString::parse(text), IntOrString::Int(_)), kind == "int", "{line}");
        let total = total.parse().unwrap();
        match rest {
            [error] => {
                assert_eq!(
                    format!("!{}", value.scaled_value(total, Round::Up).unwrap_err()),
                    *error,
                    "{line}"
                );
            }
            [up, down] => {
                assert_eq!(value.scaled_value(total, Round::Up).unwrap().to_string(), *up, "{line}");
                assert_eq!(value.scaled_value(total, Round::Down).unwrap().to_string(), *down, "{line}");
            }
            _ => panic!("short line: {line}"),
        }
    });
}
