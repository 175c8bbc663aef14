use super::*;
use crate::{Admission, ListenerId, RegionId, Trial};
use alloc::{string::ToString, vec, vec::Vec};

/// name, region, zone, priority, weight, state
type Row = (&'static str, u8, &'static str, u16, u16, PeerState);

fn table(rows: &[Row]) -> Table {
    table_with(rows, |_| {})
}

fn table_with(rows: &[Row], change: impl FnOnce(&mut Table)) -> Table {
    let peers = rows
        .iter()
        .enumerate()
        .map(|(i, (name, region, zone, priority, weight, state))| Peer {
            region: Some(RegionId(*region)),
            zone: (!zone.is_empty()).then(|| zone.to_string()),
            priority: *priority,
            weight: *weight,
            state: *state,
            ..Peer::new(name.to_string(), ([192, 0, 2, i as u8], 5060).into())
        })
        .collect();
    let members = (0..rows.len() as u16).map(PeerId).collect();
    let services = vec![Service::new("s".to_string(), ListenerId(0), members)];
    let mut table = Table { peers, services, local_region: Some(RegionId(0)), ..Table::default() };
    change(&mut table);
    table.index();
    table
}

/// Names and reasons of all attempts in turn.
fn order(table: &Table) -> Vec<(&str, Why)> {
    let mut tried = vec![];
    let mut order = vec![];
    while let Some(choice) = select(table, &table.services[0], &tried, 0) {
        tried.push(choice.peer);
        order.push((&table.peers[usize::from(choice.peer.0)].name[..], choice.why));
    }
    order
}

use PeerState::{Healthy, Unhealthy, Unknown};

#[test]
fn local_region_first_then_the_other_then_the_unhealthy() {
    let rows = [
        ("b1", 1, "", 0, 1, Healthy),
        ("a1", 0, "", 0, 1, Unhealthy),
        ("a2", 0, "", 9, 1, Unknown),
        ("b2", 1, "", 0, 1, Unhealthy),
    ];
    let expected =
        [("a2", Why::Local), ("b1", Why::OtherRegion), ("a1", Why::LastResort), ("b2", Why::LastResort)];
    assert_eq!(order(&table(&rows)), expected);
}

#[test]
fn priority_before_zone_and_another_zone_before_the_same() {
    let rows = [
        ("z1a", 0, "z1", 1, 1, Healthy),
        ("z1b", 0, "z1", 1, 1, Healthy),
        ("z2", 0, "z2", 1, 1, Healthy),
        ("late", 0, "z3", 2, 1, Healthy),
    ];
    let table = table(&rows);
    let names: Vec<_> = order(&table).into_iter().map(|(n, _)| n).collect();
    assert_eq!(names, ["z1a", "z2", "z1b", "late"]);
}

#[test]
fn weights_are_met_and_zero_is_rare_but_possible() {
    let table = table(&[
        ("w70", 0, "", 1, 70, Healthy),
        ("w30", 0, "", 1, 30, Healthy),
        ("w0", 0, "", 1, 0, Healthy),
    ]);
    let mut counts = [0u32; 3];
    let draws = 100_000u32;
    for i in 0..draws {
        let roll = i.wrapping_mul(2_654_435_769);
        counts[usize::from(select(&table, &table.services[0], &[], roll).unwrap().peer.0)] += 1;
    }
    assert!((69_000..71_000).contains(&counts[0]), "{counts:?}");
    assert!((29_000..31_000).contains(&counts[1]), "{counts:?}");
    assert!((1..100).contains(&counts[2]), "{counts:?}");
    assert_eq!(
        select(&table, &table.services[0], &[PeerId(0), PeerId(1)], u32::MAX).unwrap().peer,
        PeerId(2)
    );
}

#[test]
fn nobody_is_tried_twice() {
    let table = table(&[("a", 0, "", 1, 1, Healthy)]);
    assert_eq!(select(&table, &table.services[0], &[PeerId(0)], 0), None);
}

#[test]
fn a_region_given_up_is_used_when_no_other_is_left() {
    let rows = [
        ("a1", 0, "", 0, 1, Healthy),
        ("a2", 0, "", 0, 1, Unhealthy),
        ("b1", 1, "", 0, 1, Healthy),
        ("b2", 1, "", 0, 1, Unhealthy),
    ];
    let down = |regions| table_with(&rows, |table| table.services[0].regions_down = regions);
    let last = [("a2", Why::LastResort), ("b2", Why::LastResort)];
    let expect = |first: [(&'static str, Why); 2]| first.into_iter().chain(last).collect::<Vec<_>>();
    assert_eq!(order(&down(0b01)), expect([("b1", Why::OtherRegion), ("a1", Why::RegionDown)]));
    assert_eq!(order(&down(0b10)), expect([("a1", Why::Local), ("b1", Why::RegionDown)]));
    let both = expect([("a1", Why::Local), ("b1", Why::OtherRegion)]);
    assert_eq!(order(&down(0b11)), both, "with every region given up their peers decide");
}

#[test]
fn the_operator_and_fail_open_have_their_say() {
    let rows = [("a1", 0, "", 0, 1, Healthy), ("a2", 0, "", 0, 1, Unhealthy), ("a3", 0, "", 0, 1, Healthy)];
    let word = |peer: usize, admission| {
        let table = table_with(&rows, |table| table.peers[peer].admission = admission);
        order(&table).into_iter().map(|(name, _)| name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(word(0, Admission::Open), ["a1", "a3", "a2"]);
    assert_eq!(word(0, Admission::Drained), ["a3", "a2"]);
    assert_eq!(word(0, Admission::Disabled), ["a3", "a2"]);
    assert_eq!(word(1, Admission::Drained), ["a1", "a3"], "not even as a last resort");
    let closed = table_with(&rows, |table| table.services[0].fail_open = false);
    assert_eq!(order(&closed), [("a1", Why::Local), ("a3", Why::Local)]);
}

#[test]
fn a_trial_is_given_to_one_call() {
    let rows = [("a1", 0, "", 0, 1, Healthy), ("a2", 0, "", 0, 1, Unhealthy)];
    let table = table_with(&rows, |table| table.peers[1].trial = Some(Trial::new()));
    let same = table.clone();
    let first = |table: &Table| select(table, &table.services[0], &[], 0).unwrap();
    assert_eq!(first(&table), Choice { peer: PeerId(1), why: Why::Trial });
    assert_eq!(first(&same), Choice { peer: PeerId(0), why: Why::Local }, "the copy holds the same leave");
    assert_eq!(order(&table), [("a1", Why::Local), ("a2", Why::LastResort)]);
}

#[test]
fn a_peer_that_starts_slowly_gets_its_part() {
    let rows = [("old", 0, "", 0, 1, Healthy), ("new", 0, "", 0, 1, Healthy)];
    let table = table_with(&rows, |table| table.peers[1].share = 10);
    let hits = (0..11_000u32)
        .filter(|i| select(&table, &table.services[0], &[], i * 390_451).unwrap().peer == PeerId(1))
        .count();
    assert!((900..1100).contains(&hits), "{hits} of 11000, expected 1000");
}

#[test]
fn every_point_of_the_shares_finds_its_member_whatever_their_sizes() {
    let shares: [&[u64]; 5] =
        [&[1], &[100; 7], &[1_000_000, 1, 1, 1, 1], &[1, 1, 1, 1, 1_000], &[3, 900, 1, 1, 70, 2]];
    for shares in shares {
        let mut sum = 0;
        let members: Vec<_> = (0u16..)
            .zip(shares)
            .map(|(id, share)| {
                sum += share;
                (PeerId(id), sum)
            })
            .collect();
        let mut group = Group { why: Why::Local, priority: 0, members, starts: vec![], zoned: false };
        group.index();
        // The edges of all shares among them.
        let edges = group.members.iter().map(|(_, edge)| ((*edge << 32) / sum) as u32);
        let edges = edges.flat_map(|edge| [edge.wrapping_sub(1), edge, edge.wrapping_add(1)]);
        let even = (0..=u32::MAX).step_by(100_003);
        for roll in edges.chain(even).chain([u32::MAX]) {
            let point = draw(roll, sum);
            let expected = group.members.iter().find(|(_, sum)| *sum > point).map(|(id, _)| *id);
            assert_eq!(group.member_at(roll), expected, "{shares:?} at {roll}");
        }
    }
}
