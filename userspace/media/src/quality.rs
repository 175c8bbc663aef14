//! Loss and jitter of one RTP stream, from the headers of its packets (RFC 3550 A.1, A.3, A.8).

/// A jump of sequence numbers up to here is loss (RFC 3550 A.1).
const MAX_DROPOUT: u16 = 3000;
/// And back to here is an old packet; anything between is a new beginning.
const MAX_MISORDER: u16 = 100;

/// What is known of a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quality {
    ssrc: u32,
    /// Highest sequence number seen, and what it will be after a new beginning.
    max_seq: u16,
    next_bad: u16,
    started: bool,
    /// Sequence numbers passed and packets received since the beginning.
    expected: u32,
    received: u32,
    /// The same of earlier beginnings and sources.
    past_expected: u32,
    past_lost: u32,
    /// Arrival less timestamp of the latest packet, in timestamp units, and its timestamp.
    transit: u32,
    timestamp: u32,
    /// Sixteen times the jitter, in timestamp units.
    jitter: u32,
    clock_rate: u32,
}

impl Quality {
    pub(crate) const fn new() -> Self {
        Self {
            ssrc: 0,
            max_seq: 0,
            next_bad: 0,
            started: false,
            expected: 0,
            received: 0,
            past_expected: 0,
            past_lost: 0,
            transit: 0,
            timestamp: 0,
            jitter: 0,
            clock_rate: 8000,
        }
    }

    /// Another clock rate, in Hz: jitter is measured anew.
    pub(crate) fn set_clock_rate(&mut self, rate: u32) {
        if rate != self.clock_rate {
            self.clock_rate = rate;
            self.jitter = 0;
            self.timestamp = 0;
            self.transit = 0;
        }
    }

    /// Takes in the header of an RTP packet of at least twelve bytes that came now, in microseconds.
    #[inline]
    pub(crate) fn add(&mut self, now: u64, packet: &[u8]) {
        let Some(h) = packet.first_chunk::<12>() else { return };
        let seq = u16::from_be_bytes([h[2], h[3]]);
        let timestamp = u32::from_be_bytes([h[4], h[5], h[6], h[7]]);
        let ssrc = u32::from_be_bytes([h[8], h[9], h[10], h[11]]);
        // A product of 64 bits lasts for years of uptime.
        let arrival = (now * u64::from(self.clock_rate) / 1_000_000) as u32;
        let transit = arrival.wrapping_sub(timestamp);
        if ssrc != self.ssrc || !self.started {
            self.begin(ssrc, seq);
        } else {
            let delta = seq.wrapping_sub(self.max_seq);
            if delta == 0 {
                // A copy.
                return;
            }
            if delta < MAX_DROPOUT {
                self.expected += u32::from(delta);
                self.max_seq = seq;
            } else if delta <= u16::MAX - MAX_MISORDER {
                // Two in a row from the new place: the sender has begun anew without saying so.
                if seq != self.next_bad {
                    self.next_bad = seq.wrapping_add(1);
                    return;
                }
                self.begin(ssrc, seq);
            }
            self.received += 1;
            // Packets of one moment, such as those of a picture or a telephone event, tell nothing.
            if timestamp != self.timestamp && self.timestamp != 0 {
                let apart = transit.wrapping_sub(self.transit).cast_signed().unsigned_abs();
                // A leap of more than ten seconds is another clock, not jitter.
                if apart < self.clock_rate * 10 {
                    self.jitter = (self.jitter + apart).saturating_sub((self.jitter + 8) >> 4);
                }
            }
        }
        self.transit = transit;
        self.timestamp = timestamp;
    }

    #[cold]
    fn begin(&mut self, ssrc: u32, seq: u16) {
        self.past_lost = self.lost();
        self.past_expected += self.expected;
        self.ssrc = ssrc;
        self.max_seq = seq;
        self.expected = 1;
        self.received = 1;
        self.started = true;
        self.timestamp = 0;
    }

    /// Packets that ought to have come.
    pub(crate) fn expected(&self) -> u32 {
        self.past_expected + self.expected
    }

    /// Packets that did not.
    pub(crate) fn lost(&self) -> u32 {
        self.past_lost + self.expected.saturating_sub(self.received)
    }

    /// Jitter in microseconds.
    pub(crate) fn jitter_us(&self) -> u32 {
        (u64::from(self.jitter >> 4) * 1_000_000 / u64::from(self.clock_rate.max(1))) as u32
    }

    /// Its current source; zero before the first packet.
    pub(crate) fn ssrc(&self) -> u32 {
        self.ssrc
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    fn packet(ssrc: u32, seq: u16, timestamp: u32) -> [u8; 12] {
        let mut h = [0x80, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        h[2..4].copy_from_slice(&seq.to_be_bytes());
        h[4..8].copy_from_slice(&timestamp.to_be_bytes());
        h[8..12].copy_from_slice(&ssrc.to_be_bytes());
        h
    }

    fn at(time: Duration) -> u64 {
        time.as_micros() as u64
    }

    const FRAME: Duration = Duration::from_millis(20);

    #[test]
    fn loss_over_the_wrap_of_numbers_with_copies_and_late_packets() {
        let mut q = Quality::new();
        for n in 0..1000u32 {
            if n % 10 == 3 || n == 501 {
                continue;
            }
            let seq = (65_000 + n) as u16;
            q.add(at(FRAME * n), &packet(1, seq, n * 160));
            if n == 700 {
                q.add(at(FRAME * n), &packet(1, seq, n * 160));
            }
            if n == 502 {
                // The one before comes late: not lost.
                q.add(at(FRAME * n), &packet(1, seq.wrapping_sub(1), (n - 1) * 160));
            }
        }
        assert_eq!((q.expected(), q.lost()), (1000, 100));
        assert_eq!(q.jitter_us(), 0);
    }

    #[test]
    fn another_source_or_a_new_beginning_is_no_loss() {
        let mut q = Quality::new();
        for (ssrc, from) in [(1, 100u16), (2, 40_000), (2, 7)] {
            for n in 0..50u16 {
                q.add(at(FRAME * u32::from(n)), &packet(ssrc, from + n, u32::from(n) * 160));
            }
        }
        assert_eq!(q.lost(), 0);
        assert!((149..=150).contains(&q.expected()), "{}", q.expected());
        assert_eq!(q.ssrc(), 2);
    }

    #[test]
    fn jitter_is_that_of_rfc_3550() {
        let mut q = Quality::new();
        let mut model = 0f64;
        let mut before: Option<f64> = None;
        for n in 0..2000u32 {
            // Late by 0 to 6 ms.
            let late = u64::from(n.wrapping_mul(2_654_435_761) >> 16) % 7;
            let now = FRAME * n + Duration::from_millis(late);
            q.add(at(now), &packet(1, n as u16, 1000 + n * 160));
            let transit = late as f64 * 8.0;
            if let Some(before) = before.replace(transit) {
                model += ((transit - before).abs() - model) / 16.0;
            }
        }
        let microseconds = model / 8000.0 * 1e6;
        assert!((f64::from(q.jitter_us()) - microseconds).abs() < 150.0, "{} {microseconds}", q.jitter_us());
        assert!(microseconds > 500.0);
    }
}
