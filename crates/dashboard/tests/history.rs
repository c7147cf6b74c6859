//! The history's means: of whole frames, and of the one that has just begun.

use quotient_dashboard::history::History;
use quotient_dashboard::shared::Name;
use quotient_dashboard::view::{Phase, PodRow, View};
use quotient_dashboard::viewer::Viewer;

fn view(at_ms: i64, gpus: i64) -> View {
    let pod = PodRow {
        namespace: Name::from("vision"),
        name: Name::from("train"),
        uid: "1".to_owned(),
        phase: Phase::Running,
        node: Some(Name::from("n-0")),
        card: Some("A100".to_owned()),
        gpus,
        requests: Vec::new(),
        priority: 0,
        group: None,
        quotas: Vec::new(),
        capacity: None,
        created_ms: 0,
        started_ms: Some(0),
        why: None,
    };
    View { at_ms, pods: if gpus > 0 { vec![pod] } else { Vec::new() }, whole: true, ..View::default() }
}

fn cards(moments: &[(i64, i64)]) -> Vec<f64> {
    let mut history = History::new(10_000);
    moments.iter().for_each(|(at_ms, gpus)| history.observe(&view(*at_ms, *gpus), &[]));
    history.series(&Viewer::All).cards.get("A100").cloned().unwrap_or_default()
}

#[test]
fn a_frame_that_has_just_begun_shows_what_is_in_use() {
    assert_eq!(cards(&[(0, 8), (10_000, 8)]), [8.0, 8.0]);
}

#[test]
fn a_pod_that_has_ended_counts_in_the_frame_in_which_it_ran() {
    assert_eq!(cards(&[(0, 8), (5_000, 0), (12_000, 0)]), [4.0, 0.0]);
}
