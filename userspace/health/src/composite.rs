//! Checks made of sources and of other checks (requirements D2, D3, D5).
//!
//! HEALTHY if all inputs are; UNHEALTHY if any is; else UNKNOWN. A check in shadow mode is computed like
//! any other, but no enforced check listens to it.

use crate::State;
use alloc::{vec, vec::Vec};

/// What a composite looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// A source, by index.
    Source(usize),
    /// Another composite, by index.
    Composite(usize),
}

/// One composite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Composite {
    /// Its inputs.
    pub inputs: Vec<Input>,
    /// Whether it has consequences; else it is in shadow mode.
    pub enforced: bool,
}

/// All composites, in an order in which each comes behind its inputs.
#[derive(Clone, Debug, Default)]
pub struct Composites {
    all: Vec<Composite>,
    order: Vec<usize>,
}

/// Composites that include each other in a circle; the first stands at the end once more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cycle(pub Vec<usize>);

#[derive(Clone, Copy, PartialEq)]
enum Mark {
    New,
    Open,
    Done,
}

impl Composites {
    /// Orders them.
    ///
    /// # Errors
    /// Some include each other in a circle.
    pub fn new(all: Vec<Composite>) -> Result<Self, Cycle> {
        let mut marks = vec![Mark::New; all.len()];
        let mut order = Vec::with_capacity(all.len());
        for root in 0..all.len() {
            // Without recursion: depth is the configuration's business, not the stack's.
            let mut path = vec![(root, 0)];
            while let Some((node, next)) = path.last_mut() {
                let node = *node;
                if *next == 0 && marks[node] != Mark::New {
                    path.pop();
                    continue;
                }
                marks[node] = Mark::Open;
                match all[node].inputs.get(*next) {
                    None => {
                        marks[node] = Mark::Done;
                        order.push(node);
                        path.pop();
                    }
                    Some(input) => {
                        *next += 1;
                        let Input::Composite(child) = *input else { continue };
                        match marks[child] {
                            Mark::Open => return Err(cycle(&path, child)),
                            Mark::New => path.push((child, 0)),
                            Mark::Done => {}
                        }
                    }
                }
            }
        }
        Ok(Self { all, order })
    }

    /// The states of all composites, each computed once, from those of the sources.
    pub fn evaluate(&self, sources: &[State]) -> Vec<State> {
        let mut states = vec![State::Unknown; self.all.len()];
        for node in &self.order {
            let composite = &self.all[*node];
            let heard = composite.inputs.iter().filter_map(|input| match input {
                Input::Source(i) => Some(sources.get(*i).copied().unwrap_or(State::Unknown)),
                Input::Composite(i) if composite.enforced && !self.all[*i].enforced => None,
                Input::Composite(i) => Some(states[*i]),
            });
            states[*node] = all_of(heard);
        }
        states
    }
}

/// UNHEALTHY before UNKNOWN before HEALTHY.
fn all_of(states: impl Iterator<Item = State>) -> State {
    states.fold(State::Healthy, |all, one| match (all, one) {
        (State::Unhealthy, _) | (_, State::Unhealthy) => State::Unhealthy,
        (State::Unknown, _) | (_, State::Unknown) => State::Unknown,
        _ => State::Healthy,
    })
}

fn cycle(path: &[(usize, usize)], again: usize) -> Cycle {
    let nodes = path.iter().map(|(node, _)| *node).skip_while(|node| *node != again);
    Cycle(nodes.chain([again]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use Input::{Composite as C, Source as S};
    use State::{Healthy, Unhealthy, Unknown};

    fn enforced(inputs: &[Input]) -> Composite {
        Composite { inputs: inputs.to_vec(), enforced: true }
    }

    #[test]
    fn the_truth_table() {
        let composites = Composites::new(vec![enforced(&[S(0), S(1), S(2)])]).unwrap();
        let all = [Healthy, Unhealthy, Unknown];
        for a in all {
            for b in all {
                for c in all {
                    let states = [a, b, c];
                    let expected = if states.contains(&Unhealthy) {
                        Unhealthy
                    } else if states.contains(&Unknown) {
                        Unknown
                    } else {
                        Healthy
                    };
                    assert_eq!(composites.evaluate(&states), [expected]);
                }
            }
        }
    }

    #[test]
    fn nested_ones_follow_in_one_evaluation_in_whatever_order_they_stand() {
        // platform = voice and api; api = both sources; a diamond over voice.
        let all = vec![
            enforced(&[C(1), C(2)]),
            enforced(&[S(0)]),
            enforced(&[S(1), C(1)]),
            enforced(&[C(0), C(2)]),
        ];
        let composites = Composites::new(all).unwrap();
        assert_eq!(composites.evaluate(&[Healthy, Healthy]), [Healthy; 4]);
        assert_eq!(composites.evaluate(&[Unhealthy, Healthy]), [Unhealthy; 4]);
        assert_eq!(composites.evaluate(&[Healthy, Unhealthy]), [Unhealthy, Healthy, Unhealthy, Unhealthy]);
        assert_eq!(composites.evaluate(&[Healthy]), [Unknown, Healthy, Unknown, Unknown]);
    }

    #[test]
    fn a_shadow_is_computed_but_not_listened_to() {
        let shadow = Composite { inputs: vec![S(0)], enforced: false };
        let watcher = Composite { inputs: vec![C(0)], enforced: false };
        let composites = Composites::new(vec![shadow, enforced(&[C(0), S(1)]), watcher]).unwrap();
        assert_eq!(composites.evaluate(&[Unhealthy, Healthy]), [Unhealthy, Healthy, Unhealthy]);
    }

    #[test]
    fn circles_are_named() {
        let circle = |all: Vec<Composite>| Composites::new(all).unwrap_err().0;
        assert_eq!(circle(vec![enforced(&[C(0)])]), [0, 0]);
        assert_eq!(circle(vec![enforced(&[S(0), C(1)]), enforced(&[C(2)]), enforced(&[C(0)])]), [0, 1, 2, 0]);
        assert_eq!(circle(vec![enforced(&[C(1)]), enforced(&[C(2)]), enforced(&[C(1)])]), [1, 2, 1]);
    }

    #[test]
    fn ten_thousand_in_a_chain_need_no_stack() {
        let chain = (0..10_000).map(|n| enforced(&[if n == 9_999 { S(0) } else { C(n + 1) }])).collect();
        let composites = Composites::new(chain).unwrap();
        assert!(composites.evaluate(&[Unhealthy]).iter().all(|s| *s == Unhealthy));
    }
}
