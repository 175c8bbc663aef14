//! The torture messages of RFC 4475 and RFC 5118 and what a proxy owes each of them. The reasons are in
//! the README files of the corpus.

use std::{fs, path::Path};

/// What becomes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Sent on to a peer.
    Forward,
    /// Answered with this status.
    Refuse(u16),
    /// Counted and dropped: a response that nobody asked for, or that cannot be read.
    Drop,
}

use Verdict::{Drop, Forward, Refuse};

/// RFC 4475 section 3.
pub const RFC4475: [(&str, Verdict); 49] = [
    ("wsinv", Forward),
    ("intmeth", Forward),
    ("esc01", Forward),
    ("escnull", Forward),
    ("esc02", Forward),
    ("lwsdisp", Forward),
    ("longreq", Forward),
    ("dblreq", Forward),
    ("semiuri", Forward),
    ("transports", Forward),
    ("mpart01", Forward),
    ("unreason", Drop),
    ("noreason", Drop),
    ("badinv01", Refuse(400)),
    ("clerr", Refuse(400)),
    ("ncl", Refuse(400)),
    ("scalar02", Refuse(400)),
    ("scalarlg", Drop),
    ("quotbal", Refuse(400)),
    ("ltgtruri", Refuse(400)),
    ("lwsruri", Refuse(400)),
    ("lwsstart", Refuse(400)),
    ("trws", Refuse(400)),
    ("escruri", Refuse(400)),
    ("baddate", Forward),
    ("regbadct", Refuse(400)),
    ("badaspec", Refuse(400)),
    ("baddn", Refuse(400)),
    ("badvers", Refuse(505)),
    ("mismatch01", Refuse(400)),
    ("mismatch02", Refuse(400)),
    ("bigcode", Drop),
    ("badbranch", Forward),
    ("insuf", Refuse(400)),
    ("unkscm", Refuse(416)),
    ("novelsc", Refuse(416)),
    ("unksm2", Forward),
    ("bext01", Refuse(420)),
    ("invut", Forward),
    ("regaut01", Forward),
    ("multi01", Refuse(400)),
    ("mcl01", Refuse(400)),
    ("bcast", Drop),
    ("zeromf", Refuse(483)),
    ("cparam01", Forward),
    ("cparam02", Forward),
    ("regescrt", Forward),
    ("sdp01", Forward),
    ("inv2543", Forward),
];

/// RFC 5118 section 4.
pub const RFC5118: [(&str, Verdict); 12] = [
    ("ipv6-good", Forward),
    ("ipv6-bad", Refuse(400)),
    ("port-ambiguous", Forward),
    ("port-unambiguous", Forward),
    ("via-received-param-with-delim", Forward),
    ("via-received-param-no-delim", Forward),
    ("ipv6-in-sdp", Forward),
    ("mult-ip-in-header", Forward),
    ("mult-ip-in-sdp", Forward),
    ("ipv4-mapped-ipv6", Forward),
    ("ipv6-bug-abnf-3-colons", Refuse(400)),
    ("ipv6-correct-abnf-2-colons", Forward),
];

/// All messages with their names, bytes and verdicts.
///
/// # Panics
/// If the corpus is not there.
pub fn messages() -> Vec<(&'static str, Vec<u8>, Verdict)> {
    let read = |folder: &str, name: &str| {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus").join(folder);
        let path =
            [format!("{name}.dat"), name.to_owned()].iter().map(|n| corpus.join(n)).find(|p| p.exists());
        let path = path.unwrap_or_else(|| panic!("{name} is not in {}", corpus.display()));
        fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    };
    let of = |folder: &'static str, list: &'static [(&str, Verdict)]| {
        list.iter().map(move |(name, verdict)| (*name, read(folder, name), *verdict))
    };
    of("rfc4475", &RFC4475).chain(of("rfc5118", &RFC5118)).collect()
}
