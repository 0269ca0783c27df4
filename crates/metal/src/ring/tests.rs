use std::collections::HashMap;

use super::*;
use crate::memory::Pages;

fn memory(bytes: usize) -> Mapping {
    let mut mapping = Mapping::new(bytes, Pages::Base).unwrap();
    mapping.touch();
    mapping
}

/// The slots in the order of the walk, from the present position.
fn order(ring: &Ring) -> Vec<usize> {
    let mut slots = vec![ring.position()];
    while slots.len() < ring.slots() {
        slots.push(ring.next(slots[slots.len() - 1]));
    }
    slots
}

fn successors(ring: &Ring) -> Vec<usize> {
    (0..ring.slots()).map(|slot| ring.next(slot)).collect()
}

#[test]
fn a_growing_ring_is_one_cycle_at_every_size() {
    for slot_bytes in [16, 64, 128, 256] {
        let mut ring = Ring::new(memory(300 * slot_bytes), slot_bytes, 7).unwrap();
        for slots in 1..=300 {
            ring.grow_to(slots).unwrap();
            assert_eq!(ring.visits(), slots);
            assert!(ring.verify());
        }
    }
}

#[test]
fn shrinking_undoes_every_insertion_exactly() {
    let mut ring = Ring::new(memory(64 * 500), 64, 3).unwrap();
    let mut grown = vec![];
    for slots in 1..=500 {
        ring.grow_to(slots).unwrap();
        grown.push(successors(&ring));
    }
    for slots in (1..500).rev() {
        ring.shrink_to(slots).unwrap();
        assert_eq!(successors(&ring), grown[slots - 1]);
        assert!(ring.verify());
    }
    ring.grow_to(500).unwrap();
    assert_eq!(successors(&ring), grown[499]);
}

#[test]
fn growing_at_once_or_in_steps_gives_the_same_ring() {
    let mut at_once = Ring::new(memory(64 * 400), 64, 11).unwrap();
    at_once.grow_to(400).unwrap();
    let mut in_steps = Ring::new(memory(64 * 400), 64, 11).unwrap();
    for slots in [5, 50, 51, 300, 400] {
        in_steps.grow_to(slots).unwrap();
    }
    assert_eq!(successors(&at_once), successors(&in_steps));
    let mut other = Ring::new(memory(64 * 400), 64, 12).unwrap();
    other.grow_to(400).unwrap();
    assert_ne!(successors(&at_once), successors(&other));
}

#[test]
fn every_cycle_of_four_slots_is_equally_likely() {
    let mut seen: HashMap<Vec<usize>, u32> = HashMap::new();
    let mut mapping = memory(64 * 4);
    for seed in 0..6000 {
        let mut ring = Ring::new(mapping, 64, seed).unwrap();
        ring.grow_to(4).unwrap();
        *seen.entry(order(&ring)).or_default() += 1;
        mapping = ring.into_mapping();
    }
    assert_eq!(seen.len(), 6);
    // Five standard deviations of a count with mean 1000.
    assert!(seen.values().all(|&count| (856..=1144).contains(&count)), "{seen:?}");
}

#[test]
fn a_walk_of_n_loads_is_n_steps_and_goes_on_where_it_stopped() {
    let mut ring = Ring::new(memory(64 * 1000), 64, 1).unwrap();
    ring.grow_to(1000).unwrap();
    let order = order(&ring);
    let mut steps = 0;
    for n in [0, 1, 2, 255, 256, 257, 999, 1000, 1001, 4096] {
        steps += n;
        assert_eq!(ring.chase_pointer(n as u64), order[steps % 1000], "{n} loads");
        steps += n;
        assert_eq!(ring.chase_index(n as u64), order[steps % 1000], "{n} loads");
        steps += n;
        assert_eq!(ring.chase_stored(n as u64), order[steps % 1000], "{n} loads");
    }
}

#[test]
fn a_walk_survives_the_removal_of_its_slot() {
    let mut ring = Ring::new(memory(64 * 200), 64, 5).unwrap();
    for turn in 0..200 {
        ring.grow_to(200).unwrap();
        ring.chase_pointer(turn);
        ring.shrink_to(3).unwrap();
        assert!(ring.position() < 3);
        assert!(ring.verify());
        assert!(ring.chase_pointer(100) < 3);
    }
}

#[test]
fn strided_rings_go_by_address() {
    let mut ring = Ring::strided(memory(4096), 4096, 256, Direction::Forward).unwrap();
    assert_eq!(order(&ring), (0..16).collect::<Vec<_>>());
    assert!(ring.verify());
    assert_eq!(ring.chase_pointer(17), 1);
    assert!(ring.grow_to(20).is_err() && ring.shrink_to(2).is_err());
    let mut ring = Ring::strided(ring.into_mapping(), 4096, 16, Direction::Backward).unwrap();
    assert_eq!(order(&ring), (0..256).rev().collect::<Vec<_>>());
    assert!(ring.verify());
    assert_eq!(ring.chase_index(1), 254);
}

#[test]
fn a_page_is_finished_before_the_next_and_nothing_is_in_order() {
    let page = base_page_bytes();
    // Ten pages and a half.
    let footprint = page * 10 + page / 2;
    let ring = Ring::page_random(memory(footprint), footprint, 64, 9).unwrap();
    assert_eq!(ring.slots(), footprint / 64);
    assert!(ring.verify());
    let order = order(&ring);
    let mut pages: Vec<usize> = order.iter().map(|slot| slot * 64 / page).collect();
    pages.dedup();
    assert_eq!(pages.len(), 11, "{pages:?}");
    assert!(!pages.is_sorted());
    let forward = order.windows(2).filter(|pair| pair[1] == pair[0] + 1).count();
    assert!(forward < order.len() / 10, "{forward} of {}", order.len());
    let tiny = Ring::page_random(ring.into_mapping(), 512, 64, 9).unwrap();
    assert_eq!(tiny.visits(), 8);
}

#[test]
fn the_four_quarter_walk_is_the_reports() {
    let mut ring = Ring::four_quarter(memory(64 * 8), 64 * 8, 64).unwrap();
    assert_eq!(order(&ring), [0, 6, 2, 4, 1, 7, 3, 5]);
    assert!(ring.verify());
    assert_eq!(ring.chase_pointer(9), 6);
    assert!(Ring::four_quarter(memory(640), 640, 64).is_err());
}

#[test]
fn a_broken_ring_is_found() {
    let broken = |damage: fn(&mut Ring)| {
        let mut ring = Ring::strided(memory(64 * 10), 640, 64, Direction::Forward).unwrap();
        damage(&mut ring);
        assert!(!ring.verify());
        ring.visits()
    };
    assert_eq!(broken(|ring| ring.link(4, 0)), 5);
    assert_eq!(broken(|ring| ring.link(4, 10)), 4);
    assert_eq!(broken(|ring| ring.link(4, 2)), 0);
    assert_eq!(broken(|ring| ring.mapping.words_mut()[8 * 4] += 8), 4);
    assert_eq!(broken(|ring| ring.mapping.words_mut()[8 * 4 + 1] += 1), 4);
}

#[test]
fn what_does_not_fit_is_refused() {
    for slot_bytes in [0, 8, 12, 20] {
        assert!(Ring::new(memory(4096), slot_bytes, 0).is_err());
    }
    let room = memory(4096).bytes();
    assert!(Ring::new(memory(4096), room * 2, 0).is_err());
    assert!(Ring::strided(memory(4096), room + 64, 64, Direction::Forward).is_err());
    assert!(Ring::strided(memory(4096), 32, 64, Direction::Forward).is_err());
    assert!(Ring::page_random(memory(4096), 4096, 48, 0).is_err());
    let mut ring = Ring::new(memory(4096), 64, 0).unwrap();
    assert!(ring.grow_to(ring.room() + 1).is_err());
    assert!(ring.shrink_to(0).is_err());
    ring.grow_to(ring.room()).unwrap();
    assert!(ring.verify());
}
