//! Faults on a real API server. Whatever goes wrong for a while: afterwards usage equals a recount, no ceiling is
//! passed, no pod is lost or bound twice, and everything that can run runs.

mod clock;
use crate::daemon;
mod observer;
mod proxy;
mod storm;
mod town;
mod upgrade;

use std::process::Command;
use std::thread;
use std::time::Duration;

use clock::SetClock;
use daemon::{Daemon, eventually, items};
use proxy::Proxy;
use serde_json::Value;
use town::{MAX, MIN, TEAMS, Town, team};

/// What runs in the end where every team wants all it may hold: to each its own.
const TO_EACH_ITS_OWN: [usize; TEAMS] = [MIN; TEAMS];

fn lease(town: &Town) -> Value {
    let leases = items(&town.plane, "leases.coordination.k8s.io");
    leases.into_iter().find(|lease| lease["metadata"]["name"] == "quotient").unwrap_or_default()
}

/// Waits until somebody has the lease, and says who.
fn holder(town: &Town, but_not: &str) -> String {
    eventually(&town.plane, "somebody has the lease", || {
        let holder = lease(town)["spec"]["holderIdentity"].as_str()?.to_string();
        (!holder.is_empty() && holder != but_not).then_some(holder)
    })
}

#[test]
fn an_api_server_that_refuses_and_forgets_for_a_while() {
    let town = Town::new();
    let proxy = Proxy::start(&town.plane.kubeconfig(), town.plane.folder());
    proxy.be_unkind(true);
    let _daemon = Daemon::start(proxy.kubeconfig(), &town.log(), &[]);
    holder(&town, "");
    for index in 0..TEAMS {
        town.want(index, MAX);
        for _ in 0..3 {
            thread::sleep(Duration::from_millis(700));
            proxy.cut();
            town.check_ceilings();
        }
    }
    assert!(proxy.refused() > 10, "only {} writes were disturbed", proxy.refused());
    proxy.be_unkind(false);
    town.check(TO_EACH_ITS_OWN);
}

#[test]
fn a_kind_that_may_not_be_read_for_a_while_is_not_gone() {
    let town = Town::new();
    let proxy = Proxy::start(&town.plane.kubeconfig(), town.plane.folder());
    let _daemon = Daemon::start(proxy.kubeconfig(), &town.log(), &[]);
    town.set_quota(0, 1, 1);
    town.want(0, 4);
    let running = |count: usize| {
        eventually(&town.plane, &format!("{count} run"), || {
            let is_running = |pod: &&Value| pod["status"]["phase"] == "Running";
            (town.pods().iter().filter(is_running).count() == count).then_some(())
        });
    };
    running(1);
    // An API server that comes back refuses what its caches do not hold yet.
    proxy.forbid(Some("elasticquotas"));
    proxy.cut();
    for _ in 0..8 {
        thread::sleep(Duration::from_secs(1));
        running(1);
    }
    assert!(proxy.refused() > 3, "only {} requests were refused", proxy.refused());
    proxy.forbid(None);
    town.set_quota(0, 1, 3);
    running(3);
}

#[test]
fn the_lease_passes_on_while_pods_are_bound() {
    let town = Town::new();
    let observer = observer::Observer::start(&town.plane.kubeconfig());
    let start = || Daemon::start(&town.plane.kubeconfig(), &town.log(), &[]);
    let mut daemons = [start(), start()];
    let mut last = holder(&town, "");
    for round in 0..2 * TEAMS {
        town.want(round % TEAMS, if round < TEAMS { MAX } else { MAX - round });
        thread::sleep(Duration::from_millis(100 + 90 * round as u64));
        // An upgrade: it sends what it decided, gives the lease back, and another begins in its place.
        let index = daemons.iter().position(|daemon| last.contains(&format!("_{}_", daemon.id())));
        let index = index.unwrap_or_else(|| panic!("{last} is one of ours"));
        signal("TERM", daemons[index].id());
        last = holder(&town, &last);
        daemons[index] = start();
        assert_eq!(observer.faults(), [] as [String; 0]);
    }
    (0..TEAMS).for_each(|index| town.want(index, MAX));
    town.check(TO_EACH_ITS_OWN);
    assert_eq!((observer.faults(), observer.unserved()), (Vec::new(), Vec::new()));
}

#[test]
fn a_lease_that_another_had_meanwhile_is_not_kept() {
    let town = Town::new();
    let _daemon = Daemon::start(&town.plane.kubeconfig(), &town.log(), &[]);
    let ours = holder(&town, "");
    let log = || std::fs::read_to_string(town.log()).unwrap_or_default();
    let begun_anew = || log().matches("begins anew").count();
    assert_eq!(begun_anew(), 0, "it has the lease since it began");
    // Another takes it and gives it back, between two looks of ours.
    for holder in ["another", ""] {
        let patch = format!(r#"{{"spec": {{"holderIdentity": "{holder}"}}}}"#);
        let patch = ["patch", "lease", "quotient", "-n", "default", "--type=merge", "-p", &patch];
        town.plane.kubectl(&patch).expect("the lease is patched");
    }
    eventually(&town.plane, "it begins anew, knowing only what the objects say", || {
        (begun_anew() == 1 && holder(&town, "") == ours).then_some(())
    });
    town.want(0, MIN);
    eventually(&town.plane, "it schedules", || {
        (town.pods().iter().filter(|pod| pod["status"]["phase"] == "Running").count() == MIN).then_some(())
    });
}

#[test]
fn one_of_two_sleeps_through_its_lease_and_goes_on() {
    let town = Town::new();
    let daemons = [0, 1].map(|_| Daemon::start(&town.plane.kubeconfig(), &town.log(), &[]));
    let mut last = holder(&town, "");
    for index in 0..TEAMS {
        town.want(index, MAX);
        thread::sleep(Duration::from_millis(500));
        // Whoever has the lease is stopped in the middle of it, and wakes when it is the other's.
        let stopped: Vec<u32> = daemons.iter().map(Daemon::id).filter(|id| last.contains(&format!("_{id}_"))).collect();
        assert_eq!(stopped.len(), 1, "{last} is one of ours");
        signal("STOP", stopped[0]);
        let next = holder(&town, &last);
        thread::sleep(Duration::from_millis(500));
        signal("CONT", stopped[0]);
        town.check_ceilings();
        last = next;
    }
    town.check(TO_EACH_ITS_OWN);
}

fn signal(name: &str, process: u32) {
    let status = Command::new("kill").args([&format!("-{name}"), &process.to_string()]).status();
    assert!(status.expect("there is a kill").success());
}

#[test]
fn the_clock_is_set() {
    let town = Town::new();
    let clock = SetClock::new(town.plane.folder());
    let _daemon = Daemon::start_with(&town.plane.kubeconfig(), &town.log(), &[], |command| clock.wear(command));
    let first = holder(&town, "");
    for (index, seconds) in [86_400, -86_400, 3_600].into_iter().enumerate() {
        clock.set(seconds);
        town.want(index, MAX);
        thread::sleep(Duration::from_secs(3));
        town.check_ceilings();
    }
    town.check(TO_EACH_ITS_OWN);
    // The lease says what time it is, so that we know that the clock was set; and it was never lost.
    let renewed = lease(&town)["spec"]["renewTime"].as_str().unwrap_or_default().to_string();
    let now = quotient_api::time::format_timestamp(quotient_cluster::clock::wall_us());
    assert!(renewed > now, "renewed at {renewed}, and it is {now}");
    assert_eq!(lease(&town)["spec"]["holderIdentity"], first.as_str());
}

#[test]
fn nodes_go_while_pods_are_bound_to_them() {
    let town = Town::new();
    let _daemon = Daemon::start(&town.plane.kubeconfig(), &town.log(), &[]);
    holder(&town, "");
    for round in 0..2 * TEAMS {
        town.want(round % TEAMS, MAX);
        thread::sleep(Duration::from_millis(100 * round as u64));
        let node = town::node(round % town::NODES);
        town.plane.kubectl(&["delete", "node", &node, "--wait=false"]).expect("the node is deleted");
        thread::sleep(Duration::from_millis(300));
        // Nobody runs on a node that is not there; the control plane would find out by itself in a minute.
        for pod in items(&town.plane, "pods").iter().filter(|pod| pod["spec"]["nodeName"] == node.as_str()) {
            let name = |field: &str| pod["metadata"][field].as_str().unwrap_or_default().to_string();
            let (name, namespace) = (name("name"), name("namespace"));
            let _ = town.plane.kubectl(&["delete", "pod", &name, "-n", &namespace, "--force", "--wait=false"]);
        }
        town.make_nodes(&[node]);
        town.check_ceilings();
    }
    town.check(TO_EACH_ITS_OWN);
}

#[test]
fn quotas_are_edited_while_everything_moves() {
    let town = Town::new();
    let _daemon = Daemon::start(&town.plane.kubeconfig(), &town.log(), &[]);
    holder(&town, "");
    // Each round another team is owed most, at another moment after the last edit.
    for round in 0..9 {
        if round < TEAMS {
            town.want(round, MAX);
        }
        for index in 0..TEAMS {
            let min = if index == round % TEAMS { MAX } else { 2 };
            town.set_quota(index, min, MAX);
            thread::sleep(Duration::from_millis(80 * (round as u64 % 4)));
        }
    }
    let mins = [2, 4, 6];
    for (index, min) in mins.into_iter().enumerate() {
        town.set_quota(index, min, MAX);
    }
    town.check(mins);
    // A ceiling that is lowered sends nobody away, and nobody new comes.
    town.set_quota(2, 3, 3);
    let is_running = |pod: &Value| pod["status"]["phase"] == "Running";
    let of_last = || town.pods().into_iter().filter(|pod| pod["metadata"]["namespace"] == team(2).as_str());
    let leaving = of_last().find(is_running).expect("one runs");
    let leaving = leaving["metadata"]["name"].as_str().unwrap_or_default().to_string();
    town.plane.kubectl(&["delete", "pod", &leaving, "-n", &team(2)]).expect("it is deleted");
    eventually(&town.plane, "another is made in its place, and is told why it waits", || {
        let is_told = |pod: &Value| pod["status"]["conditions"][0]["reason"] == "QuotaMaxExceeded";
        (of_last().count() == MAX && of_last().filter(is_told).count() == MAX - 5).then_some(())
    });
    assert_eq!(of_last().filter(is_running).count(), 5);
}
