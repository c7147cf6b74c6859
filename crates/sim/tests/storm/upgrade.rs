//! A rolling upgrade while 500 pods a second come: the leader is told to stop, sends what it decided, gives the lease
//! back, and its successor goes on. No pod is lost, none is bound twice, no node and no quota holds too much.

use std::time::Duration;

use crate::storm::dice::Dice;
use crate::storm::process::Process;
use crate::storm::town::{Rules, Size, Town};
use crate::storm::wire::Network;

const PODS_PER_SECOND: u64 = 500;
const SECONDS: u64 = 4;
const STEP_MS: u64 = 20;
/// As many writes at once as the live program sends.
const CONCURRENT: usize = 128;
/// How often the leader is replaced.
const UPGRADE_EVERY_MS: u64 = 900;
/// A successor starts so long before the leader stops, as in a rolling upgrade.
const STARTS_BEFORE_MS: u64 = 500;

#[test]
fn an_upgrade_under_500_pods_a_second_loses_nothing() {
    let pods = PODS_PER_SECOND * SECONDS;
    // Room for all of them, and no more than 5 % besides.
    let size = Size { nodes: 21, cpus_per_node: 100, min: 700, max: 700 };
    let mut town = Town::of(Rules::Elastic, size, false, Duration::ZERO);
    let (mut dice, mut network) = (Dice::new(1), Network::default());
    let start = || {
        let mut process = Process::new();
        process.concurrent = CONCURRENT;
        process
    };
    let mut leader = start();
    let mut successor: Option<Process> = None;
    let (mut made, mut upgrades, mut slowest_ms) = (0, 0, 0);
    let begun = town.now_ms();
    let mut upgrade_at = begun + UPGRADE_EVERY_MS;
    let mut stopping_since = None;
    loop {
        let now = town.now_ms() + STEP_MS;
        town.advance(now);
        while made < pods && made < (now - begun) * PODS_PER_SECOND / 1_000 {
            town.make_plain_pod();
            made += 1;
        }
        town.settle();
        if now >= upgrade_at.saturating_sub(STARTS_BEFORE_MS) && successor.is_none() && made < pods {
            successor = Some(start());
        }
        if now >= upgrade_at && successor.is_some() && stopping_since.is_none() {
            stopping_since = Some(now);
        }
        if stopping_since.is_none() {
            leader.fence_until_ms = now + 10_000;
            leader.lead(now);
            leader.step(&town, &mut network, &mut dice, false);
        } else {
            // It decides nothing more and sends what it decided.
            leader.drain(&mut network, &mut dice, now);
        }
        if let Some(next) = &mut successor {
            next.step(&town, &mut network, &mut dice, false);
        }
        network.deliver(&mut town, now);
        if let Some(since) = stopping_since.filter(|_| leader.is_placed()) {
            slowest_ms = slowest_ms.max(now - since);
            leader = successor.take().expect("it was started");
            (upgrades, upgrade_at, stopping_since) = (upgrades + 1, now + UPGRADE_EVERY_MS, None);
        }
        if made == pods && town.observer.binds == pods {
            break;
        }
        assert!(now < begun + 120_000, "{} of {made} pods are bound", town.observer.binds);
    }
    println!(
        "{pods} pods at {PODS_PER_SECOND} a second: {upgrades} upgrades, the slowest drained in {slowest_ms} ms, all bound \
         after {} ms",
        town.now_ms() - begun
    );
    assert!(upgrades >= 3, "only {upgrades} upgrades");
    assert_eq!(town.observer.faults, [""; 0]);
}
