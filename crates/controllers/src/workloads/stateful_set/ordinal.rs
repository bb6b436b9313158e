//! The names of the pods of stateful sets: that of the set, a dash, and a number.

/// The name of the set in the name of a pod; `None` if the name has no such form.
pub(super) fn parent(pod: &str) -> Option<&str> {
    split(pod).map(|(parent, _)| parent)
}

/// The ordinal in the name of a pod; `None` if it has none of 31 bits.
pub(super) fn ordinal(pod: &str) -> Option<i64> {
    split(pod).and_then(|(_, digits)| digits.parse::<i32>().ok()).map(i64::from)
}

fn split(pod: &str) -> Option<(&str, &str)> {
    let (parent, digits) = pod.rsplit_once('-')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some((parent, digits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_a_set_and_an_ordinal() {
        let both = |name| (parent(name), ordinal(name));
        assert_eq!(both("web-0"), (Some("web"), Some(0)));
        assert_eq!(both("web-1-22"), (Some("web-1"), Some(22)));
        assert_eq!(both("web-99999999999"), (Some("web"), None));
        assert_eq!(both("web-x"), (None, None));
        assert_eq!(both("web-"), (None, None));
        assert_eq!(both("web"), (None, None));
    }
}
