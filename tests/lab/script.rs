//! SIPp scenarios, step by step.
//!
//! SIPp wants XML with whole messages in it; a [`Script`] writes both, so that a test reads as the
//! conversation that it is.

use std::fmt::Write as _;

/// A scenario under construction.
#[derive(Clone, Debug)]
pub struct Script {
    xml: String,
    /// SIPp numbers its steps; branches are named by them.
    step: usize,
    /// Step of the latest INVITE sent.
    invite: usize,
    is_peer: bool,
    /// The INVITE's headers are kept for a reply after other requests.
    keeps: bool,
}

const OFFER: &str = "v=0\no=user 53655765 2353687637 IN IP[local_ip_type] [local_ip]\ns=-\nc=IN IP[media_ip_type] [media_ip]\nt=0 0\n\
                     m=audio [media_port] RTP/AVP 8\na=rtpmap:8 PCMA/8000\n";
const CONTACT: &str = "Contact: <sip:user@[local_ip]:[local_port]>\n";

impl Script {
    /// Of a caller.
    pub fn caller() -> Self {
        let xml = "<?xml version=\"1.0\" encoding=\"ISO-8859-1\" ?>\n<scenario name=\"script\">\n".to_owned();
        Self { xml, step: 0, invite: 0, is_peer: false, keeps: false }
    }

    /// Of a peer. It answers OPTIONS probes, too.
    pub fn peer() -> Self {
        let mut script = Self { is_peer: true, ..Self::caller() };
        script.push("<recv request=\"OPTIONS\" optional=\"true\" next=\"1\"/>\n");
        script
    }

    fn push(&mut self, xml: &str) {
        self.xml.push_str(xml);
        self.step += 1;
    }

    fn message(&mut self, attributes: &str, text: &str) {
        self.push(&format!("<send{attributes}><![CDATA[\n{text}\n]]></send>\n"));
    }

    fn own_tag(&self) -> &'static str {
        if self.is_peer { "[pid]s[call_number]" } else { "[pid]c[call_number]" }
    }

    /// A request outside a dialog. INVITE carries an offer.
    #[must_use]
    pub fn send(mut self, method: &str, headers: &str) -> Self {
        let body = if method == "INVITE" { OFFER } else { "" };
        let kind = if body.is_empty() { "" } else { "Content-Type: application/sdp\n" };
        if method == "INVITE" {
            self.invite = self.step;
        }
        let tag = self.own_tag();
        let text = format!(
            "{method} sip:service@[remote_ip]:[remote_port] SIP/2.0\n\
             Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]\n\
             From: caller <sip:user@[local_ip]:[local_port]>;tag={tag}\n\
             To: service <sip:service@[remote_ip]:[remote_port]>\nCall-ID: [call_id]\nCSeq: 1 {method}\n\
             {CONTACT}Max-Forwards: 70\n{headers}{kind}Content-Length: [len]\n\n{body}"
        );
        self.message(" retrans=\"500\"", &text);
        self
    }

    /// A caller's request within the dialog, over its route set.
    #[must_use]
    pub fn send_in_dialog(mut self, method: &str, cseq: u32, headers: &str) -> Self {
        let body = if method == "INVITE" { OFFER } else { "" };
        let kind = if body.is_empty() { "" } else { "Content-Type: application/sdp\n" };
        let repeat = if method == "ACK" { "" } else { " retrans=\"500\"" };
        if method == "INVITE" {
            self.invite = self.step;
        }
        let text = format!(
            "{method} [next_url] SIP/2.0\nVia: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]\n[routes]\n\
             From: caller <sip:user@[local_ip]:[local_port]>;tag={}\n\
             To: service <sip:service@[remote_ip]:[remote_port]>[peer_tag_param]\nCall-ID: [call_id]\nCSeq: {cseq} {method}\n\
             {CONTACT}Max-Forwards: 70\n{headers}{kind}Content-Length: [len]\n\n{body}",
            self.own_tag()
        );
        self.message(repeat, &text);
        self
    }

    /// A peer's request within the dialog, over its route set.
    #[must_use]
    pub fn send_back(mut self, method: &str, cseq: u32) -> Self {
        let repeat = if method == "ACK" { "" } else { " retrans=\"500\"" };
        let text = format!(
            "{method} [next_url] SIP/2.0\nVia: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]\n[routes]\n\
             From:[$to];tag={}\nTo:[$from]\nCall-ID: [call_id]\nCSeq: {cseq} {method}\n\
             {CONTACT}Max-Forwards: 70\nEvent: refer\nSubscription-State: active\nContent-Length: 0\n",
            self.own_tag()
        );
        self.message(repeat, &text);
        self
    }

    /// CANCEL of the latest INVITE, with its branch.
    #[must_use]
    pub fn cancel(self) -> Self {
        self.hop_by_hop("CANCEL", "To: service <sip:service@[remote_ip]:[remote_port]>")
    }

    /// ACK of a final response other than 2xx, with the INVITE's branch.
    #[must_use]
    pub fn ack_refusal(self) -> Self {
        self.hop_by_hop("ACK", "[last_To:]")
    }

    fn hop_by_hop(mut self, method: &str, to: &str) -> Self {
        let back = self.step - self.invite;
        let text = format!(
            "{method} sip:service@[remote_ip]:[remote_port] SIP/2.0\n\
             Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch-{back}]\n\
             From: caller <sip:user@[local_ip]:[local_port]>;tag={}\n{to}\nCall-ID: [call_id]\nCSeq: 1 {method}\n\
             Max-Forwards: 70\nContent-Length: 0\n",
            self.own_tag()
        );
        self.message("", &text);
        self
    }

    /// A response that must come; its route set and tag are kept.
    #[must_use]
    pub fn expect(mut self, status: u16) -> Self {
        self.push(&format!("<recv response=\"{status}\" rrs=\"true\" timeout=\"20000\"/>\n"));
        self
    }

    /// A response that may come.
    #[must_use]
    pub fn optional(mut self, status: u16) -> Self {
        self.push(&format!("<recv response=\"{status}\" optional=\"true\"/>\n"));
        self
    }

    /// A request that must come. What a reply to an INVITE needs is kept, for [`Script::reply_to_invite`].
    #[must_use]
    pub fn receive(mut self, method: &str) -> Self {
        if method != "INVITE" || self.keeps {
            self.push(&format!("<recv request=\"{method}\" timeout=\"20000\"/>\n"));
            return self;
        }
        self.keeps = true;
        let mut xml = "<recv request=\"INVITE\" rrs=\"true\"><action>\n".to_owned();
        for (header, occurrence, variable) in [
            ("Via", 1, "via1"),
            ("Via", 2, "via2"),
            ("Record-Route", 1, "rr1"),
            ("Record-Route", 2, "rr2"),
            ("From", 1, "from"),
            ("To", 1, "to"),
            ("CSeq", 1, "cseq"),
        ] {
            let _ = writeln!(
                xml,
                "<ereg regexp=\".*\" search_in=\"hdr\" header=\"{header}:\" occurrence=\"{occurrence}\" assign_to=\"{variable}\"/>"
            );
        }
        self.push(&(xml + "</action></recv>\n"));
        self
    }

    /// Replies to the request that came last. A 200 to INVITE carries an answer.
    #[must_use]
    pub fn reply(mut self, status: u16, headers: &str) -> Self {
        let tag = self.own_tag();
        self.message(
            "",
            &format!(
                "SIP/2.0 {status} Reply\n[last_Via:]\n[last_From:]\n[last_To:];tag={tag}\n[last_Call-ID:]\n[last_CSeq:]\n\
                 [last_Record-Route:]\n{CONTACT}{headers}Content-Length: 0\n"
            ),
        );
        self
    }

    /// Replies to a request within the dialog, whose To has its tag already.
    #[must_use]
    pub fn reply_in_dialog(mut self, status: u16) -> Self {
        self.message(
            "",
            &format!(
                "SIP/2.0 {status} Reply\n[last_Via:]\n[last_From:]\n[last_To:]\n[last_Call-ID:]\n[last_CSeq:]\n{CONTACT}Content-Length: 0\n"
            ),
        );
        self
    }

    /// Replies to the INVITE, although other requests came after it. A final reply is repeated until its
    /// ACK comes; 200 carries an answer.
    #[must_use]
    pub fn reply_to_invite(mut self, status: u16, headers: &str) -> Self {
        let body = if status == 200 { OFFER } else { "" };
        let kind = if body.is_empty() { "" } else { "Content-Type: application/sdp\n" };
        let tag = self.own_tag();
        let text = format!(
            "SIP/2.0 {status} Reply\nVia:[$via1]\nVia:[$via2]\nFrom:[$from]\nTo:[$to];tag={tag}\n[last_Call-ID:]\nCSeq:[$cseq]\n\
             Record-Route:[$rr1]\nRecord-Route:[$rr2]\n{CONTACT}{headers}{kind}Content-Length: [len]\n\n{body}"
        );
        self.message(if status >= 200 { " retrans=\"500\"" } else { "" }, &text);
        self
    }

    /// Waits.
    #[must_use]
    pub fn pause(mut self, milliseconds: u32) -> Self {
        self.push(&format!("<pause milliseconds=\"{milliseconds}\"/>\n"));
        self
    }

    /// The scenario.
    pub fn finish(mut self) -> String {
        if self.is_peer {
            self.xml.push_str("<nop next=\"2\"/>\n<label id=\"1\"/>\n");
            let tag = self.own_tag();
            self.message(
                "",
                &format!(
                    "SIP/2.0 200 OK\n[last_Via:]\n[last_From:]\n[last_To:];tag={tag}\n[last_Call-ID:]\n[last_CSeq:]\nContent-Length: 0\n"
                ),
            );
            self.xml.push_str("<label id=\"2\"/>\n");
        }
        if self.keeps {
            self.xml.push_str("<Reference variables=\"via1,via2,rr1,rr2,from,to,cseq\"/>\n");
        }
        self.xml + "</scenario>\n"
    }
}
