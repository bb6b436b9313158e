use super::*;
use crate::testing::Fixture;
use kinds::Gates;
use schema::{Limits, Shape, json};

const NOW: i64 = 2_000_000_000;

fn at(seconds: i64) -> MicroTime {
    MicroTime::from_unix(NOW + seconds, 0)
}

fn object(text: &str) -> Map {
    let value = json::decode_shape(&Shape::Any, text.as_bytes(), &Limits::REQUEST).unwrap().value;
    value.as_map().unwrap().clone()
}

/// A candidate: when it was asked, when it has renewed, its versions and strategy.
fn candidate(
    name: &str,
    pinged: Option<i64>,
    renewed: i64,
    [emulation, binary]: [&str; 2],
    strategy: &str,
) -> Map {
    let pinged = pinged.map(|seconds| format!(r#""pingTime":"{}","#, at(seconds))).unwrap_or_default();
    object(&format!(
        r#"{{"metadata":{{"name":"{name}","creationTimestamp":"2030-01-01T00:00:00Z"}},"spec":{{"leaseName":"l",{pinged}
        "renewTime":"{}","emulationVersion":"{emulation}","binaryVersion":"{binary}","strategy":"{strategy}"}}}}"#,
        at(renewed)
    ))
}

fn lease(holder: &str, renewed: i64) -> Map {
    object(&format!(
        r#"{{"metadata":{{"name":"l","uid":"u"}},"spec":{{"holderIdentity":"{holder}","renewTime":"{}","leaseDurationSeconds":5}}}}"#,
        at(renewed)
    ))
}

/// The next step, as a text.
fn next(candidates: &[Map], lease: Option<&Map>) -> String {
    let candidates: Vec<_> = candidates.iter().map(Candidate::of).collect();
    match step(&candidates, lease, at(0)) {
        Step::Wait => "wait".into(),
        Step::Ask(asked) => {
            let names: Vec<_> = asked.iter().map(|candidate| candidate.name).collect();
            format!("ask {}", names.join(","))
        }
        Step::Elect { strategy, holder } => format!("{strategy} {}", holder.unwrap_or_default()),
    }
}

#[test]
fn candidates_are_asked_and_those_that_answer_elect() {
    let old = ["1.20.0", "1.20.0"];
    let one = |pinged, renewed| [candidate("a", pinged, renewed, old, OLDEST_EMULATION_VERSION)];
    assert_eq!(next(&one(None, -1), None), "OldestEmulationVersion a", "it has just renewed");
    assert_eq!(next(&one(None, -60), None), "ask a");
    assert_eq!(next(&one(Some(-2), -60), None), "wait", "for its answer");
    assert_eq!(next(&one(Some(-6), -60), None), "wait", "it has not answered, and nobody else is there");
    assert_eq!(next(&one(Some(-6), -6), None), "ask a", "the answer is too old");
    let with_silent = [
        candidate("a", Some(-6), -60, old, OLDEST_EMULATION_VERSION),
        candidate("b", Some(-6), -1, ["1.21.0", "1.21.0"], OLDEST_EMULATION_VERSION),
    ];
    assert_eq!(next(&with_silent, None), "OldestEmulationVersion b");
}

#[test]
fn oldest_emulation_version_wins_and_the_newest_binary_says_how() {
    let at = |name, versions, strategy| candidate(name, None, -1, versions, strategy);
    let of = |name, versions| at(name, versions, OLDEST_EMULATION_VERSION);
    let all = [of("a", ["1.20.0", "1.21.0"]), of("b", ["1.19.0", "1.21.0"]), of("c", ["1.19.0", "1.20.0"])];
    assert_eq!(next(&all, None), "OldestEmulationVersion c");
    let theirs = [of("a", ["1.20.0", "1.20.0"]), at("b", ["1.20.0", "1.21.0"], "x.example/y")];
    assert_eq!(next(&theirs, None), "x.example/y ", "another controller chooses the holder");
    let unclear = [of("a", ["1.20.0", "1.21.0"]), at("b", ["1.20.0", "1.21.0"], "x.example/y")];
    assert_eq!(next(&unclear, None), "wait");
}

#[test]
fn election_is_needed_without_a_holder_or_with_a_better_candidate() {
    let of = |name, versions, renewed| candidate(name, None, renewed, versions, OLDEST_EMULATION_VERSION);
    let all = [of("a", ["1.20.0", "1.20.0"], -1), of("b", ["1.19.0", "1.19.0"], -1)];
    assert_eq!(next(&all, Some(&lease("b", -1))), "wait");
    assert_eq!(next(&all, Some(&lease("a", -1))), "OldestEmulationVersion b");
    assert_eq!(next(&all, Some(&lease("", -1))), "OldestEmulationVersion b");
    assert_eq!(next(&all, Some(&lease("b", -6))), "OldestEmulationVersion b");
    let stale = [of("b", ["1.19.0", "1.19.0"], -16 * 60)];
    assert_eq!(next(&stale, Some(&lease("b", -1))), "ask b", "each quarter of an hour");
}

#[test]
fn holder_that_is_alive_is_asked_to_make_room() {
    let set = |mut lease: Map| {
        set_holder(&mut lease, OLDEST_EMULATION_VERSION, Some("b"), at(0));
        let spec = Lease::of(&lease).spec();
        let [holder, preferred] = [spec.holder_identity(), spec.preferred_holder()];
        format!("{} {}", holder.unwrap_or_default(), preferred.unwrap_or_default())
    };
    assert_eq!(set(lease("a", -1)), "a b");
    assert_eq!(set(lease("a", -6)), "b ", "it has expired");
    assert_eq!(set(lease("", -1)), "b ");
    assert_eq!(set(lease("b", -1)), "b ");
}

#[tokio::test]
async fn leases_get_holders_and_old_candidates_go_only_with_the_gate() {
    for is_on in [true, false] {
        let fixture = Fixture::configured(|config| {
            config.selection.set("coordination.k8s.io/v1beta1", true);
            config.objects.gates = Gates { coordinated_leader_election: is_on, ..Gates::DEFAULT };
        });
        let fixture = fixture.await;
        fixture.namespace("n").await;
        let renewed = |time: MicroTime| format!(r#""leaseName":"l","renewTime":"{time}""#);
        let candidate = |name: &str, spec: &str| {
            format!(
                r#"{{"metadata":{{"name":"{name}"}},"spec":{{{spec},
                "emulationVersion":"1.33.0","binaryVersion":"1.33.0","strategy":"OldestEmulationVersion"}}}}"#
            )
        };
        let long_ago = MicroTime::from_unix(MicroTime::now().unix() - 3600, 0);
        fixture.create(candidates_in("n"), &candidate("gone", &renewed(long_ago))).await;
        fixture.create(candidates_in("n"), &candidate("here", &renewed(MicroTime::now()))).await;
        fixture.create(candidates_in("n"), &candidate("new", r#""leaseName":"l""#)).await;
        let asked = format!(r#""leaseName":"m","renewTime":"{long_ago}","pingTime":"{}""#, MicroTime::now());
        fixture.create(candidates_in("n"), &candidate("silent", &asked)).await;
        let _running = fixture.start(&CONTROLLER);
        if !is_on {
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert!(fixture.lookup("leases.coordination.k8s.io", "n", "l").is_none());
            continue;
        }
        let address = Address::v1(GROUP, "leases", "n").named("l");
        fixture.until("a holder", async || fixture.client.get(address).await.is_ok()).await;
        let lease = fixture.client.get(address).await.unwrap();
        let spec = Lease::of(lease.as_map().unwrap()).spec();
        assert_eq!(spec.holder_identity(), Some("here"));
        assert_eq!(spec.strategy(), Some(OLDEST_EMULATION_VERSION));
        assert_eq!(spec.lease_duration_seconds(), Some(5));
        let candidates = "leasecandidates.coordination.k8s.io";
        fixture.until("no old candidate", async || fixture.lookup(candidates, "n", "gone").is_none()).await;
        let is_gone = async || fixture.lookup(candidates, "n", "silent").is_none();
        fixture.until("no old candidate that was asked", is_gone).await;
        assert!(fixture.lookup(candidates, "n", "here").is_some());
        assert!(fixture.lookup(candidates, "n", "new").is_some(), "it was made within half an hour");
    }
}
