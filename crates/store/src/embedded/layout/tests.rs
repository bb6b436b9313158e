use super::*;

fn head(create: u64, modified: u64) -> Head {
    Head { create_revision: Revision(create), mod_revision: Revision(modified) }
}

fn logged(previous: Option<Head>) -> Logged {
    let key = Key::try_from("pods/default/web-1").unwrap();
    Logged { key, kind: ChangeKind::Put, head: head(3, 9), previous }
}

#[test]
fn versions_of_a_key_lie_newest_first_and_keys_in_order() {
    let rows = [
        index_key(b"a", Revision(7)),
        index_key(b"a", Revision(2)),
        index_key(b"a-b", Revision(9)),
        index_key(b"a/b", Revision(1)),
        index_key(b"ab", Revision(1)),
    ];
    let mut sorted = rows.clone();
    sorted.sort();
    assert_eq!(rows, sorted);
    let (key, revision) = parse_index_key(&Bytes::from(rows[0].clone())).unwrap();
    assert_eq!((key.as_ref(), revision), (&b"a"[..], Revision(7)));
}

fn read(key: &[u8], row: impl Into<Bytes>) -> Option<Version> {
    parse_version_row(key, Revision(9), row.into())
}

#[test]
fn versions_come_back() {
    let key = index_key(b"a", Revision(9));
    for (kind, value) in [(ChangeKind::Put, "a value"), (ChangeKind::Put, ""), (ChangeKind::Delete, "")] {
        let row = version_row(&key, kind, &head(3, 9), Some(value.as_bytes()));
        let version = read(&key, row).unwrap();
        assert_eq!((version.kind, version.head), (kind, head(3, 9)));
        assert_eq!(version.value, value);
    }
}

#[test]
fn a_version_that_has_lost_its_value_reads_as_damaged() {
    let key = index_key(b"a", Revision(9));
    assert!(read(&key, version_row(&key, ChangeKind::Put, &head(3, 9), None)).is_none());
    assert!(read(&key, version_row(&key, ChangeKind::Delete, &head(3, 9), None)).is_some());
}

#[test]
fn log_rows_come_back_with_their_previous_heads() {
    let key = numbered(LOG, Revision(9));
    for previous in [None, Some(head(3, 4))] {
        let logged = logged(previous);
        let row = Bytes::from(log_row(&key, &logged));
        assert_eq!(parse_log_row(&key, &row), Some(logged));
    }
}

#[test]
fn a_flipped_bit_anywhere_in_a_row_is_noticed() {
    let index = index_key(b"a", Revision(9));
    let log = numbered(LOG, Revision(9));
    let version_row = version_row(&index, ChangeKind::Put, &head(3, 9), Some(b"a value"));
    let log_row = log_row(&log, &logged(Some(head(3, 4))));
    let state_row = state_row(&Reach { compacted: Revision(5), swept: Revision(4) });
    for bit in 0..8 * log_row.len() {
        let flip = |row: &[u8]| {
            let mut row = row.to_vec();
            let place = bit / 8 % row.len();
            row[place] ^= 1 << (bit % 8);
            Bytes::from(row)
        };
        assert!(read(&index, flip(&version_row)).is_none());
        assert_eq!(parse_log_row(&log, &flip(&log_row)), None);
        assert_eq!(parse_state_row(&flip(&state_row)), None);
    }
}

#[test]
fn a_version_belongs_to_its_key_and_revision() {
    let key = index_key(b"a", Revision(9));
    let row = version_row(&key, ChangeKind::Put, &head(3, 9), Some(b"a value"));
    assert!(read(&key, row.clone()).is_some());
    assert!(read(&index_key(b"b", Revision(9)), row.clone()).is_none());
    assert!(read(&index_key(b"a", Revision(8)), row).is_none());
}

#[test]
fn rows_cut_short_are_noticed() {
    let key = numbered(LOG, Revision(9));
    let row = log_row(&key, &logged(None));
    for len in 0..row.len() {
        assert_eq!(parse_log_row(&key, &Bytes::copy_from_slice(&row[..len])), None);
    }
    assert!(read(&index_key(b"a", Revision(9)), &b"short"[..]).is_none());
}
