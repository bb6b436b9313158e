//! Tests of patterns.

use super::*;

#[test]
fn deep_patterns_compile_on_a_small_stack() {
    let deep =
        |open: &str, close: &str, times: usize| format!("{}a{}", open.repeat(times), close.repeat(times));
    for pattern in
        [deep("(", ")", 900), deep("(?:", ")*", 900), deep("(b|", ")", 400), deep("(b", "c)*", 300)]
    {
        assert!(std::thread::spawn(move || matches(&pattern, "a", &mut |_| true)).join().unwrap().is_ok());
    }
}

#[test]
fn patterns_that_compile_to_too_much_are_refused_when_they_are_checked() {
    let error = check_pattern(r"((\pL\pM\pN\pS){100}){10}(\pL\pM\pN\pS){1000}").unwrap_err();
    assert!(error.starts_with("error parsing regexp: expression too large: "), "{error}");
    assert_eq!(check_pattern(r"^[\pL\d]{1,255}$"), Ok(()));
}

#[test]
fn the_cache_is_bounded() {
    for number in 0..2 * MOST_KEPT {
        assert_eq!(matches(&format!("^{number}$"), "x", &mut |_| true), Ok(Some(false)));
    }
    let cache = CACHE.lock().unwrap();
    assert!(cache.patterns.len() <= MOST_KEPT);
    assert_eq!(cache.bytes, cache.patterns.values().map(|kept| kept.bytes).sum::<usize>());
}

#[test]
fn long_patterns_are_read_in_linear_time_and_refused() {
    let start = std::time::Instant::now();
    for pattern in
        ["a".repeat(3 << 20), format!("{}{}{}", "(b".repeat(400), "a".repeat(3 << 20), "c)".repeat(400))]
    {
        let error = check_pattern(&pattern).unwrap_err();
        assert!(error.starts_with("error parsing regexp: expression too large: "));
    }
    assert!(start.elapsed() < std::time::Duration::from_secs(20));
}

#[test]
fn a_search_that_looks_at_the_rest_of_a_long_text_for_each_match_is_given_up() {
    let text = "a".repeat(1 << 20);
    let within = |most: usize| {
        let mut left = most;
        move |steps: usize| left.checked_sub(steps).map(|rest| left = rest).ok_or("too much")
    };
    let pattern = Pattern::new("a*b|aa").unwrap();
    assert_eq!(pattern.find_all(&text, 2, &mut within(1 << 28)), Ok(vec!["aa", "aa"]));
    assert_eq!(pattern.find_all(&text, usize::MAX, &mut within(1 << 24)), Err("too much"));
    let dense = Pattern::new("a").unwrap();
    assert_eq!(dense.find_all(&text, usize::MAX, &mut within(usize::MAX)).unwrap().len(), 1 << 20);
}

#[test]
fn steps_are_asked_for_before_they_are_taken() {
    let text = "01".repeat(1 << 19);
    let pattern = Pattern::new("[01]*1[01]{500}x").unwrap();
    let mut asked = Vec::new();
    let mut refuse = |steps| {
        asked.push(steps);
        if steps > 1 << 28 { Err(()) } else { Ok(()) }
    };
    assert_eq!(pattern.matches(&text, &mut refuse), Err(()));
    assert_eq!(pattern.find(&text, &mut refuse), Err(()));
    assert_eq!(pattern.find_all(&text, 1, &mut refuse), Err(()));
    assert_eq!(pattern.matches("0", &mut refuse), Ok(false));
    // Each text, and then the pattern itself, which is compiled for the short one.
    assert_eq!(asked.len(), 5, "{asked:?}");
}

#[test]
fn a_large_pattern_of_a_client_is_compiled_if_there_are_steps_for_it() {
    let large = format!("{}z", r"(\pL\pN){7}".repeat(2));
    let within = |most: usize| {
        let mut left = most;
        move |steps: usize| left.checked_sub(steps).map(|rest| left = rest).ok_or(())
    };
    assert!(Pattern::checked(&large, &mut within(10_000)).is_err());
    let mut spend = within(10_000_000);
    let pattern = Pattern::checked(&large, &mut spend).unwrap().unwrap();
    assert_eq!(pattern.matches("a", &mut spend), Ok(false));
}

#[test]
fn a_pattern_is_compiled_again_after_the_cache_has_dropped_it() {
    let pattern = Pattern::new("^dropped$").unwrap();
    assert!(pattern.is_match("dropped"));
    CACHE.lock().unwrap().patterns.clear();
    CACHE.lock().unwrap().bytes = 0;
    assert!(pattern.is_match("dropped") && !pattern.clone().is_match("kept"));
}
