use super::*;

fn headers(all: &[(&'static str, &'static str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in all {
        headers.append(*name, HeaderValue::from_static(value));
    }
    headers
}

/// A frame as a client sends it.
fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
    let mask = [1, 2, 3, 4];
    let mut payload = payload.to_vec();
    unmask(&mut payload, mask, 0);
    let mut frame = vec![first];
    match payload.len() {
        short @ ..=125 => frame.push(0x80 | short as u8),
        length => {
            frame.push(0x80 | 127);
            frame.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    frame.extend(mask);
    frame.extend(payload);
    frame
}

async fn read(bytes: &[u8]) -> Result<Vec<Piece>, Error> {
    let mut reader = Reader::new(bytes);
    let mut pieces = Vec::new();
    while let Some(piece) = reader.next().await? {
        pieces.push(piece);
    }
    Ok(pieces)
}

fn data(starts: bool, data: &[u8]) -> Piece {
    Piece::Data { is_binary: true, starts, data: data.to_vec() }
}

#[test]
fn accept_is_the_one_of_the_specification() {
    let key = "dGhlIHNhbXBsZSBub25jZQ==";
    let accepted = accept(&headers(&[("sec-websocket-key", key), ("sec-websocket-version", "13")]));
    assert_eq!(accepted.unwrap(), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    for bad in [
        &[("sec-websocket-key", key)][..],
        &[("sec-websocket-key", key), ("sec-websocket-version", "8")],
        &[("sec-websocket-key", "short"), ("sec-websocket-version", "13")],
    ] {
        assert_eq!(accept(&headers(bad)), None);
    }
}

#[test]
fn upgrade_may_be_one_of_several_connection_options() {
    assert!(is_request(&headers(&[("connection", "keep-alive, Upgrade"), ("upgrade", "WebSocket")])));
    assert!(is_upgrade(&headers(&[("connection", "keep-alive"), ("connection", "upgrade")])));
    assert!(!is_request(&headers(&[("connection", "Upgrade"), ("upgrade", "SPDY/3.1")])));
    assert!(!is_request(&headers(&[("upgrade", "websocket")])));
    let offered = headers(&[("sec-websocket-protocol", "a, b,"), ("sec-websocket-protocol", " c ")]);
    assert_eq!(protocols(&offered).collect::<Vec<_>>(), ["a", "b", "c"]);
}

#[test]
fn lengths_of_frames_take_as_many_bytes_as_they_need() {
    assert_eq!(frame(Opcode::Binary, &[b"a", b"bc"]), b"\x82\x03abc");
    assert_eq!(frame(Opcode::Text, &[&[7; 126]])[..4], [0x81, 126, 0, 126]);
    assert_eq!(frame(Opcode::Binary, &[&[7; 1 << 16]])[..10], [0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0]);
    assert_eq!(normal_close(), [0x88, 2, 3, 232]);
}

#[tokio::test]
async fn messages_come_in_pieces_with_control_frames_between() {
    let mut sent = masked(0x02, b"one ");
    sent.extend(masked(0x89, b"ping"));
    sent.extend(masked(0x80, b"message"));
    sent.extend(masked(0x82, &[9; PIECE + 3]));
    sent.extend(masked(0x82, b""));
    sent.extend(masked(0x88, b""));
    let wanted = [
        data(true, b"one "),
        Piece::Ping(b"ping".to_vec()),
        data(false, b"message"),
        data(true, &[9; PIECE]),
        data(false, &[9; 3]),
        data(true, b""),
        Piece::Close,
    ];
    assert_eq!(read(&sent).await.unwrap(), wanted);
}

#[tokio::test]
async fn frames_that_break_the_protocol_end_the_connection() {
    for (sent, why) in [
        (frame(Opcode::Binary, &[b"a"]), "not masked"),
        (masked(0xc2, b"a"), "reserved"),
        (masked(0x80, b"a"), "not of the message before"),
        ([masked(0x02, b"a"), masked(0x82, b"b")].concat(), "not of the message before"),
        (masked(0x09, b"a"), "too long"),
        (masked(0x89, &[0; 126]), "too long"),
        (masked(0x8b, b""), "unknown"),
        (masked(0x82, b"abc")[..8].to_vec(), "end of file"),
    ] {
        let error = read(&sent).await.unwrap_err().to_string();
        assert!(error.contains(why), "{error}: {why}");
    }
}
