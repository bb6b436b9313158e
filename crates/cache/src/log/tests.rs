use super::*;
use std::time::Duration;

fn log(revisions: &[u64]) -> Log {
    let mut log = Log::new(Revision(10));
    for &revision in revisions {
        let change = Transition::new(Revision(revision), "a".into(), KeyState::Absent, KeyState::Absent);
        log.push(vec![change], Instant::now());
    }
    log
}

fn after(log: &Log, revision: u64) -> Option<Vec<u64>> {
    Some(log.after(Revision(revision))?.map(|change| change.revision.0).collect())
}

#[test]
fn readers_go_on_from_any_revision_in_reach() {
    let revisions: Vec<u64> = (0..100).map(|i| 12 + 3 * i).collect();
    let log = log(&revisions);
    assert_eq!(after(&log, 9), None);
    for from in 10..320 {
        let expected: Vec<u64> = revisions.iter().copied().filter(|r| *r > from).collect();
        assert_eq!(after(&log, from), Some(expected));
        assert_eq!(log.get("a", Revision(from)).is_some(), revisions.contains(&from));
        assert!(log.get("b", Revision(from)).is_none());
    }
}

/// A log in which the changes of some keys share each revision.
fn shared(revisions: &[(u64, usize)]) -> Log {
    let mut log = Log::new(Revision(10));
    for &(revision, keys) in revisions {
        let change = |key: usize| {
            Transition::new(Revision(revision), key.to_string().into(), KeyState::Absent, KeyState::Absent)
        };
        log.push((0..keys).map(change).collect(), Instant::now());
    }
    log
}

#[test]
fn changes_that_share_a_revision_lie_in_one_piece() {
    let log = shared(&[(11, 3), (15, 2), (20, 100), (21, 1), (30, 63), (31, 2)]);
    let lens: Vec<usize> = log.parts.iter().map(|part| part.len).collect();
    assert_eq!((log.len(), lens), (171, vec![3, 2, 100, 64, 2]));
    for (revision, count) in
        [(11, 3), (12, 0), (15, 2), (20, 100), (21, 1), (29, 0), (30, 63), (31, 2), (32, 0)]
    {
        let range = log.range(Revision(revision)).map_or(0, |range| range.places.len());
        assert_eq!(range, count, "{revision}");
        assert_eq!(log.get("0", Revision(revision)).is_some(), count > 0);
        assert_eq!(log.get("2", Revision(revision)).is_some(), count > 2);
    }
    assert_eq!(after(&log, 15).map(|changes| changes.len()), Some(166));
    assert_eq!(after(&log, 25).map(|changes| changes.len()), Some(65));
}

/// The last revisions of its pieces.
fn pieces(log: &Log) -> Vec<u64> {
    log.parts.iter().map(|part| part.last.0).collect()
}

#[test]
fn pieces_grow_with_the_log_and_end_with_large_changes() {
    let revisions: Vec<u64> = (11..311).collect();
    assert_eq!(pieces(&log(&revisions)), [14, 22, 38, 70, 134, 198, 262, 310]);
    let mut log = log(&[]);
    let key: Arc<str> = "a".repeat(BYTES / 3).into();
    for revision in 11..17 {
        let change = Transition::new(Revision(revision), key.clone(), KeyState::Absent, KeyState::Absent);
        log.push(vec![change], Instant::now());
    }
    assert_eq!(pieces(&log), [13, 16]);
}

#[test]
fn trimming_moves_the_start_to_what_was_dropped() {
    let mut log = log(&[11, 20, 30, 40, 50, 60]);
    let one = log.bytes() / 6;
    assert_eq!(log.trim(None, 0).bytes, 0);
    assert_eq!(log.trim(None, 1).bytes, 4 * one);
    assert_eq!((log.start(), log.bytes(), log.len()), (Revision(40), 2 * one, 2));
    assert_eq!(
        (after(&log, 39), after(&log, 40), after(&log, 50)),
        (None, Some(vec![50, 60]), Some(vec![60]))
    );
    assert!(!log.is_expired(Instant::now() - Duration::from_secs(1)));
    let later = Instant::now() + Duration::from_secs(1);
    assert!(log.is_expired(later));
    assert_eq!(log.trim(Some(later), 0).bytes, 2 * one);
    assert_eq!((log.start(), log.bytes(), log.len()), (Revision(60), 0, 0));
    assert_eq!(after(&log, 60), Some(vec![]));
    assert_eq!(after(&log, 99), Some(vec![]));
}

#[test]
fn trimming_takes_as_many_pieces_as_it_has_to() {
    let revisions: Vec<u64> = (11..311).collect();
    let mut log = log(&revisions);
    let one = log.bytes() / 300;
    assert_eq!(log.trim(None, 4 * one + 1).bytes, 12 * one);
    assert_eq!((log.start(), pieces(&log).len()), (Revision(22), 6));
    assert_eq!(log.trim(None, usize::MAX).bytes, 288 * one);
    assert_eq!((log.start(), log.bytes(), log.len()), (Revision(310), 0, 0));
}

#[test]
fn forgetting_moves_the_start_past_the_newest_change() {
    let mut log = log(&[11, 20, 30, 40, 50, 60]);
    let one = log.bytes() / 6;
    assert_eq!(log.forget(Revision(25)).bytes, 0, "its piece has more");
    assert_eq!((after(&log, 24), after(&log, 25)), (None, Some(vec![30, 40, 50, 60])));
    assert_eq!(log.forget(Revision(55)).bytes, 4 * one);
    assert_eq!((after(&log, 54), after(&log, 55)), (None, Some(vec![60])));
    assert_eq!(log.forget(Revision(5)).bytes, 0);
    assert_eq!(log.start(), Revision(55));
    assert_eq!(log.forget(Revision(70)).bytes, 2 * one);
    assert_eq!((log.start(), log.bytes(), log.len()), (Revision(70), 0, 0));
}

#[test]
fn a_reader_keeps_its_piece_after_the_log_is_trimmed() {
    let mut log = log(&[11, 20, 30, 40, 50, 60]);
    let ranges: Vec<PieceRange> = log.ranges(Revision(20)).unwrap().chain(log.range(Revision(20))).collect();
    assert!(log.range(Revision(21)).is_none());
    drop(log.trim(None, usize::MAX));
    assert!(log.ranges(Revision(20)).is_none() && log.range(Revision(20)).is_none());
    let read =
        |range: &PieceRange| range.places.clone().map(|at| range.piece.get(at).unwrap().revision.0).collect();
    let read: Vec<Vec<u64>> = ranges.iter().map(read).collect();
    assert_eq!(read, [vec![30, 40], vec![50, 60], vec![20]]);
}
