//! Every state machine with every event, by the figures of RFC 3261 section 17.

use super::*;
use alloc::{vec, vec::Vec};

const fn ms(n: u64) -> Time {
    Duration::from_millis(n)
}

/// Runs timers every millisecond until `end` and notes what they called for.
fn run(end: Time, mut deadline: impl FnMut(Option<Time>) -> (Option<Time>, Action)) -> Vec<(Time, Action)> {
    let mut noted = vec![];
    let (mut next, _) = deadline(None);
    while let Some(at) = next.filter(|at| *at <= end) {
        let (following, action) = deadline(Some(at));
        noted.push((at, action));
        next = following;
    }
    noted
}

#[test]
fn invite_client_retransmits_doubling_until_timer_b() {
    let mut t = InviteClient::new(ms(0), Timers::default());
    let noted = run(ms(100_000), |now| {
        let action = now.map_or(Action::Nothing, |now| t.on_timer(now));
        (t.next_deadline(), action)
    });
    let times: Vec<_> = noted.iter().map(|(at, _)| at.as_millis()).collect();
    assert_eq!(times, [500, 1500, 3500, 7500, 15_500, 31_500, 32_000]);
    assert!(noted[..6].iter().all(|(_, a)| *a == Action::Resend));
    assert_eq!(noted[6].1, Action::TimedOut);
    assert_eq!(t.state(), InviteClientState::Terminated);
}

#[test]
fn invite_client_states_and_responses() {
    use InviteClientState::{Accepted, Calling, Completed, Proceeding, Terminated};
    let in_state = |state| {
        let mut t = InviteClient::new(ms(0), Timers::default());
        match state {
            Calling => {}
            Proceeding => drop(t.on_response(ms(0), 180)),
            Completed => drop(t.on_response(ms(0), 486)),
            Accepted => drop(t.on_response(ms(0), 200)),
            Terminated => t.give_up(),
        }
        assert_eq!(t.state(), state);
        t
    };
    for (state, status, action, after) in [
        (Calling, 100, Action::Forward, Proceeding),
        (Calling, 200, Action::Forward, Accepted),
        (Calling, 486, Action::AckAndForward, Completed),
        (Proceeding, 183, Action::Forward, Proceeding),
        (Proceeding, 299, Action::Forward, Accepted),
        (Proceeding, 300, Action::AckAndForward, Completed),
        (Completed, 180, Action::Nothing, Completed),
        (Completed, 200, Action::Nothing, Completed),
        (Completed, 486, Action::Ack, Completed),
        (Accepted, 180, Action::Nothing, Accepted),
        (Accepted, 200, Action::Forward, Accepted),
        (Accepted, 486, Action::Nothing, Accepted),
        (Terminated, 200, Action::Nothing, Terminated),
    ] {
        let mut t = in_state(state);
        assert_eq!((t.on_response(ms(1), status), t.state()), (action, after), "{state:?} {status}");
    }
    // Timer D and timer M: 32 s; Proceeding waits for timer C of the proxy.
    for (state, ends) in [(Completed, Some(ms(32_000))), (Accepted, Some(ms(32_000))), (Proceeding, None)] {
        assert_eq!(in_state(state).next_deadline(), ends, "{state:?}");
    }
    assert!(
        in_state(Proceeding).can_cancel()
            && !in_state(Calling).can_cancel()
            && !in_state(Accepted).can_cancel()
    );
}

#[test]
fn client_retransmits_up_to_t2_until_timer_f() {
    let mut t = Client::new(ms(0), Timers::default());
    let noted = run(ms(100_000), |now| {
        let action = now.map_or(Action::Nothing, |now| t.on_timer(now));
        (t.next_deadline(), action)
    });
    let times: Vec<_> = noted.iter().map(|(at, _)| at.as_millis()).collect();
    assert_eq!(times, [500, 1500, 3500, 7500, 11_500, 15_500, 19_500, 23_500, 27_500, 31_500, 32_000]);
    assert_eq!(noted.last().map(|(_, a)| *a), Some(Action::TimedOut));
    let mut t = Client::new(ms(0), Timers::default());
    assert_eq!(t.on_response(ms(10), 100), Action::Forward);
    assert_eq!(t.on_timer(ms(500)), Action::Resend);
    assert_eq!(t.next_deadline(), Some(ms(4500)), "timer E is T2 in Proceeding");
    assert_eq!(t.on_response(ms(600), 200), Action::Forward);
    assert_eq!(t.on_response(ms(700), 200), Action::Nothing);
    assert_eq!(t.on_timer(ms(5600)), Action::Terminated, "timer K");
    assert_eq!(t.next_deadline(), None);
}

#[test]
fn invite_server_repeats_a_refusal_until_its_ack() {
    let mut t = InviteServer::new(Timers::default());
    assert!(t.on_send(ms(0), 180) && t.on_send(ms(0), 486));
    assert!(!t.on_send(ms(0), 200) && !t.on_send(ms(0), 180) && !t.on_send(ms(0), 486));
    let noted = run(ms(100_000), |now| {
        let action = now.map_or(Action::Nothing, |now| t.on_timer(now));
        (t.next_deadline(), action)
    });
    let times: Vec<_> = noted.iter().map(|(at, _)| at.as_millis()).collect();
    assert_eq!(times, [500, 1500, 3500, 7500, 11_500, 15_500, 19_500, 23_500, 27_500, 31_500, 32_000]);
    assert_eq!(noted.last().map(|(_, a)| *a), Some(Action::Terminated), "timer H");
    let mut t = InviteServer::new(Timers::default());
    assert!(!t.on_ack(ms(0)), "no ACK before a final response");
    t.on_send(ms(0), 486);
    assert!(t.on_ack(ms(100)) && t.on_ack(ms(200)));
    assert_eq!(t.on_retransmission(), Action::Nothing);
    assert_eq!(t.next_deadline(), Some(ms(5100)), "timer I");
    assert_eq!(t.on_timer(ms(5100)), Action::Terminated);
}

#[test]
fn invite_server_after_a_2xx_absorbs_the_invite_and_passes_further_2xx() {
    let mut t = InviteServer::new(Timers::default());
    assert_eq!(t.on_retransmission(), Action::Resend);
    assert!(t.on_send(ms(0), 200) && t.on_send(ms(1), 200) && !t.on_send(ms(2), 486));
    assert!(!t.on_ack(ms(3)), "the ACK of a 2xx is not this transaction's");
    assert_eq!(t.on_retransmission(), Action::Nothing);
    assert_eq!(t.next_deadline(), Some(ms(32_000)), "timer L");
}

#[test]
fn server_repeats_its_final_response_for_timer_j() {
    let mut t = Server::new(Timers::default());
    assert_eq!((t.on_retransmission(), t.next_deadline()), (Action::Nothing, None));
    assert!(t.on_send(ms(0), 100));
    assert_eq!(t.on_retransmission(), Action::Resend);
    assert!(t.on_send(ms(0), 404) && !t.on_send(ms(0), 200));
    assert_eq!(t.on_retransmission(), Action::Resend);
    assert_eq!(t.on_timer(ms(31_999)), Action::Nothing);
    assert_eq!(t.on_timer(ms(32_000)), Action::Terminated);
}
