use super::*;

const MIB: usize = 1 << 20;

/// Callers of one server, which may hold 4 MiB each and 8 MiB in all.
fn callers<const N: usize>(_count: [(); N]) -> [Payer; N] {
    let limits = Limits {
        unsent_of_caller: 4 * MIB,
        unsent: 8 * MIB,
        unsent_wait: Duration::from_millis(50),
        ..Limits::default()
    };
    let unsent = Arc::new(Unsent::new(&limits));
    let mut number = 0;
    [(); N].map(|()| {
        number += 1;
        Payer { unsent: Arc::clone(&unsent), caller: None, address: IpAddr::from([192, 0, 2, number]) }
    })
}

async fn is_admitted(payer: &Payer) -> bool {
    payer.admit(|| None).await.is_ok()
}

#[tokio::test(start_paused = true)]
async fn caller_past_its_budget_is_refused_and_others_are_not() {
    let [one, other] = callers([(); 2]);
    let held: Vec<Charge> = (0..5).map(|_| one.charge(MIB)).collect();
    let begin = Instant::now();
    assert_eq!(one.admit(|| None).await.unwrap_err(), OverBudget);
    assert_eq!(begin.elapsed().as_millis(), 50, "it waited for a while");
    assert_eq!(one.admit(|| Some(Duration::from_millis(7))).await.unwrap_err(), OverBudget);
    assert_eq!(begin.elapsed().as_millis(), 57, "and no longer than the request may take");
    assert!(is_admitted(&other).await);
    assert!(one.is_over_budget() && !other.is_over_budget());
    assert_eq!(one.unsent.total(), 5 * MIB);
    assert_eq!(UNSENT.with([]).value(), (5 * MIB) as f64);
    drop(held);
    assert_eq!(one.unsent.total(), 0);
    assert_eq!((UNSENT.with([]).value(), UNSENT_REFUSED.with([]).value()), (0.0, 2));
    assert!(is_admitted(&one).await);
}

#[tokio::test(start_paused = true)]
async fn request_that_waits_goes_on_when_something_is_sent() {
    let [one] = callers([(); 1]);
    let held: Vec<Charge> = (0..4).map(|_| one.charge(MIB)).collect();
    let waiting = tokio::spawn({
        let one = one.clone();
        async move { is_admitted(&one).await }
    });
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert!(!waiting.is_finished());
    drop(held.into_iter().next());
    assert!(waiting.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn requests_that_were_let_in_count_until_their_responses_are_made() {
    let [one] = callers([(); 1]);
    let mut held: Vec<Charge> = (0..4).map(|_| one.charge(MIB)).collect();
    held.pop();
    let _other = one.charge(512 << 10);
    let _another = one.charge(512 << 10);
    held.pop();
    // 3 MiB in four charges: the next is expected to hold three quarters of a MiB, and so is the one after
    // it.
    let total = one.unsent.total();
    let [first, second] = [one.unsent.admit_now(&one.holder()), one.unsent.admit_now(&one.holder())];
    assert_eq!(total, 3 * MIB);
    assert_eq!(first.unwrap().unwrap().bytes, 768 << 10);
    assert_eq!(second.unwrap().unwrap().bytes, 768 << 10);
}

#[tokio::test(start_paused = true)]
async fn past_the_budget_for_all_those_are_refused_that_hold_most() {
    let [one, two, three, four] = callers([(); 4]);
    let _held = [one.charge(3 * MIB), two.charge(3 * MIB + 1), three.charge(2 * MIB)];
    // Three callers hold 8 MiB: the part of each is 2.7 MiB.
    assert!(!is_admitted(&one).await && !is_admitted(&two).await);
    assert!(is_admitted(&three).await && is_admitted(&four).await);
}

#[tokio::test]
async fn only_larger_bodies_are_counted_and_only_while_they_are_in_memory() {
    let [one] = callers([(); 1]);
    let small = one.charge_whole(Response::new(Body::Whole(vec![0; COUNTED_FROM - 1].into())));
    let shared = one.charge_whole(Response::new(Body::shared(vec![0; MIB].into())));
    assert_eq!(one.unsent.total(), 0);
    let large = one.charge_whole(Response::new(Body::Whole(vec![7; MIB].into())));
    assert_eq!(one.unsent.total(), MIB);
    let Body::Whole(bytes) = large.into_body() else { panic!("a whole body") };
    let rest = bytes.slice(MIB - 1..);
    drop((bytes, small, shared));
    assert_eq!(one.unsent.total(), MIB, "the last byte keeps all of them");
    assert_eq!(rest[..], [7]);
    drop(rest);
    assert_eq!(one.unsent.total(), 0);
    assert!(one.unsent.accounts().is_empty());
}

#[test]
fn charge_that_changes_counts_what_it_is() {
    let [one] = callers([(); 1]);
    let mut charge = one.charge(MIB);
    charge.set(3 * MIB);
    assert_eq!(one.unsent.total(), 3 * MIB);
    charge.set(3 * MIB + 1);
    assert_eq!(one.unsent.total(), 3 * MIB, "small changes are left out");
    charge.set(0);
    drop(charge);
    assert_eq!(one.unsent.total(), 0);
}

#[tokio::test(start_paused = true)]
async fn request_that_waited_for_a_permit_is_refused_by_what_was_made_before_it() {
    let [one] = callers([(); 1]);
    let large = LargeWork::default();
    assert!(one.permit(&large, MIB).await.is_ok());
    let held = one.charge(4 * MIB);
    assert!(one.permit(&large, MIB).await.is_err());
    drop(held);
    assert!(one.permit(&large, MIB).await.is_ok());
}
