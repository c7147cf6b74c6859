//! The story of the demo comes out as it is told, for several seeds and sizes, and the same each time.

use quotient_dashboard::demo::Core;
use quotient_dashboard::demo::story::END_MS;

fn told(seed: u64, nodes: u32) -> Core {
    let mut core = Core::new(seed, nodes, false).expect("the cluster settles");
    core.advance(END_MS).expect("the cluster settles");
    core
}

#[test]
fn every_chapter_comes_out_as_told() {
    for (seed, nodes) in [(1, 60), (7, 96)] {
        let core = told(seed, nodes);
        for chapter in &core.told {
            let outcome = chapter.outcome.as_deref().unwrap_or("never");
            assert!(chapter.as_told, "{} (seed {seed}, {nodes} nodes): {outcome}", chapter.title);
        }
    }
}

#[test]
fn a_seed_gives_the_same_story_each_time() {
    let outcomes = |core: Core| core.told.into_iter().map(|chapter| chapter.outcome).collect::<Vec<_>>();
    let (first, second) = (told(3, 60), told(3, 60));
    assert_eq!(first.view(), second.view());
    assert_eq!(outcomes(first), outcomes(second));
}
