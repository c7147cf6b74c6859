//! What the scheduler tells the process of the dashboard, and that process as the scheduler has it.
//!
//! The dashboard computes for whoever signs in, and so it has a process of its own with bounds on what it takes
//! ([`super::bounds`]): whatever comes to its port, the scheduler goes on. The scheduler gives it a view now and then
//! on its standard input, one JSON text a line, and reads nothing from it. A view that was not taken yet makes way for
//! a newer one; evictions are kept, up to a bound.

use std::io::{BufRead, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use quotient_dashboard::Hub;
use quotient_dashboard::journal::Eviction;
use quotient_dashboard::view::View;
use serde::{Deserialize, Serialize};

/// The most evictions that are kept for a process that does not come up.
const EVICTIONS_MAX: usize = 20_000;

/// How long it is waited before the process is started again: at first, and at most.
const AGAIN_AFTER: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// How often it is looked whether the process still runs.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A view, with the evictions since the one before.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Told {
    view: View,
    evictions: Vec<Eviction>,
}

#[derive(Debug, Default)]
struct Untold {
    view: Option<View>,
    evictions: Vec<Eviction>,
}

/// The process of the dashboard.
pub struct Pages {
    untold: Mutex<Untold>,
    news: Condvar,
}

impl Pages {
    /// Starts the process, and again whenever it ends.
    pub fn begin(arguments: Vec<String>) -> Arc<Self> {
        let pages = Arc::new(Pages { untold: Mutex::default(), news: Condvar::new() });
        let told = Arc::downgrade(&pages);
        thread::spawn(move || {
            let mut pause = AGAIN_AFTER.0;
            while let Some(pages) = told.upgrade() {
                let begun = Instant::now();
                match start(&arguments).map(|child| pages.tell(child)) {
                    Ok(why) => tracing::warn!("the dashboard ended and is started again: {why}"),
                    Err(error) => tracing::warn!("the dashboard cannot be started: {error}"),
                }
                drop(pages);
                pause = if begun.elapsed() > AGAIN_AFTER.1 { AGAIN_AFTER.0 } else { (pause * 2).min(AGAIN_AFTER.1) };
                thread::sleep(pause);
            }
        });
        pages
    }

    fn untold(&self) -> MutexGuard<'_, Untold> {
        self.untold.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A newer view, and the evictions since the one before.
    pub fn publish(&self, view: View, evictions: Vec<Eviction>) {
        let mut untold = self.untold();
        untold.view = Some(view);
        untold.evictions.extend(evictions);
        let excess = untold.evictions.len().saturating_sub(EVICTIONS_MAX);
        untold.evictions.drain(..excess);
        self.news.notify_one();
    }

    /// Tells a process what there is to tell until it ends; says how it did.
    fn tell(&self, mut child: Child) -> String {
        let Some(mut input) = child.stdin.take() else { return "it has no standard input".to_owned() };
        loop {
            let wait = self.news.wait_timeout_while(self.untold(), LOOK_EVERY, |untold| untold.view.is_none());
            let (mut untold, _) = wait.unwrap_or_else(PoisonError::into_inner);
            let told = untold.view.take().map(|view| Told { view, evictions: std::mem::take(&mut untold.evictions) });
            drop(untold);
            match child.try_wait() {
                Ok(None) => {}
                Ok(Some(status)) => return status.to_string(),
                Err(error) => return error.to_string(),
            }
            let Some(told) = told else { continue };
            let line = serde_json::to_vec(&told).map(|mut line| {
                line.push(b'\n');
                line
            });
            let written = line.map_err(std::io::Error::from).and_then(|line| input.write_all(&line));
            if written.is_err() {
                // It has gone, or goes now that nobody tells it anything; the next one shows this view too.
                drop(input);
                let status = child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
                let mut untold = self.untold();
                untold.view.get_or_insert(told.view);
                untold.evictions.splice(..0, told.evictions);
                return status;
            }
        }
    }
}

fn start(arguments: &[String]) -> std::io::Result<Child> {
    let program = std::env::current_exe()?;
    // Standard output is for data, of which it has none; the log goes where ours goes.
    Command::new(program).arg("dashboard").args(arguments).stdin(Stdio::piped()).stdout(Stdio::null()).spawn()
}

/// Takes in what is told until whoever tells it is gone.
pub fn listen(told: impl BufRead, hub: &Hub) -> std::io::Result<()> {
    for line in told.lines() {
        let Told { view, evictions } = serde_json::from_str(&line?)?;
        hub.publish(view, &evictions);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use quotient_dashboard::view::{Phase, PodRow, QuotaRow, Why};

    #[test]
    fn a_view_is_the_same_on_the_other_side() {
        let why = Why {
            code: "NoFittingNode",
            message: "0/1 nodes fit".to_owned(),
            quota: None,
            resource: Some("cpu".to_owned()),
            used: Some(1),
            requested: None,
            limit: None,
            remedies: vec!["wait".to_owned()],
        };
        let pod = PodRow {
            namespace: "a".into(),
            name: "p".into(),
            uid: "1".to_owned(),
            phase: Phase::Pending,
            node: None,
            card: None,
            gpus: 1,
            requests: vec![("cpu".into(), 1000)],
            priority: 0,
            group: None,
            quotas: vec!["Queue/q".into()],
            capacity: Some("over-quota"),
            created_ms: 1,
            started_ms: None,
            why: Some(why.into()),
        };
        let quota = QuotaRow {
            object: "Queue/q".into(),
            kind: "Queue",
            group: "scheduling.volcano.sh",
            namespace: None,
            name: "q".into(),
            policy: "queue",
            parent: None,
            tree: None,
            resources: [("cpu".into(), Default::default())].into(),
            waiting: 1,
        };
        let view = View { at_ms: 7, pods: vec![pod], quotas: vec![quota], nodes: Vec::new(), whole: true };
        let told = Told { view: view.clone(), evictions: Vec::new() };
        let line = serde_json::to_string(&told).expect("it can be written");
        let hub = Hub::new(20_000);
        listen(format!("{line}\n").as_bytes(), &hub).expect("it can be read");
        assert_eq!(*hub.state().view, view);
        assert!(listen("no view\n".as_bytes(), &hub).is_err());
    }
}
