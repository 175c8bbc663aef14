//! The byte streams of known faults, through the framer.

use sip::framer::{Broken, Frame, Framer};
use std::{fs, path::PathBuf};

/// A stream in the pieces it arrives in.
fn pieces(name: &str) -> Vec<Vec<u8>> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../corpus/known-faults").join(name);
    if path.is_file() {
        return vec![fs::read(path).expect("a file")];
    }
    let mut files: Vec<_> = fs::read_dir(path).expect(name).map(|e| e.expect("an entry").path()).collect();
    files.sort();
    files.iter().map(|f| fs::read(f).expect("a file")).collect()
}

/// Messages found and pings, or why the stream is closed.
fn frames(pieces: &[Vec<u8>]) -> Result<(Vec<Vec<u8>>, usize), Broken> {
    let (mut framer, mut held, mut messages, mut pings) = (Framer::default(), Vec::new(), Vec::new(), 0);
    for piece in pieces {
        held.extend_from_slice(piece);
        loop {
            let used = match framer.next(&held)? {
                Frame::Message(n) => {
                    messages.push(held[..n].to_vec());
                    n
                }
                Frame::Ping(n) => {
                    pings += 1;
                    n
                }
                Frame::Filler(n) => n,
                Frame::Incomplete => break,
            };
            held.drain(..used);
        }
    }
    Ok((messages, pings))
}

fn bytes(pieces: &[Vec<u8>]) -> Vec<Vec<u8>> {
    pieces.concat().iter().map(|b| vec![*b]).collect()
}

#[test]
fn known_streams_are_cut_into_their_messages_however_they_arrive() {
    for (name, messages, pings) in [
        ("X06-crlfcrlf-in-body.tcp", 1, 0),
        ("X06-ping-split", 0, 1),
        ("X08-two-and-a-half", 3, 0),
        ("X10-crlf-after-body.tcp", 2, 1),
        ("X11-byte-by-byte.tcp", 1, 0),
        ("X11-first-20-bytes", 2, 0),
        ("X12-keepalive-with-nul.tcp", 1, 0),
    ] {
        let pieces = pieces(name);
        for pieces in [&pieces, &bytes(&pieces)] {
            let (found, pinged) = frames(pieces).unwrap_or_else(|e| panic!("{name}: {e:?}"));
            assert_eq!((found.len(), pinged), (messages, pings), "{name}");
            for message in found {
                let m = sip::Message::parse(&message).expect("a message");
                assert_eq!(m.defect, None, "{name}");
            }
        }
    }
    let pieces = pieces("X45-midstream-garbage.tcp");
    assert_eq!(frames(&pieces), Err(Broken::NotSip));
    assert_eq!(frames(&bytes(&pieces)), Err(Broken::NotSip));
}
