use super::*;
use tempfile::TempDir;

fn names(folder: &TempDir) -> Vec<String> {
    let entries = fs::read_dir(folder.path()).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn log(folder: &TempDir, options: LogOptions) -> Rotated {
    Rotated::open(&options, &folder.path().join("audit.log")).unwrap()
}

#[test]
fn a_file_at_its_limit_is_kept_under_another_name() {
    let folder = TempDir::new().unwrap();
    let log = log(&folder, LogOptions { max_size: 1, ..LogOptions::default() });
    let line = vec![b'a'; 700 << 10];
    log.write(&line).unwrap();
    log.write(&line).unwrap();
    let names = names(&folder);
    assert_eq!(names.len(), 2, "{names:?}");
    let time = names[0].strip_prefix("audit-").and_then(|rest| rest.strip_suffix(".log")).unwrap();
    assert!(is_time(time), "{time}");
    for name in &names {
        let found = fs::metadata(folder.path().join(name)).unwrap();
        assert_eq!(found.len(), line.len() as u64);
        assert_eq!(found.permissions().mode() & 0o777, 0o600);
    }
    assert_eq!(
        log.write(&vec![b'a'; 2 << 20]).unwrap_err().to_string(),
        "write length 2097152 exceeds maximum file size 1048576"
    );
}

#[test]
fn what_is_there_already_counts_for_the_limit() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("audit.log"), vec![b'a'; 1 << 20]).unwrap();
    log(&folder, LogOptions { max_size: 1, ..LogOptions::default() }).write(b"b\n").unwrap();
    assert_eq!(names(&folder).len(), 2);
    assert_eq!(fs::read(folder.path().join("audit.log")).unwrap(), b"b\n");
}

#[test]
fn kept_files_are_bounded_by_number_and_age_and_compressed() {
    let folder = TempDir::new().unwrap();
    let options = LogOptions { max_backups: 3, max_age: 2, compress: true, ..LogOptions::default() };
    let log = log(&folder, options);
    for name in [
        "audit-2024-03-01T00-00-00.000.log",
        "audit-2024-03-06T00-00-00.000.log.gz",
        "audit-2024-03-07T00-00-00.000.log",
        "audit-2024-03-09T00-00-00.000.log",
        "audit-2024-03-09T12-00-00.000.log",
        "audit-something.log",
        "other-2024-03-01T00-00-00.000.log",
    ] {
        fs::write(folder.path().join(name), name).unwrap();
    }
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_710_028_800); // 2024-03-10
    log.tidy(now).unwrap();
    let compressed = "audit-2024-03-09T00-00-00.000.log.gz";
    assert_eq!(
        names(&folder),
        [
            compressed,
            "audit-2024-03-09T12-00-00.000.log.gz",
            "audit-something.log",
            "audit.log",
            "other-2024-03-01T00-00-00.000.log",
        ]
    );
    let mut text = String::new();
    let file = File::open(folder.path().join(compressed)).unwrap();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    assert_eq!(text, "audit-2024-03-09T00-00-00.000.log");
}

#[test]
fn a_write_that_fails_leaves_no_half_line() {
    let folder = TempDir::new().unwrap();
    let log = log(&folder, LogOptions::default());
    log.write(b"first\n").unwrap();
    // A file that is open for reading only takes nothing.
    let path = folder.path().join("audit.log");
    let known = log.open.lock().unwrap().replace(Open { file: File::open(&path).unwrap(), size: 6 });
    log.write(b"second\n").unwrap_err();
    *log.open.lock().unwrap() = known;
    log.write(b"third\n").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"first\nthird\n");
}
