//! On how many cases a property is tried. Which they are follows from the seed in `.cargo/config.toml`.

use proptest::test_runner::Config;

/// As many cases as `PROPTEST_CASES` asks for, or these.
pub fn cases(count: u32) -> Config {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|v| v.parse().ok()).unwrap_or(count);
    Config { cases, max_shrink_iters: 20_000, failure_persistence: None, ..Config::default() }
}
