use super::*;
use crate::{ListenerId, RegionId};
use alloc::{string::ToString, vec, vec::Vec};

/// name, region, zone, priority, weight, state
type Row = (&'static str, u8, &'static str, u16, u16, PeerState);

fn table(rows: &[Row]) -> (Table, Service) {
    let peers = rows
        .iter()
        .enumerate()
        .map(|(i, (name, region, zone, priority, weight, state))| Peer {
            name: name.to_string(),
            address: ([192, 0, 2, i as u8], 5060).into(),
            region: Some(RegionId(*region)),
            zone: (!zone.is_empty()).then(|| zone.to_string()),
            priority: *priority,
            weight: *weight,
            state: *state,
        })
        .collect();
    let mut table = Table { peers, local_region: Some(RegionId(0)), ..Table::default() };
    table.index();
    let service = Service::new("s".to_string(), ListenerId(0), (0..rows.len() as u16).map(PeerId).collect());
    (table, service)
}

/// Names and reasons of all attempts in turn.
fn order(rows: &[Row]) -> Vec<(&'static str, Why)> {
    let (table, service) = table(rows);
    let mut tried = vec![];
    let mut order = vec![];
    while let Some(choice) = select(&table, &service, &tried, 0) {
        tried.push(choice.peer);
        order.push((rows[usize::from(choice.peer.0)].0, choice.why));
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
    assert_eq!(order(&rows), expected);
}

#[test]
fn priority_before_zone_and_another_zone_before_the_same() {
    let rows = [
        ("z1a", 0, "z1", 1, 1, Healthy),
        ("z1b", 0, "z1", 1, 1, Healthy),
        ("z2", 0, "z2", 1, 1, Healthy),
        ("late", 0, "z3", 2, 1, Healthy),
    ];
    let names: Vec<_> = order(&rows).into_iter().map(|(n, _)| n).collect();
    assert_eq!(names, ["z1a", "z2", "z1b", "late"]);
}

#[test]
fn weights_are_met_and_zero_is_rare_but_possible() {
    let (table, service) = table(&[
        ("w70", 0, "", 1, 70, Healthy),
        ("w30", 0, "", 1, 30, Healthy),
        ("w0", 0, "", 1, 0, Healthy),
    ]);
    let mut counts = [0u32; 3];
    let draws = 100_000u32;
    for i in 0..draws {
        let roll = i.wrapping_mul(2_654_435_769);
        counts[usize::from(select(&table, &service, &[], roll).unwrap().peer.0)] += 1;
    }
    assert!((69_000..71_000).contains(&counts[0]), "{counts:?}");
    assert!((29_000..31_000).contains(&counts[1]), "{counts:?}");
    assert!((1..100).contains(&counts[2]), "{counts:?}");
    assert_eq!(select(&table, &service, &[PeerId(0), PeerId(1)], u32::MAX).unwrap().peer, PeerId(2));
}

#[test]
fn nobody_is_tried_twice() {
    let (table, service) = table(&[("a", 0, "", 1, 1, Healthy)]);
    assert_eq!(select(&table, &service, &[PeerId(0)], 0), None);
}
