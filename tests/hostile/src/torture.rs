//! The torture messages of RFC 4475 and RFC 5118, the inputs of known faults, and what a proxy owes each
//! of them. The reasons are in the README files of the corpus.

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

/// Single datagrams of the faults known of comparable systems.
pub const KNOWN_FAULTS: [(&str, Verdict); 60] = [
    ("B02-no-line-ends", Drop),
    ("B03-no-from-no-callid", Refuse(400)),
    ("B05-empty-via", Drop),
    ("B05-no-via", Drop),
    ("B05-via-no-host", Drop),
    ("B06-one-via-response", Drop),
    ("B104-mf-0", Refuse(483)),
    ("B104-mf-1", Forward),
    ("B104-mf-256", Refuse(400)),
    ("B105-no-max-forwards", Forward),
    ("B111-two-c-lines-hold", Forward),
    ("B113-ip6-offer", Forward),
    ("B40-all-compact", Forward),
    ("B42-compact-content-type", Forward),
    ("B44-startline-only-no-eol", Drop),
    ("B44-ws-before-colon", Forward),
    ("B45-empty-warning", Drop),
    ("B46-folded", Forward),
    ("B78-strict-next-hop", Forward),
    ("B85-ack-new-branch", Drop),
    ("B86-content-length-empty", Refuse(400)),
    ("B86-content-length-hex", Refuse(400)),
    ("B86-content-length-huge", Refuse(400)),
    ("B86-content-length-negative", Refuse(400)),
    ("B86-content-length-plus", Refuse(400)),
    ("B86-content-length-space-inside", Refuse(400)),
    ("B86-content-length-text", Refuse(400)),
    ("B88-trailing-octets", Forward),
    ("B89-cl-last-no-crlf", Refuse(400)),
    ("B90-cl-too-small", Forward),
    ("X01-invite-ob-only", Forward),
    ("X02-dead-flow-token", Forward),
    ("X03-register-outbound", Forward),
    ("X03-register-second-hop", Forward),
    ("X13-crlf", Drop),
    ("X13-empty", Drop),
    ("X13-four-nul", Drop),
    ("X13-lf-only", Drop),
    ("X13-zeros-text", Drop),
    ("X15-rport", Forward),
    ("X19-invite-4k", Forward),
    ("X19-invite-64k", Forward),
    ("X21-ipv6-ruri-no-brackets", Refuse(400)),
    ("X22-received-bare", Forward),
    ("X22-received-bracketed", Forward),
    // Several consecutive ports: refused rather than anchored by halves.
    ("X39-port-count", Refuse(488)),
    ("X40-blank-lines-in-sdp", Forward),
    ("X41-rtcp-no-address", Forward),
    ("X43-http-get", Drop),
    ("X43-rtp-on-sip-port", Drop),
    ("X43-ssdp-notify", Drop),
    ("X43-stun-binding", Drop),
    ("X44-truncated-body", Refuse(400)),
    ("X48-bracket-in-display", Forward),
    ("X48-comma-in-quoted-param", Forward),
    ("X48-empty-display", Forward),
    ("X49-semicolon-user", Forward),
    ("X50-hash-in-contact", Forward),
    ("X57-branch-0", Forward),
    ("X59-long-branch", Forward),
];

/// All messages with their names, bytes and verdicts.
///
/// # Panics
/// If the corpus is not there.
pub fn messages() -> Vec<(&'static str, Vec<u8>, Verdict)> {
    let read = |folder: &str, name: &str| {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus").join(folder);
        let path = ["", ".dat", ".sip", ".bin"].map(|end| corpus.join(format!("{name}{end}")));
        let path = path.into_iter().find(|p| p.exists());
        let path = path.unwrap_or_else(|| panic!("{name} is not in {}", corpus.display()));
        fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    };
    let of = |folder: &'static str, list: &'static [(&str, Verdict)]| {
        list.iter().map(move |(name, verdict)| (*name, read(folder, name), *verdict))
    };
    let rfcs = of("rfc4475", &RFC4475).chain(of("rfc5118", &RFC5118));
    rfcs.chain(of("known-faults", &KNOWN_FAULTS)).collect()
}
