use super::*;

fn busy(nanoseconds: u64) -> Spent {
    Spent { busy: nanoseconds, requests: 1, ..Spent::default() }
}

fn who<'a>(user: &'a str, agent: &'a str) -> Who<'a> {
    Who::new(user, agent, "", "pods")
}

/// The row of a user and an agent.
fn row(table: &mut Table, user: &str, agent: &str, now: Instant) -> Option<Row> {
    let rows = table.shown(now).rows;
    rows.into_iter().find(|row| &*row.key.user == user && &*row.key.agent == agent)
}

fn near(number: f64, wanted: f64) {
    assert!((number - wanted).abs() <= wanted.abs() * 1e-9, "{number} {wanted}");
}

#[test]
fn requests_of_one_user_agent_and_resource_are_one_row() {
    let begin = Instant::now();
    let mut table = Table::new(begin);
    let spent =
        Spent { busy: 1, requests: 2, sent_bytes: 3, read_objects: 4, delivered_events: 5, refusals: 6 };
    table.add(Who::new("jane", "kubectl/v1.33.7 (linux/amd64)", "apps", "deployments"), spent, begin);
    table.add(Who::new("jane", "kubectl/v1.32.0", "apps", "deployments"), spent, begin);
    table.add(Who::new("jane", "kubectl", "", "pods"), busy(1), begin);
    table.add(Who::new("jane", "", "", ""), busy(1), begin);
    let shown = table.shown(begin);
    let first = &shown.rows[0];
    assert_eq!(
        [&*first.key.user, &*first.key.agent, &*first.key.resource],
        ["jane", "kubectl", "apps/deployments"]
    );
    assert_eq!(first.total.shown(), [2e-9, 4.0, 6.0, 8.0, 10.0, 12.0]);
    assert_eq!(first.late, first.total);
    let resources: Vec<&str> = shown.rows.iter().map(|row| &*row.key.resource).collect();
    assert_eq!(resources, ["apps/deployments", "", "pods"]);
    assert_eq!(shown.all.total.requests, 6.0);
}

#[test]
fn sums_of_late_halve_and_sums_since_the_start_stay() {
    let begin = Instant::now();
    let mut table = Table::new(begin);
    table.add(who("jane", "a"), busy(1_000), begin);
    table.add(who("jane", "a"), busy(1_000), begin + HALF_LIFE);
    let jane = row(&mut table, "jane", "a", begin + HALF_LIFE).unwrap();
    near(jane.late.busy, 1_500.0);
    assert_eq!(jane.total.busy, 2_000.0);
    let jane = row(&mut table, "jane", "a", begin + 3 * HALF_LIFE).unwrap();
    near(jane.late.busy, 375.0);
    near(table.shown(begin + 3 * HALF_LIFE).all.late.busy, 375.0);
}

#[test]
fn sums_survive_the_change_to_the_measure_of_another_time() {
    let begin = Instant::now();
    let mut table = Table::new(begin);
    let later = begin + HALF_LIFE * 63;
    table.add(who("jane", "a"), busy(1_000), later);
    // Past the most half-lives of one measure, twice.
    let jane = row(&mut table, "jane", "a", later + HALF_LIFE * 2).unwrap();
    near(jane.late.busy, 250.0);
    assert_eq!(table.epoch, later + HALF_LIFE * 2);
    let jane = row(&mut table, "jane", "a", later + HALF_LIFE * 100).unwrap();
    near(jane.late.busy, 1_000.0 * (-100f64).exp2());
    let most = Spent { busy: u64::MAX, ..Spent::default() };
    table.add(who("jane", "a"), most, later + HALF_LIFE * 160);
    let jane = row(&mut table, "jane", "a", later + HALF_LIFE * 160).unwrap();
    assert!(jane.late.busy.is_finite());
}

#[test]
fn the_row_that_costs_most_of_late_is_first_and_old_costs_fall_behind() {
    let begin = Instant::now();
    let mut table = Table::new(begin);
    table.add(who("once", "a"), busy(1_000), begin);
    let later = begin + HALF_LIFE * 2;
    table.add(who("now", "a"), busy(300), later);
    let users = |rows: Vec<Row>| rows.into_iter().map(|row| row.key.user.into()).collect::<Vec<String>>();
    assert_eq!(users(table.top(10, later)), ["now", "once"]);
    assert_eq!(users(table.top(1, later)), ["now"]);
}

#[test]
fn rows_are_bounded_and_those_that_cost_least_give_way() {
    let now = Instant::now();
    let mut table = Table::new(now);
    for number in 0..MOST_ROWS as u64 {
        table.add(who(&format!("u{number}"), "a"), busy(1_000 + number), now);
    }
    assert_eq!(table.rows.len(), MOST_ROWS);
    table.add(who("one-more", "a"), busy(1), now);
    assert_eq!(table.rows.len(), MOST_ROWS - GIVING_WAY + 1);
    let last = GIVING_WAY as u64 - 1;
    assert!(row(&mut table, &format!("u{last}"), "a", now).is_none());
    assert!(row(&mut table, &format!("u{}", last + 1), "a", now).is_some());
    assert!(row(&mut table, "one-more", "a", now).is_some());
    // What left is in one row, and nothing is lost.
    let shown = table.shown(now);
    assert_eq!(shown.others.total.requests, GIVING_WAY as f64);
    let in_rows: f64 = shown.rows.iter().map(|row| row.total.busy).sum();
    near(in_rows + shown.others.total.busy, shown.all.total.busy);
}

#[test]
fn user_that_changes_its_agent_all_the_time_has_one_row_for_the_rest() {
    let now = Instant::now();
    let mut table = Table::new(now);
    for number in 0..100 {
        table.add(who(&format!("u{number}"), "a"), busy(1_000_000), now);
    }
    for number in 0..20_000 {
        table.add(who("mallory", &format!("agent-{number}")), busy(10), now);
        assert!(table.rows.len() <= MOST_ROWS);
    }
    let shown = table.shown(now);
    let others: Vec<&Row> = shown.rows.iter().filter(|row| &*row.key.user != "mallory").collect();
    assert_eq!(others.len(), 100, "the rows of others stay");
    let mallory: f64 =
        shown.rows.iter().filter(|row| &*row.key.user == "mallory").map(|row| row.total.requests).sum();
    assert_eq!(mallory + shown.others.total.requests, 20_000.0);
    let several = row(&mut table, "mallory", SEVERAL, now).unwrap();
    assert_eq!(&*several.key.resource, SEVERAL);
    assert!(several.total.requests > 19_000.0, "{several:?}");
}

#[test]
fn names_are_cut() {
    let now = Instant::now();
    let mut table = Table::new(now);
    table.add(who(&"é".repeat(10_000), &"x".repeat(10_000)), busy(1), now);
    let shown = table.shown(now);
    let key = &shown.rows[0].key;
    assert_eq!((key.user.len(), key.agent.len()), (MOST_OF_USER, MOST_OF_AGENT));
}
