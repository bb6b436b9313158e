//! Compressed pieces of a document, from which the whole is put together without compressing it again.
//!
//! A piece is a run of deflate blocks that ends at a whole byte and refers to nothing before it. Runs can
//! follow each other in any order: what is left to make is the frame of gzip, with a checksum that follows
//! from those of the pieces.

use flate2::write::{DeflateDecoder, DeflateEncoder};
use flate2::{Compression, Crc};
use std::io::Write;

/// A part of a document, compressed.
pub(crate) struct Piece {
    deflated: Box<[u8]>,
    checksum: Crc,
    /// The length before compression.
    pub(crate) length: usize,
}

impl Piece {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        let mut encoder =
            DeflateEncoder::new(Vec::with_capacity(bytes.len() / 8 + 16), Compression::default());
        // Writing into memory does not fail.
        let _ = encoder.write_all(bytes).and_then(|()| encoder.flush());
        let mut checksum = Crc::new();
        checksum.update(bytes);
        Self { deflated: encoder.get_ref().as_slice().into(), checksum, length: bytes.len() }
    }
}

/// A document under construction.
pub(crate) struct Gzip {
    out: Vec<u8>,
    checksum: Crc,
}

/// The header of gzip: without a name, a time or a system.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
/// The last block, which is empty.
const LAST_BLOCK: [u8; 2] = [3, 0];

impl Gzip {
    /// An empty document, with memory for about so many bytes.
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        let mut out = Vec::with_capacity(capacity);
        out.extend_from_slice(&HEADER);
        Self { out, checksum: Crc::new() }
    }

    pub(crate) fn add(&mut self, piece: &Piece) {
        self.out.extend_from_slice(&piece.deflated);
        self.checksum.combine(&piece.checksum);
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.out.extend_from_slice(&LAST_BLOCK);
        self.out.extend_from_slice(&self.checksum.sum().to_le_bytes());
        self.out.extend_from_slice(&self.checksum.amount().to_le_bytes());
        self.out
    }
}

impl Piece {
    /// The bytes before compression.
    pub(crate) fn plain(&self) -> Vec<u8> {
        let mut decoder = DeflateDecoder::new(Vec::with_capacity(self.length));
        let written = decoder.write_all(&self.deflated).and_then(|()| decoder.write_all(&LAST_BLOCK));
        // Writing into memory does not fail.
        written.and_then(|()| decoder.finish()).unwrap_or_default()
    }

    /// The memory that the piece takes.
    pub(crate) fn size(&self) -> usize {
        self.deflated.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::GzDecoder;
    use std::io::Read;

    #[test]
    fn pieces_in_any_order_are_one_gzip_document() {
        let long = "long ".repeat(50_000);
        let pieces = ["a", "", &long, "b"].map(|text| Piece::new(text.as_bytes()));
        for (piece, text) in pieces.iter().zip(["a", "", &long, "b"]) {
            assert!(piece.plain() == text.as_bytes());
        }
        for order in [[0, 1, 2, 3], [2, 2, 0, 3], [3, 2, 1, 0]] {
            let mut gzip = Gzip::with_capacity(16);
            order.iter().for_each(|at| gzip.add(&pieces[*at]));
            let mut text = String::new();
            GzDecoder::new(gzip.finish().as_slice()).read_to_string(&mut text).unwrap();
            let wanted: String = order.map(|at| ["a", "", &long, "b"][at]).concat();
            assert!(text == wanted, "{order:?}");
        }
    }
}
