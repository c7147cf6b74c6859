//! A storm on the real API server: everything goes wrong at random, from one seed, while an observer watches.
//!
//! `make storm` runs it for ten minutes. `STORM_SEED` brings the order of faults back; what a real server does in
//! between is its own.

use quotient_sim::random::Random;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use http::StatusCode;

use crate::clock::SetClock;
use crate::daemon::{Daemon, items};
use crate::observer::Observer;
use crate::proxy::Proxy;
use crate::town::{MAX, MIN, NODES, TEAMS, Town, node};
use crate::{TO_EACH_ITS_OWN, holder, signal};

struct Storm {
    dice: Random,
    town: Town,
    proxy: Proxy,
    daemons: Vec<Daemon>,
    clock: SetClock,
    struck: BTreeMap<&'static str, u64>,
}

impl Storm {
    fn start(&self) -> Daemon {
        let (kubeconfig, log): (&Path, PathBuf) = (self.proxy.kubeconfig(), self.town.log());
        Daemon::start_with(kubeconfig, &log, &[], |command| self.clock.wear(command))
    }

    fn pause(&mut self, most_ms: u64) {
        thread::sleep(Duration::from_millis(200 + self.dice.below(most_ms)));
    }

    /// Something goes wrong, or somebody wants something else.
    fn strike(&mut self) -> &'static str {
        match self.dice.below(15) {
            kind @ 0..=5 => self.strike_program(kind),
            kind => self.strike_cluster(kind),
        }
    }

    /// The program is disturbed, or its way to the API server.
    fn strike_program(&mut self, kind: u64) -> &'static str {
        match kind {
            0 => {
                self.proxy.be_unkind(true);
                self.pause(2_000);
                self.proxy.be_unkind(false);
                "409, 429, 500, 503, answers lost"
            }
            1 => {
                self.proxy.cut();
                "watches cut"
            }
            2 => {
                let kind = ["elasticquotas", "/pods", "/nodes"][self.dice.below(3) as usize];
                let (code, name) =
                    [(StatusCode::UNAUTHORIZED, "401"), (StatusCode::FORBIDDEN, "403"), (StatusCode::GONE, "410")]
                        [self.dice.below(3) as usize];
                self.proxy.refuse(Some((kind, code)));
                self.proxy.cut();
                self.pause(3_000);
                self.proxy.refuse(None);
                name
            }
            3 => {
                let index = self.dice.below(2) as usize;
                let next = self.start();
                std::mem::replace(&mut self.daemons[index], next).kill();
                "kill -9"
            }
            4 => {
                let id = self.daemons[self.dice.below(2) as usize].id();
                signal("STOP", id);
                self.pause(5_000);
                signal("CONT", id);
                "SIGSTOP"
            }
            _ => {
                let index = self.dice.below(2) as usize;
                signal("TERM", self.daemons[index].id());
                self.pause(1_000);
                self.daemons[index] = self.start();
                "SIGTERM"
            }
        }
    }

    /// The cluster is disturbed, or changes.
    fn strike_cluster(&mut self, kind: u64) -> &'static str {
        match kind {
            6 => {
                self.town.plane.restart_api_server().expect("the API server starts again");
                "API server restarted"
            }
            7 => {
                let name = node(self.dice.below(NODES as u64) as usize);
                let _ = self.town.plane.kubectl(&["delete", "node", &name, "--wait=false"]);
                for pod in items(&self.town.plane, "pods").iter().filter(|pod| pod["spec"]["nodeName"] == name.as_str())
                {
                    let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default().to_string();
                    let (pod, namespace) = (text("name"), text("namespace"));
                    let _ =
                        self.town.plane.kubectl(&["delete", "pod", &pod, "-n", &namespace, "--force", "--wait=false"]);
                }
                self.town.make_nodes(&[name]);
                "node gone"
            }
            8 => {
                let (team, min) = (self.dice.below(TEAMS as u64), 2 + self.dice.below(5));
                self.town.set_quota(team as usize, min as usize, MAX);
                "quota edited"
            }
            9 => {
                let pause = Duration::from_millis(500 + self.dice.below(4_000));
                self.town.plane.pause_storage(pause);
                "etcd stopped"
            }
            10 => {
                self.clock.set([86_400, -86_400, 3_600, 0][self.dice.below(4) as usize]);
                "clock set"
            }
            11 => {
                self.proxy.lag(50 + self.dice.below(400));
                self.pause(3_000);
                self.proxy.lag(0);
                "slow watches"
            }
            12 => {
                self.proxy.double(true);
                self.pause(3_000);
                self.proxy.double(false);
                "events twice"
            }
            _ => {
                let (team, count) = (self.dice.below(TEAMS as u64), self.dice.below(MAX as u64 + 1));
                self.town.want(team as usize, count as usize);
                "load changed"
            }
        }
    }
}

/// A number of the environment.
fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|number| number.parse().ok()).unwrap_or(default)
}

/// Two minutes with a fixed seed, in every run of the tests.
#[test]
fn a_short_storm() {
    run(1, Duration::from_secs(120));
}

#[test]
#[ignore = "takes minutes: `make storm`"]
fn a_long_storm() {
    run(number("STORM_SEED", 1), Duration::from_secs(number("STORM_SECONDS", 600)));
}

fn run(seed: u64, lasts: Duration) {
    let town = Town::new();
    let proxy = Proxy::start(&town.plane.kubeconfig(), town.plane.folder());
    let observer = Observer::start(&town.plane.kubeconfig());
    let clock = SetClock::new(town.plane.folder());
    let mut storm = Storm { dice: Random::new(seed), town, proxy, daemons: Vec::new(), clock, struck: BTreeMap::new() };
    storm.daemons = vec![storm.start(), storm.start()];
    holder(&storm.town, "");
    let begun = Instant::now();
    while begun.elapsed() < lasts {
        let name = storm.strike();
        *storm.struck.entry(name).or_default() += 1;
        assert_eq!(observer.faults(), [] as [String; 0], "STORM_SEED={seed}, after {:?}", storm.struck);
        storm.pause(1_500);
    }
    for index in 0..TEAMS {
        storm.town.set_quota(index, MIN, MAX);
        storm.town.want(index, MAX);
    }
    storm.town.check(TO_EACH_ITS_OWN);
    let (binds, evictions) = observer.counts();
    let (doubled, refused) = (storm.proxy.doubled(), storm.proxy.refused());
    println!(
        "STORM_SEED={seed}, {} s: {binds} binds, {evictions} evictions; the observer saw no fault.",
        lasts.as_secs()
    );
    println!("{refused} requests were refused or their answers lost, {doubled} events told twice.\n");
    println!("| fault | times |\n|---|---|");
    storm.struck.iter().for_each(|(name, times)| println!("| {name} | {times} |"));
    assert!(binds >= TEAMS * MIN, "the observer saw {binds} binds only");
    assert_eq!(observer.faults(), [] as [String; 0], "STORM_SEED={seed}");
    assert_eq!(observer.unserved(), [] as [String; 0], "evicted for nobody, STORM_SEED={seed}");
}
