//! Media through the node on the XDP path, with user agents that are moved step by step: what each side is
//! shown, and whether every packet arrives as it was sent, from where it was announced, and nowhere else.

use anyhow::{Context as _, Result, ensure};
use lab::{
    TwoRegions,
    process::eventually,
    ua::{Agent, Media, Message, speech},
};
use std::{net::SocketAddr, time::Duration};

const CALLER: &str = "192.0.2.10";
const CALLEE: &str = "198.51.100.11";
const NODE: [&str; 2] = ["192.0.2.1:5060", "198.18.0.1:5060"];
const AUDIO: &str = "m=audio 4000 RTP/AVP 8 101\r\na=rtpmap:101 telephone-event/8000\r\n";
const ANSWER: &str = "m=audio 6000 RTP/AVP 8 101\r\na=rtpmap:101 telephone-event/8000\r\n";

/// The example of two regions, with settings of its own; its probes leave the agents alone.
fn config(media: &str, service: &str) -> String {
    lab::two_regions::a1_first()
        .replace("ports = \"20000-29999\"", &format!("ports = \"20000-29999\"\n{media}"))
        .replace("media = \"anchor\"", &format!("media = \"anchor\"\n{service}"))
        .replace("interval_ms = 500\ntimeout_ms = 300", "interval_ms = 3600000\ntimeout_ms = 300")
}

/// The laboratory with a caller and a callee.
struct Stage {
    caller: Agent,
    callee: Agent,
    /// Media sockets of the caller, port 4000, and the callee, port 6000.
    there: Media,
    here: Media,
    lab: TwoRegions,
}

impl Stage {
    fn new(media: &str) -> Result<Self> {
        Self::with(&config(media, ""))
    }

    fn with(config: &str) -> Result<Self> {
        let mut lab = TwoRegions::new(1)?;
        lab.start_node(config)?;
        Ok(Self {
            caller: Agent::new(&lab.carrier, &format!("{CALLER}:5070"), NODE[0])?,
            callee: Agent::new(lab.region('A'), &format!("{CALLEE}:5060"), NODE[1])?,
            here: Media::new(&lab.carrier, &format!("{CALLER}:4000"))?,
            there: Media::new(lab.region('A'), &format!("{CALLEE}:6000"))?,
            lab,
        })
    }

    /// A call, or a new offer within it.
    fn invite(&mut self, version: u32, offer: &str, answer: &str) -> Result<Path> {
        let (offer, answer) = (self.caller.sdp(version, offer), self.callee.sdp(version, answer));
        let (offered, answered) = self.caller.invite(&mut self.callee, &offer, &answer)?;
        Path::of(&offered, &answered, 0)
    }

    /// Speech both ways.
    fn talks(&self, path: Path, first: u32) -> Result<()> {
        self.here.passes(path.caller, &speech(first, 20), &self.there, path.callee)?;
        self.there.passes(path.callee, &speech(first + 1000, 20), &self.here, path.caller)
    }

    fn drops(&self, reason: &str) -> Result<u64> {
        Ok(self.lab.running().status()?["drops"][reason].as_u64().unwrap_or(0))
    }

    /// Ends the call; nothing is left of it.
    fn hang_up(&mut self) -> Result<()> {
        self.caller.hang_up(&mut self.callee)?;
        eventually("the ports are free", Duration::from_secs(5), || {
            let status = self.lab.running().status();
            status.is_ok_and(|s| s["workers"][0]["gauges"]["media_ports_in_use"] == 0)
        })?;
        self.lab.running().check_invariants()
    }
}

/// A stream's addresses on the node: where the caller sends, and where the callee does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Path {
    caller: SocketAddr,
    callee: SocketAddr,
}

impl Path {
    fn of(offered: &Message, answered: &Message, n: usize) -> Result<Self> {
        Ok(Self { caller: answered.media(n)?, callee: offered.media(n)? })
    }
}

/// A key pressed (RFC 4733): one timestamp, the end sent three times.
fn key(first: u32, code: u8) -> Vec<Vec<u8>> {
    let mut packets = speech(first, 6);
    for (n, packet) in packets.iter_mut().enumerate() {
        packet.truncate(12);
        packet[1] = if n == 0 { 0x80 | 101 } else { 101 };
        packet[4..8].copy_from_slice(&(first * 160).to_be_bytes());
        let end = if n > 2 { 0x80 } else { 0 };
        packet.extend_from_slice(&[code, end | 10, 0, (n.min(3) as u8 + 1) * 40]);
    }
    packets
}

fn rtcp(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip(), address.port() + 1)
}

#[test]
fn every_kind_of_packet_arrives_as_it_was_sent_and_garbage_does_not() -> Result<()> {
    let mut stage = Stage::new("")?;
    let (rtcp_here, rtcp_there) = (
        Media::new(&stage.lab.carrier, &format!("{CALLER}:4001"))?,
        Media::new(stage.lab.region('A'), &format!("{CALLEE}:6001"))?,
    );
    let path = stage.invite(1, AUDIO, ANSWER)?;
    ensure!(path.caller.ip().to_string() == "192.0.2.1" && path.callee.ip().to_string() == "198.18.0.1");
    stage.talks(path, 0)?;
    // Known fault B14: another source in the middle of a stream.
    let mut other = speech(500, 20);
    other.iter_mut().for_each(|packet| packet[8..12].copy_from_slice(b"else"));
    stage.here.passes(path.caller, &other, &stage.there, path.callee)?;
    // A sender report with a second packet that is longer than its datagram (X30), then what RFC 7983
    // tells apart, then extensions and padding that only their receiver can judge (X28, X29).
    let mut report = vec![0x80, 200, 0, 6];
    report.extend_from_slice(&[7; 24]);
    report.extend_from_slice(&[0x81, 202, 0, 99]);
    rtcp_here.passes(rtcp(path.caller), &[report], &rtcp_there, rtcp(path.callee))?;
    let mut stun = vec![0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42];
    stun.extend_from_slice(&[9; 12]);
    let dtls = [&[22, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4][..], &[1, 2, 3, 4]].concat();
    let zrtp = [&[0x10, 0, 0, 1][..], b"ZRTP", &[1; 20]].concat();
    let mut extended = speech(521, 1).remove(0);
    extended[0] = 0x90 | 0x20;
    extended.splice(12..12, [0xbe, 0xde, 0, 1, 0xf0, 0, 0, 0]);
    let last = extended.len() - 1;
    extended[last] = 0xff;
    stage.here.passes(path.caller, &[stun, dtls, zrtp, extended], &stage.there, path.callee)?;
    for (garbage, reason) in [
        (&b""[..], "media_keep_alive"),
        (&b"not media"[..], "media_malformed"),
        (&[0x80; 11], "media_malformed"),
        (&[0x8f; 30], "media_malformed"),
        (&[0xc0; 60], "media_malformed"),
        (&[0x80, 201, 0, 9, 1, 2, 3, 4], "media_malformed"),
    ] {
        let before = stage.drops(reason)?;
        stage.here.is_stopped(path.caller, garbage, &stage.there)?;
        ensure!(stage.drops(reason)? == before + 1, "{reason} counts {garbage:02x?}");
    }
    // A burst of one stream, without a pause.
    for packet in speech(600, 400) {
        stage.here.send(path.caller, &packet)?;
    }
    for (n, packet) in speech(600, 400).into_iter().enumerate() {
        let (got, _) = stage.there.receive(Duration::from_secs(1)).with_context(|| format!("packet {n}"))?;
        ensure!(got == packet, "packet {n} of the burst");
    }
    let packets = &stage.lab.running().status()?["media"]["packets"];
    ensure!(
        packets["rtcp"] == 1 && packets["stun"] == 1 && packets["dtls"] == 1 && packets["zrtp"] == 1,
        "{packets}"
    );
    stage.hang_up()
}

/// Known fault X26: one key press must not count three times because its packets were touched.
#[test]
fn captured_speech_and_keys_that_sipp_plays_arrive_as_captured() -> Result<()> {
    let mut stage = Stage::new("")?;
    let capture = [speech(0, 40), key(40, 5), speech(46, 20), key(66, 11), speech(72, 28)].concat();
    lab::sipp::write_capture(&stage.lab.scratch.path().join("audio.pcap"), &capture)?;
    let mut sipp = stage.lab.start_caller(lab::sipp::CALL, 5075, &["-m", "1", "-d", "2500"])?;
    let invite = stage.callee.expect("INVITE")?;
    let answer = stage.callee.sdp(1, ANSWER);
    stage.callee.reply(&invite, 200, "", &answer)?;
    stage.callee.expect("ACK")?;
    for (n, packet) in capture.iter().enumerate() {
        let (got, from) =
            stage.there.receive(Duration::from_secs(1)).with_context(|| format!("packet {n}"))?;
        ensure!(got == *packet, "packet {n}: {got:02x?} for {packet:02x?}");
        ensure!(from == invite.media(0)?, "from the port that the SDP named");
    }
    let bye = stage.callee.expect("BYE")?;
    stage.callee.reply(&bye, 200, "", "")?;
    let calls = sipp.wait(Duration::from_secs(5))?;
    ensure!(calls.successful == 1, "{calls:?} {}", sipp.errors());
    stage.lab.running().check_invariants()
}

#[test]
fn a_call_is_held_and_resumed_and_changes_its_codec_and_address() -> Result<()> {
    let mut stage = Stage::new("")?;
    let path = stage.invite(1, AUDIO, ANSWER)?;
    stage.talks(path, 0)?;
    // On hold by direction: music may come from the one who holds.
    let held = stage.invite(2, &format!("{AUDIO}a=sendonly\r\n"), &format!("{ANSWER}a=recvonly\r\n"))?;
    ensure!(held == path, "the ports stay: {held:?}, {path:?}");
    stage.here.passes(path.caller, &speech(100, 5), &stage.there, path.callee)?;
    let call_id = stage.caller.call_id().to_owned();
    let shown = stage.lab.running().tell(&["calls", &call_id])?;
    ensure!(shown.contains("media hold") && shown.contains("from callee"), "{shown}");
    // On hold by an unspecified address: nothing is sent there, and the callee sees the hold.
    let offer = stage.caller.sdp(3, AUDIO).replace("c=IN IP4 192.0.2.10", "c=IN IP4 0.0.0.0");
    let answer = stage.callee.sdp(3, ANSWER);
    let (offered, _) = stage.caller.invite(&mut stage.callee, &offer, &answer)?;
    ensure!(offered.body().contains("c=IN IP4 0.0.0.0\r\n"), "{}", offered.body());
    stage.there.is_stopped(path.callee, &speech(200, 1)[0], &stage.here)?;
    // Resumed with another codec.
    let opus = "m=audio 4000 RTP/AVP 96\r\na=rtpmap:96 opus/48000/2\r\n";
    let resumed = stage.invite(4, opus, &opus.replace("4000", "6000"))?;
    ensure!(resumed == path);
    stage.talks(path, 300)?;
    // The caller moves to another port; an offer that is refused changes nothing.
    let moved = Media::new(&stage.lab.carrier, &format!("{CALLER}:4444"))?;
    let elsewhere = AUDIO.replace("4000", "4444");
    let offer = stage.caller.sdp(5, &elsewhere);
    stage.caller.request("INVITE", &offer)?;
    let offered = stage.callee.expect("INVITE")?;
    stage.callee.reply(&offered, 488, "", "")?;
    stage.caller.expect("488")?;
    stage.talks(path, 400)?;
    stage.callee.expect("ACK")?;
    stage.invite(6, &elsewhere, ANSWER)?;
    stage.there.passes(path.callee, &speech(500, 5), &moved, path.caller)?;
    moved.passes(path.caller, &speech(600, 5), &stage.there, path.callee)?;
    stage.hang_up()
}

#[test]
fn an_offer_may_come_late() -> Result<()> {
    let mut stage = Stage::new("")?;
    stage.caller.call("")?;
    let invite = stage.callee.expect("INVITE")?;
    let offer = stage.callee.sdp(1, ANSWER);
    stage.callee.reply(&invite, 200, "", &offer)?;
    let offered = stage.caller.expect("200")?;
    let answer = stage.caller.sdp(1, AUDIO);
    stage.caller.request("ACK", &answer)?;
    let answered = stage.callee.expect("ACK")?;
    stage.talks(Path { caller: offered.media(0)?, callee: answered.media(0)? }, 0)?;
    stage.hang_up()
}

#[test]
fn early_media_of_a_fork_does_not_mix_and_the_answer_takes_over() -> Result<()> {
    let parallel = config("", "fork = \"parallel\"").replace("priority = 1", "priority = 0");
    let mut stage = Stage::with(&parallel)?;
    let mut second = Agent::new(stage.lab.region('A'), "198.51.100.12:5060", NODE[1])?;
    let second_media = Media::new(stage.lab.region('A'), "198.51.100.12:6000")?;
    let offer = stage.caller.sdp(1, AUDIO);
    stage.caller.call(&offer)?;
    let (first_invite, second_invite) = (stage.callee.expect("INVITE")?, second.expect("INVITE")?);
    let early = stage.callee.sdp(1, ANSWER);
    stage.callee.reply(&first_invite, 183, "", &early)?;
    let for_first = stage.caller.expect("183")?.media(0)?;
    let early = second.sdp(1, ANSWER);
    second.reply(&second_invite, 183, "X-Second: 1\r\n", &early)?;
    let for_second = stage.caller.expect("183")?.media(0)?;
    let first = Path { caller: for_first, callee: first_invite.media(0)? };
    let other = Path { caller: for_second, callee: second_invite.media(0)? };
    ensure!(first.caller != other.caller && first.callee != other.callee, "{first:?} {other:?}");
    stage.talks(first, 0)?;
    second_media.passes(other.callee, &speech(2000, 20), &stage.here, other.caller)?;
    stage.here.passes(other.caller, &speech(3000, 20), &second_media, other.callee)?;
    let answer = second.sdp(1, ANSWER);
    second.reply(&second_invite, 200, "", &answer)?;
    ensure!(stage.caller.expect("200")?.media(0)? == other.caller, "the answer shows what the 183 showed");
    stage.caller.request("ACK", "")?;
    let cancel = stage.callee.expect("CANCEL")?;
    stage.callee.reply(&cancel, 200, "", "")?;
    stage.callee.reply(&first_invite, 487, "", "")?;
    second.expect("ACK")?;
    second_media.passes(other.callee, &speech(4000, 20), &stage.here, other.caller)?;
    stage.there.is_stopped(first.callee, &speech(5000, 1)[0], &stage.here)?;
    ensure!(stage.drops("media_no_session")? == 1, "the loser's ports are nobody's");
    stage.caller.hang_up(&mut second)
}

#[test]
fn a_fax_takes_over_by_t38_and_several_streams_each_have_their_ports() -> Result<()> {
    let mut stage = Stage::new("")?;
    let path = stage.invite(1, AUDIO, ANSWER)?;
    stage.talks(path, 0)?;
    let image = "m=image 4000 udptl t38\r\na=T38FaxVersion:0\r\n";
    let fax = stage.invite(2, image, &image.replace("4000", "6000"))?;
    ensure!(fax == path, "the same ports");
    // UDPTL begins with a sequence number: any byte may come first.
    let udptl: Vec<Vec<u8>> = (0..=255u8).map(|n| vec![n, n.wrapping_mul(7), 1, 0, n]).collect();
    stage.here.passes(path.caller, &udptl, &stage.there, path.callee)?;
    stage.there.passes(path.callee, &udptl, &stage.here, path.caller)?;
    // Audio again, with video on ports of its own and its RTCP elsewhere; a third stream is declined.
    let here = [4002, 4009].map(|port| Media::new(&stage.lab.carrier, &format!("{CALLER}:{port}")));
    let there = [6002, 6003].map(|port| Media::new(stage.lab.region('A'), &format!("{CALLEE}:{port}")));
    let offer = format!(
        "{AUDIO}m=video 4002 RTP/AVP 31\r\na=rtcp:4009 IN IP4 {CALLER}\r\nm=application 4010 UDP/BFCP *\r\n"
    );
    let answer = format!("{ANSWER}m=video 6002 RTP/AVP 31\r\nm=application 0 UDP/BFCP *\r\n");
    let (offer, answer) = (stage.caller.sdp(3, &offer), stage.callee.sdp(3, &answer));
    let (offered, answered) = stage.caller.invite(&mut stage.callee, &offer, &answer)?;
    let video = Path::of(&offered, &answered, 1)?;
    ensure!(Path::of(&offered, &answered, 0)? == path && answered.media(2)?.port() == 0);
    ensure!(offered.body().contains(&format!("a=rtcp:{} IN IP4 198.18.0.1\r\n", video.callee.port() + 1)));
    stage.talks(path, 100)?;
    let ([here, here_rtcp], [there, there_rtcp]) = (here, there);
    here?.passes(video.caller, &speech(0, 5), &there?, video.callee)?;
    let report = vec![0x80, 201, 0, 1, 1, 2, 3, 4];
    there_rtcp?.passes(rtcp(video.callee), &[report], &here_rtcp?, rtcp(video.caller))?;
    let ports = &stage.lab.running().status()?["workers"][0]["gauges"]["media_ports_in_use"];
    ensure!(*ports == 4, "two streams of two pairs each, not {ports}");
    stage.hang_up()
}

#[test]
fn a_phone_behind_nat_is_heard_and_an_attacker_is_not() -> Result<()> {
    let mut stage = Stage::new("")?;
    // The phone's SDP names an address that nobody can reach; its packets come from another port.
    let nat = Media::new(&stage.lab.carrier, &format!("{CALLER}:41234"))?;
    let attacker = Media::new(&stage.lab.carrier, &format!("{CALLER}:6666"))?;
    let offer = stage.caller.sdp(1, AUDIO).replace("c=IN IP4 192.0.2.10", "c=IN IP4 10.0.0.7");
    let answer = stage.callee.sdp(1, ANSWER);
    let (offered, answered) = stage.caller.invite(&mut stage.callee, &offer, &answer)?;
    let path = Path::of(&offered, &answered, 0)?;
    nat.passes(path.caller, &speech(0, 5), &stage.there, path.callee)?;
    stage.there.passes(path.callee, &speech(100, 5), &nat, path.caller)?;
    for packet in speech(200, 5) {
        attacker.is_stopped(path.caller, &packet, &stage.there)?;
    }
    ensure!(stage.drops("media_wrong_source")? == 5);
    // Nothing has moved to the attacker.
    stage.there.passes(path.callee, &speech(300, 5), &nat, path.caller)?;
    ensure!(attacker.receive(Duration::from_millis(50)).is_none());
    let call_id = stage.caller.call_id().to_owned();
    let shown = stage.lab.running().tell(&["explain", &call_id])?;
    let leg = format!("{CALLER}:41234 -> {} (SDP 10.0.0.7:4000)", path.caller);
    ensure!(shown.contains(&leg) && shown.contains("5 refused"), "{shown}");
    stage.hang_up()
}

#[test]
fn strict_sources_and_a_traffic_class_of_our_own() -> Result<()> {
    let mut stage = Stage::new("source = \"strict\"\ndscp = 46")?;
    let other = Media::new(&stage.lab.carrier, &format!("{CALLER}:41234"))?;
    let path = stage.invite(1, AUDIO, ANSWER)?;
    other.is_stopped(path.caller, &speech(0, 1)[0], &stage.there)?;
    let sniffer = lab::raw::Sniffer::new(stage.lab.region('A'))?;
    stage.talks(path, 0)?;
    ensure!(stage.drops("media_wrong_source")? == 1);
    let classes = sniffer.classes(6000)?;
    ensure!(classes.len() == 20 && classes.iter().all(|tos| *tos == 46 << 2), "{classes:?}");
    stage.hang_up()
}

#[test]
fn without_a_port_a_call_is_refused_with_the_reason_and_nothing_leaks() -> Result<()> {
    let few = config("rest_s = 1", "").replace("20000-29999", "20000-20005");
    let mut stage = Stage::with(&few)?;
    for round in 0..3 {
        let mut calls = Vec::new();
        for n in 0..3 {
            let mut caller = Agent::new(&stage.lab.carrier, &format!("{CALLER}:{}", 5080 + n), NODE[0])?;
            let offer = caller.sdp(1, AUDIO);
            let answer = stage.callee.sdp(1, ANSWER);
            caller
                .invite(&mut stage.callee, &offer, &answer)
                .with_context(|| format!("call {n} of round {round}"))?;
            calls.push(caller);
        }
        let offer = stage.caller.sdp(1, AUDIO);
        stage.caller.call(&offer)?;
        let refused = stage.caller.expect("503")?;
        ensure!(refused.0.starts_with("SIP/2.0 503 All Media Ports In Use\r\n"), "{}", refused.0);
        for caller in &mut calls {
            caller.request("BYE", "")?;
            let bye = stage.callee.expect("BYE")?;
            stage.callee.reply(&bye, 200, "", "")?;
            caller.expect("200")?;
        }
        stage.callee.idle(Duration::from_millis(1500))?;
    }
    let node = stage.lab.running();
    ensure!(node.counter("media_exhausted") == 3 && node.counter("calls_failed") == 3);
    let (_, metrics) = node.http("GET", "/metrics")?;
    for line in [
        "strowger_worker_media_ports_in_use{worker=\"0\"} 0.0",
        "strowger_worker_media_ports{worker=\"0\"} 6.0",
        "strowger_media_exhausted_total 3",
    ] {
        ensure!(metrics.contains(line), "{line} is not in {metrics}");
    }
    node.check_invariants()
}

#[test]
fn a_node_that_was_killed_takes_the_media_up_again_with_the_next_offer() -> Result<()> {
    let mut stage = Stage::new("")?;
    let path = stage.invite(1, AUDIO, ANSWER)?;
    stage.talks(path, 0)?;
    stage.lab.node = None;
    stage.lab.start_node(&config("", ""))?;
    stage.here.is_stopped(path.caller, &speech(100, 1)[0], &stage.there)?;
    // A session timer's refresh is enough (RFC 4028).
    let again = stage.invite(1, AUDIO, ANSWER)?;
    stage.talks(again, 200)?;
    ensure!(stage.lab.running().counter("media_reopened") == 1);
    stage.hang_up()
}

#[test]
fn silence_ends_media_and_is_counted_and_media_off_touches_nothing() -> Result<()> {
    let mut stage = Stage::new("timeout_s = 5")?;
    let path = stage.invite(1, AUDIO, ANSWER)?;
    // One side only, for long enough to be told apart from a late start.
    stage.here.passes(path.caller, &speech(0, 120), &stage.there, path.callee)?;
    eventually("silence ends the media", Duration::from_secs(9), || {
        stage.lab.running().counter("media_timeouts") == 1
    })?;
    ensure!(stage.lab.running().counter("media_one_way") == 1);
    let (_, metrics) = stage.lab.running().http("GET", "/metrics")?;
    ensure!(
        metrics.contains("strowger_media_rtp_expected_total 120")
            && metrics.contains("strowger_media_rtp_lost_total 0"),
        "{metrics}"
    );
    ensure!(metrics.contains("strowger_media_loss_ratio_bucket{le=\"0.0\"} 1"), "{metrics}");
    stage.hang_up()?;

    let mut stage = Stage::with(&config("", "").replace("media = \"anchor\"", "media = \"off\""))?;
    let offer = stage.caller.sdp(1, AUDIO) + "a=candidate:1 1 UDP 1 192.0.2.10 4000 typ host\r\n";
    let answer = stage.callee.sdp(1, ANSWER);
    let (offered, answered) = stage.caller.invite(&mut stage.callee, &offer, &answer)?;
    ensure!(offered.body() == offer && answered.body() == answer);
    stage.hang_up()
}

/// `CALLS=2000 SECONDS=60` in the environment makes it as large as one worker must bear.
#[test]
fn many_calls_at_one_time_lose_and_misdeliver_nothing() -> Result<()> {
    let mut lab = TwoRegions::new(1)?;
    // Rings that bridge a pause of the machine: nothing else may lose a packet.
    lab.start_node(&(config("", "") + "\n[dataplane]\nring_size = 8192\n"))?;
    let number = |name: &str, default: u64| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let (calls, seconds) = (number("CALLS", 500), number("SECONDS", 10));
    let account = lab::sessions::run(&lab, calls as usize, Duration::from_secs(seconds))?;
    let status = lab.running().status()?;
    let lost = format!(
        "drops {}, by the kernel {}",
        status["drops"], status["workers"][0]["gauges"]["kernel_drops"]
    );
    println!("{calls} calls of {seconds} s: {account:?}; {lost}");
    ensure!(account.sent == calls * seconds * 50, "{account:?}");
    ensure!(account.back == account.sent && account.wrong == 0, "{account:?}; {lost}");
    let [first, last] = account.memory;
    ensure!(last < first + first / 50, "memory grew: {account:?} KiB");
    eventually("the ports are free", Duration::from_secs(5), || {
        lab.running().status().is_ok_and(|s| s["workers"][0]["gauges"]["media_ports_in_use"] == 0)
    })?;
    lab.running().check_invariants()
}
