use super::*;

#[test]
fn every_day_of_four_centuries_survives_the_calendar() {
    let mut expected = (1, 1);
    for day in 0..146_097 * 2 {
        let seconds = (day - 146_097) * 86_400 + 12_345;
        let civil = Civil::from_unix(seconds);
        assert_eq!((civil.month, civil.day), expected, "{civil}");
        assert_eq!(civil.to_unix(), seconds);
        expected = if civil.day < calendar::days_in_month(civil.year, civil.month) {
            (civil.month, civil.day + 1)
        } else {
            (civil.month % 12 + 1, 1)
        };
    }
}

#[test]
fn the_ends_of_64_bits_are_written_without_overflow() {
    assert_eq!(Time::from_unix(i64::MAX).to_string(), "292277026596-12-04T15:30:07Z");
    assert_eq!(Time::from_unix(i64::MIN).to_string(), "-292277022657-01-27T08:29:52Z");
    assert_eq!(Time::from_unix(i64::MAX).since(Time::from_unix(i64::MIN)), Duration::MAX);
    assert_eq!(Time::from_unix(i64::MAX).checked_add(Duration::from_secs(1)), None);
    assert_eq!(MicroTime::from_unix(i64::MAX, 0).since(MicroTime::ZERO), Duration::MAX);
    assert_eq!(MicroTime::from_unix(i64::MAX, i32::MAX).unix(), i64::MAX);
}

#[test]
fn nanoseconds_from_the_wire_are_cut_to_microseconds() {
    assert_eq!(MicroTime::from_unix(5, 999_999_999).to_string(), "1970-01-01T00:00:05.999999Z");
    assert_eq!(MicroTime::from_unix(5, -1_000).to_string(), "1970-01-01T00:00:04.999999Z");
    assert_eq!(MicroTime::from_unix(5, -999).to_string(), "1970-01-01T00:00:05.000000Z");
    assert_eq!(MicroTime::from_unix(5, 1_500_000_000).to_string(), "1970-01-01T00:00:06.500000Z");
}

#[test]
fn spans_move_times_both_ways() {
    let time: Time = "2024-03-01T00:00:00Z".parse().unwrap();
    assert_eq!(time.checked_add(Duration::from_secs(-1)).unwrap().to_string(), "2024-02-29T23:59:59Z");
    assert_eq!(time.checked_add(Duration::from_nanos(-1)).unwrap().to_string(), "2024-02-29T23:59:59Z");
    let precise = MicroTime::from(time).checked_add(Duration::from_nanos(-1_000)).unwrap();
    assert_eq!(precise.to_string(), "2024-02-29T23:59:59.999999Z");
    assert_eq!(MicroTime::from(time).since(precise), Duration::from_nanos(1_000));
    assert_eq!(Time::from(precise).to_string(), "2024-02-29T23:59:59Z");
    assert!(precise < time.into());
}

#[test]
fn now_is_close_to_the_system_clock() {
    let before = Time::now();
    let precise = MicroTime::now();
    assert!(before <= precise.into());
    assert!(precise.since(before.into()) < Duration::from_secs(60));
    assert!(before > "2024-01-01T00:00:00Z".parse().unwrap());
}

#[test]
fn zero_time_is_the_first_second_of_year_1() {
    assert!("0001-01-01T00:00:00Z".parse::<Time>().unwrap().is_zero());
    assert!("0001-01-01T00:00:00.000000Z".parse::<MicroTime>().unwrap().is_zero());
    assert!(!Time::from_unix(0).is_zero());
}

#[test]
fn common_time_form_is_borrowed() {
    assert!(matches!(canonicalize("2024-02-29T23:59:59Z"), Ok(Cow::Borrowed(_))));
    assert!(matches!(canonicalize_micro("2024-02-29T23:59:59.000001Z"), Ok(Cow::Borrowed(_))));
    assert!(matches!(canonicalize_micro("2024-02-29T23:59:59.000001+00:00"), Ok(Cow::Owned(_))));
}

#[test]
fn clock_before_1970_has_a_time() {
    use std::time::{Duration, SystemTime};
    for (seconds, text) in
        [(1, "1969-12-31T23:59:59.000000Z"), (2_208_988_800, "1900-01-01T00:00:00.000000Z")]
    {
        let time = SystemTime::UNIX_EPOCH - Duration::from_secs(seconds);
        assert_eq!(MicroTime::from(time).to_string(), text);
    }
    let time = SystemTime::UNIX_EPOCH - Duration::from_millis(250);
    assert_eq!(MicroTime::from(time).to_string(), "1969-12-31T23:59:59.750000Z");
    // Past what nanoseconds can count.
    let early = MicroTime::from(SystemTime::UNIX_EPOCH - Duration::from_secs(1 << 40));
    assert!(early < MicroTime::from_unix(0, 0));
}
