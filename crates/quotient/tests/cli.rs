//! What people type and what they get: stdout, stderr and the exit code of the built program, as snapshots.
//!
//! After a change that was meant: `INSTA_UPDATE=always cargo test -p quotient --test it cli::`, then read the
//! difference.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A folder of its own for a test, with these files in it.
struct Folder(PathBuf);

impl Folder {
    fn with(name: &str, files: &[(&str, &str)]) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cli-{name}"));
        if path.exists() {
            fs::remove_dir_all(&path).expect("the folder of an earlier run can be removed");
        }
        fs::create_dir_all(&path).expect("a folder can be made");
        for (file, text) in files {
            fs::write(path.join(file), text).expect("a file can be written");
        }
        Folder(path)
    }

    /// Runs the program in the folder, and shows all that it did.
    fn run(&self, arguments: &[&str]) -> String {
        let output = command(&self.0, env!("CARGO_BIN_EXE_quotient")).args(arguments).output().expect("it runs");
        show(&output)
    }
}

fn command(folder: &Path, program: &str) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder).stdin(Stdio::null()).env("NO_COLOR", "1").env_remove("RUST_BACKTRACE");
    command
}

fn show(output: &std::process::Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let code = output.status.code().map_or("none".into(), |code| code.to_string());
    format!("exit code {code}\n--- stdout\n{out}--- stderr\n{err}")
}

const NODE: &str = "\
apiVersion: v1
kind: Node
metadata: {name: n-0}
status: {allocatable: {cpu: '4', memory: 16Gi, pods: '110'}}
";

fn pod(name: &str, cpu: &str) -> String {
    format!(
        "---
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: a}}
spec: {{containers: [{{name: c, image: i, resources: {{requests: {{cpu: {cpu}}}}}}}]}}
"
    )
}

fn scenario(step: &str) -> String {
    format!(
        "apiVersion: quotient.dev/v1alpha1
kind: Scenario
metadata: {{name: small}}
spec:
  steps:
  - name: a node and a pod
    nodes: [{{name: n-0, allocatable: {{cpu: '4', memory: 16Gi, pods: '110'}}}}]
    pods: [{{namespace: a, name: p, count: 3, requests: {{cpu: '2'}}}}]
{step}"
    )
}

#[test]
fn help_says_what_there_is() {
    let folder = Folder::with("help", &[]);
    insta::assert_snapshot!("help", folder.run(&["--help"]));
    insta::assert_snapshot!("help-simulate", folder.run(&["simulate", "--help"]));
    insta::assert_snapshot!("help-explain", folder.run(&["explain", "--help"]));
    insta::assert_snapshot!("help-tree", folder.run(&["tree", "--help"]));
    insta::assert_snapshot!("help-top", folder.run(&["top", "--help"]));
    insta::assert_snapshot!("help-plan", folder.run(&["plan", "--help"]));
    insta::assert_snapshot!("help-snapshot", folder.run(&["snapshot", "--help"]));
    insta::assert_snapshot!("help-test", folder.run(&["test", "--help"]));
    insta::assert_snapshot!("help-lint", folder.run(&["lint", "--help"]));
    insta::assert_snapshot!("help-run", folder.run(&["run", "--help"]));
    insta::assert_snapshot!("help-install", folder.run(&["install", "--help"]));
    insta::assert_snapshot!("help-bench", folder.run(&["bench", "--help"]));
}

#[test]
fn the_version_is_the_package_version() {
    let shown = Folder::with("version", &[]).run(&["--version"]);
    assert_eq!(shown, format!("exit code 0\n--- stdout\nquotient {}\n--- stderr\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn mistakes_on_the_command_line_end_with_2() {
    let folder = Folder::with("usage", &[]);
    insta::assert_snapshot!("usage-no-command", folder.run(&["simulat"]));
    insta::assert_snapshot!("usage-no-file", folder.run(&["simulate"]));
    insta::assert_snapshot!("usage-format", folder.run(&["simulate", "-o", "xml", "a.yaml"]));
    insta::assert_snapshot!("usage-bench", folder.run(&["bench", "--nodes", "0"]));
}

#[cfg(unix)]
#[test]
fn as_a_plugin_it_answers_to_kubectl() {
    let folder = Folder::with("plugin", &[]);
    let link = folder.0.join("kubectl-quotient");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_quotient"), &link).expect("a link can be made");
    for (verb, usage) in [("test", "test [OPTIONS]"), ("explain", "explain POD [OPTIONS]")] {
        let output = command(&folder.0, &link.to_string_lossy()).args([verb, "--help"]).output().expect("it runs");
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(shown.contains(&format!("Usage: kubectl quotient {usage}")), "{shown}");
    }
}

#[test]
fn simulate_tells_the_story_of_the_first_steps() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let run = |format: &str| {
        let arguments = ["simulate", "-o", format, "first-steps"];
        show(&command(&example, env!("CARGO_BIN_EXE_quotient")).args(arguments).output().expect("it runs"))
    };
    insta::assert_snapshot!("first-steps-table", run("table"));
    insta::assert_snapshot!("first-steps-json", run("json"));
    insta::assert_snapshot!("first-steps-yaml", run("yaml"));
}

#[test]
fn simulate_reads_standard_input() {
    let folder = Folder::with("stdin", &[("cluster.yaml", &format!("{NODE}{}", pod("p", "1")))]);
    let file = fs::File::open(folder.0.join("cluster.yaml")).expect("it was just written");
    let output = command(&folder.0, env!("CARGO_BIN_EXE_quotient"))
        .args(["simulate", "-"])
        .stdin(Stdio::from(file))
        .output()
        .expect("it runs");
    insta::assert_snapshot!("simulate-stdin", show(&output));
}

#[test]
fn simulate_reports_problems_and_goes_on() {
    let text = format!(
        "{NODE}{}---\n{NODE}{}---\napiVersion: v1\nkind: Podd\nmetadata: {{name: q}}\n---\nkind: Node\n---\na: [1\n",
        pod("p", "1"),
        pod("wrong", "1.5GB"),
    );
    let folder = Folder::with("problems", &[("cluster.yaml", &text)]);
    insta::assert_snapshot!("simulate-problems", folder.run(&["simulate", "cluster.yaml"]));
    insta::assert_snapshot!("simulate-problems-json", folder.run(&["simulate", "-o", "json", "cluster.yaml"]));
}

#[test]
fn simulate_without_a_single_object_is_a_mistake() {
    let folder = Folder::with(
        "bad-input",
        &[
            ("not-yaml.yaml", "a: [1\nb: }\n"),
            ("empty.yaml", ""),
            ("text.yaml", "just text\n"),
            ("unknown-kind.yaml", "apiVersion: v1\nkind: Podd\nmetadata: {name: q}\n"),
            ("no-name.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {}\n"),
            ("config.yaml", "reserveAfer: 5m\n"),
            ("node.yaml", NODE),
        ],
    );
    for name in ["not-yaml", "empty", "text", "unknown-kind", "no-name", "gone"] {
        insta::assert_snapshot!(format!("bad-{name}"), folder.run(&["simulate", &format!("{name}.yaml")]));
    }
    insta::assert_snapshot!("bad-config", folder.run(&["simulate", "--config", "config.yaml", "node.yaml"]));
}

#[test]
fn simulate_leaves_other_schedulers_pods_alone() {
    let folder = Folder::with("other-scheduler", &[("cluster.yaml", &format!("{NODE}{}", pod("p", "1")))]);
    insta::assert_snapshot!(
        "simulate-scheduler-name",
        folder.run(&["simulate", "--scheduler-name", "quotient", "cluster.yaml"])
    );
}

#[test]
fn a_reader_who_has_seen_enough_is_no_error() {
    let folder = Folder::with("closed-pipe", &[("cluster.yaml", NODE)]);
    let mut child = command(&folder.0, env!("CARGO_BIN_EXE_quotient"))
        .args(["simulate", "-o", "json", "cluster.yaml"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(show(&output), "exit code 0\n--- stdout\n--- stderr\n");
}

/// The exit code of a command whose reader goes away at once.
fn unread(folder: &Folder, arguments: &[&str]) -> Option<i32> {
    let mut child = command(&folder.0, env!("CARGO_BIN_EXE_quotient"))
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    drop(child.stdout.take());
    child.wait_with_output().expect("it ends").status.code()
}

#[test]
fn a_failure_is_one_whether_it_is_read_or_not() {
    let bad = scenario("    expect: {boundCount: {a: 3}}\n");
    let quota = "apiVersion: scheduling.x-k8s.io/v1alpha1\nkind: ElasticQuota\nmetadata: {name: q, namespace: a}\nspec: {mim: {cpu: '1'}}\n";
    let folder = Folder::with("unread", &[("bad.yaml", &bad), ("quota.yaml", quota)]);
    assert_eq!(unread(&folder, &["test", "bad.yaml"]), Some(1));
    assert_eq!(unread(&folder, &["lint", "quota.yaml"]), Some(1));
}

#[test]
fn names_cannot_forge_lines() {
    let pod = "apiVersion: v1
kind: Pod
metadata: {name: p, namespace: a, annotations: {scheduling.volcano.sh/queue-name: \"x\\n\\e[2Jforged: line\"}}
spec: {schedulingGates: [{name: \"g\\e[31m\"}], containers: [{name: c, image: i}]}
";
    let folder = Folder::with("forged", &[("f.yaml", &format!("{NODE}---\n{pod}"))]);
    for arguments in
        [&["simulate", "f.yaml"][..], &["explain", "a/p", "-f", "f.yaml"], &["simulate", "-o", "wide", "f.yaml"]]
    {
        let shown = folder.run(arguments);
        assert!(!shown.contains('\u{1b}') && !shown.contains("\nforged"), "{arguments:?}: {shown}");
    }
}

#[test]
fn kinds_without_bearing_are_told_of_once() {
    let mut text = format!("{NODE}{}", pod("p", "1"));
    for i in 0..3 {
        text += &format!("---\napiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {{name: i-{i}}}\n");
    }
    let folder = Folder::with("chart", &[("chart.yaml", &text), ("node.yaml", NODE)]);
    let expected = "note: ignored 3 Ingress (networking.k8s.io)\n";
    for (arguments, code) in [
        (&["simulate", "chart.yaml"][..], 0),
        (&["explain", "--try", "chart.yaml", "-f", "node.yaml"], 0),
        (&["plan", "-f", "chart.yaml", "--on", "node.yaml"], 0),
        (&["lint", "chart.yaml"], 0),
        (&["tree", "-f", "chart.yaml"], 0),
    ] {
        let shown = folder.run(arguments);
        assert!(shown.starts_with(&format!("exit code {code}\n")), "{arguments:?}: {shown}");
        assert!(shown.ends_with(expected), "{arguments:?}: {shown}");
    }
    assert!(folder.run(&["-q", "tree", "-f", "chart.yaml"]).ends_with("--- stderr\n"));
}

#[test]
fn joined_documents_are_refused_by_every_command() {
    let folder = Folder::with("joined", &[("joined.yaml", &format!("{NODE}{NODE}"))]);
    for arguments in [&["simulate", "joined.yaml"][..], &["tree", "-f", "joined.yaml"], &["lint", "joined.yaml"]] {
        let shown = folder.run(arguments);
        assert!(shown.starts_with("exit code 2\n--- stdout\n--- stderr\nerror: joined.yaml:5:1: "), "{shown}");
        assert!(shown.contains("joined without a line of"), "{shown}");
    }
}

#[test]
fn the_taint_in_the_way_is_named_and_the_remedies_were_tried() {
    let node = "apiVersion: v1
kind: Node
metadata: {name: spot-1}
spec: {taints: [{key: cloud.google.com/gke-spot, value: 'true', effect: NoSchedule}]}
status: {allocatable: {cpu: '4', memory: 16Gi, pods: '110'}}
";
    let folder = Folder::with("taint", &[("f.yaml", &format!("{node}{}", pod("p", "1")))]);
    insta::assert_snapshot!("explain-taint", folder.run(&["explain", "p", "-f", "f.yaml"]));
    insta::assert_snapshot!("explain-taint-json", folder.run(&["explain", "p", "-f", "f.yaml", "-o", "json"]));
}

#[test]
fn test_says_what_was_expected_and_found() {
    let good = scenario("    expect: {boundCount: {a: 2}, pending: {a/p-2: NoFittingNode}}\n");
    let bad =
        scenario("    expect: {bound: {a/p-2: n-0}, pending: {a/p-0: '*'}, boundCount: {a: 3}, evicted: [a/p-1]}\n");
    let folder = Folder::with("scenarios", &[("good.yaml", &good), ("bad.yaml", &bad)]);
    insta::assert_snapshot!("test-good", folder.run(&["test", "good.yaml"]));
    insta::assert_snapshot!("test-good-json", folder.run(&["test", "-o", "json", "good.yaml"]));
    insta::assert_snapshot!("test-bad", folder.run(&["test", "."]));
    insta::assert_snapshot!("test-bad-json", folder.run(&["test", "-o", "json", "bad.yaml"]));
}

#[test]
fn test_writes_junit() {
    let bad = scenario("    expect: {boundCount: {a: 3}}\n");
    let folder = Folder::with("junit", &[("bad.yaml", &bad)]);
    let shown = folder.run(&["test", "--junit", "report.xml", "bad.yaml"]);
    assert!(shown.starts_with("exit code 1\n"), "{shown}");
    let report = fs::read_to_string(folder.0.join("report.xml")).expect("the report was written");
    assert!(report.contains("<testsuites tests=\"1\" failures=\"1\" errors=\"0\">"), "{report}");
    assert!(report.contains("<failure message="), "{report}");
}

#[test]
fn test_refuses_scenarios_that_cannot_be_read() {
    let valid = scenario("");
    let cases: &[(&str, String)] = &[
        ("not-yaml", "a: [1\n".into()),
        ("no-scenario", NODE.into()),
        ("unknown-key", scenario("    expct: {bound: {}}\n")),
        ("unknown-expectation", scenario("    expect: {bond: {}}\n")),
        ("unknown-code", scenario("    expect: {pending: {a/p-2: NoFitingNode}}\n")),
        ("wrong-type", scenario("    wait: [3m]\n")),
        ("duplicate-key", scenario("    wait: 3m\n    wait: 4m\n")),
        ("quantity", scenario("    expect: {nodes: {n-0: {used: {cpu: 1.5GB}}}}\n")),
        ("no-steps", "apiVersion: quotient.dev/v1alpha1\nkind: Scenario\nmetadata: {name: s}\nspec: {}\n".into()),
        ("no-name", valid.replace("namespace: a, name: p,", "namespace: a,")),
        ("object", scenario("    delete: [Podd/a/p]\n")),
        ("file", scenario("    applyFiles: [gone.yaml]\n")),
    ];
    let files: Vec<(String, &str)> = cases.iter().map(|(name, text)| (format!("{name}.yaml"), text.as_str())).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), *text)).collect();
    let folder = Folder::with("bad-scenarios", &files);
    for (name, _) in cases {
        let shown = folder.run(&["test", &format!("{name}.yaml")]);
        assert!(shown.starts_with("exit code 2\n--- stdout\n--- stderr\nerror: "), "{name}: {shown}");
        insta::assert_snapshot!(format!("scenario-{name}"), shown);
    }
}

/// Two quotas that four GPUs could serve one at a time, one that is refused, and one for GPUs that no node has.
const QUOTAS: &str = "\
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: ElasticQuota
metadata: {name: first, namespace: a}
spec: {min: {nvidia.com/gpu: 3}, max: {nvidia.com/gpu: 4}}
---
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: ElasticQuota
metadata: {name: second, namespace: a}
---
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: ElasticQuota
metadata: {name: upside-down, namespace: b}
spec: {min: {nvidia.com/gpu: 4, cpu: -1}, max: {nvidia.com/gpu: 2}}
---
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: ElasticQuota
metadata: {name: third, namespace: b}
spec: {min: {nvidia.com/gpu: 2, example.com/npu: 1}}
";

const GPU_NODE: &str = "\
apiVersion: v1
kind: Node
metadata: {name: gpu-0}
status: {allocatable: {cpu: '8', memory: 32Gi, nvidia.com/gpu: '4', pods: '110'}}
";

#[test]
fn lint_says_what_admission_would_and_what_cannot_be_kept() {
    let files = [("broken.yaml", "kind: [\n"), ("nodes.yaml", GPU_NODE), ("quotas.yaml", QUOTAS)];
    let folder = Folder::with("lint", &files);
    insta::assert_snapshot!("lint", folder.run(&["lint", "quotas.yaml", "nodes.yaml"]));
    insta::assert_snapshot!("lint-json", folder.run(&["lint", "-o", "json", "quotas.yaml", "nodes.yaml"]));
    insta::assert_snapshot!("lint-clean", folder.run(&["lint", "nodes.yaml"]));
    insta::assert_snapshot!("lint-unreadable", folder.run(&["lint", "broken.yaml", "nodes.yaml"]));
}

#[test]
fn simulate_shows_quotas() {
    let pods = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: a}\nspec: {containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 4}}}]}\n";
    let folder = Folder::with("quotas", &[("1.yaml", GPU_NODE), ("2.yaml", QUOTAS), ("3.yaml", pods)]);
    insta::assert_snapshot!("simulate-quotas", folder.run(&["simulate", "."]));
}

#[test]
fn install_prints_what_a_cluster_needs() {
    let config = "apiVersion: quotient.dev/v1alpha1\nkind: QuotientConfiguration\nschedulerNames: [volcano]\n";
    let folder = Folder::with("install", &[("quotient.yaml", config), ("broken.yaml", "schedulerNames: 3\n")]);
    let all = folder.run(&["install", "--config", "quotient.yaml", "--namespace", "scheduling", "--replicas", "3"]);
    // The definitions of kinds have snapshots of their own.
    let is_other = |document: &&str| !document.contains("kind: CustomResourceDefinition");
    let documents: Vec<&str> = all.split("---\n").filter(is_other).collect();
    insta::assert_snapshot!("install", documents.join("---\n"));
    let outside = ["install", "--systems", "tree", "--webhook-url", "https://127.0.0.1:9443", "-o", "json"];
    let output = command(&folder.0, env!("CARGO_BIN_EXE_quotient")).args(outside).output().expect("it runs");
    let list: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let kinds: Vec<&str> =
        list["items"].as_array().expect("a list").iter().filter_map(|o| o["kind"].as_str()).collect();
    insta::assert_snapshot!("install-outside", kinds.join("\n"));
    insta::assert_snapshot!("install-broken-config", folder.run(&["install", "--config", "broken.yaml"]));
}

#[test]
fn bench_measures_what_it_is_asked_for() {
    let folder = Folder::with("bench", &[]);
    let arguments = ["bench", "--nodes", "200,400", "--pods", "100", "--shapes", "3", "--rounds", "1", "-o", "json"];
    let output = command(&folder.0, env!("CARGO_BIN_EXE_quotient")).args(arguments).output().expect("it runs");
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let cases = answer["cases"].as_array().expect("it has cases");
    assert_eq!(cases.len(), 4);
    for case in cases {
        assert_eq!(case["decided"], 100, "every pod is placed: {case}");
        assert!(case["decisionsPerSecond"].as_u64().is_some_and(|rate| rate > 0), "{case}");
    }
    assert_eq!(answer["growth"][0]["fromNodes"], 200);
}

#[test]
fn a_bug_says_so_in_one_line_and_ends_with_70() {
    let folder = Folder::with("bug", &[]);
    // The flag is not for people: sizes that no flag for people allows make it fail.
    let shown = folder.run(&["bench", "--case", r#"{"case": "plain", "nodes": 1, "pods": 1, "shapes": 0}"#]);
    let expected = "exit code 70\n--- stdout\n--- stderr\nbug: attempt to calculate the remainder";
    assert!(shown.starts_with(expected), "{shown}");
    assert!(shown.ends_with(": please report this, with the input that led to it\n"), "{shown}");
    assert_eq!(shown.lines().count(), 4, "{shown}");
}

const VOLCANO_CONF: &str = "\
actions: 'enqueue, allocate, backfill'
tiers:
- plugins:
  - name: gang
  - name: crossquota
    arguments: {gpu-resource-names: nvidia.com/gpu, quota-resources: 'cpu,memory', quota.cpu: 4, quota-percentage.memory: 50}
";

const CAPPED_NODES: &str = "\
apiVersion: v1
kind: Node
metadata: {name: gpu-0}
status: {allocatable: {cpu: '32', memory: 64Gi, nvidia.com/gpu: '4', pods: '110'}}
---
apiVersion: v1
kind: Node
metadata: {name: gpu-1, annotations: {volcano.sh/crossquota-cpu: '2', volcano.sh/crossquota-memory: lots}}
status: {allocatable: {cpu: '32', memory: 64Gi, nvidia.com/gpu: '4', pods: '110'}}
---
apiVersion: v1
kind: Node
metadata: {name: small}
status: {allocatable: {cpu: '1', memory: 64Gi, pods: '110'}}
";

#[test]
fn caps_are_read_from_a_volcano_scheduler_and_explained() {
    let bad = VOLCANO_CONF.replace("quota.cpu: 4", "quota.cpu: four");
    let none = VOLCANO_CONF.replace("nvidia.com/gpu", "nvidia.com/gpus");
    let pods = format!("{}{}{}", pod("a", "2"), pod("b", "2"), pod("c", "5"));
    let files = [
        ("conf.yaml", VOLCANO_CONF),
        ("bad.yaml", &bad),
        ("none.yaml", &none),
        ("1.yaml", CAPPED_NODES),
        ("2.yaml", &pods),
    ];
    let folder = Folder::with("caps", &files);
    insta::assert_snapshot!("simulate-caps", folder.run(&["simulate", "--config", "conf.yaml", "1.yaml", "2.yaml"]));
    insta::assert_snapshot!("simulate-bad-caps", folder.run(&["simulate", "--config", "bad.yaml", "1.yaml"]));
    insta::assert_snapshot!("lint-caps", folder.run(&["lint", "--config", "conf.yaml", "1.yaml"]));
    insta::assert_snapshot!("lint-caps-without-effect", folder.run(&["lint", "--config", "none.yaml", "1.yaml"]));
}

/// Runs the program beside the examples.
fn run_examples(arguments: &[&str]) -> String {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    show(&command(&examples, env!("CARGO_BIN_EXE_quotient")).args(arguments).output().expect("it runs"))
}

/// The first three steps of two teams that share ten GPUs.
const TWO_TEAMS: [&str; 3] =
    ["two-teams/1-cluster.yaml", "two-teams/2-research-borrows.yaml", "two-teams/3-vision-claims.yaml"];

#[test]
fn explain_says_why_a_pod_waits_runs_or_had_to_go() {
    let explain = |pod: &str, format: &str| run_examples(&["explain", pod, "-f", "two-teams", "-o", format]);
    insta::assert_snapshot!("explain-waits", explain("vision/evaluate", "table"));
    insta::assert_snapshot!("explain-waits-json", explain("vision/evaluate", "json"));
    insta::assert_snapshot!("explain-waits-yaml", explain("vision/evaluate", "yaml"));
    insta::assert_snapshot!("explain-runs", explain("train", "table"));
    insta::assert_snapshot!("explain-evicted", explain("research/sweep-z77mztggdt-4vfxz", "table"));
    insta::assert_snapshot!("explain-evicted-json", explain("research/sweep-z77mztggdt-4vfxz", "json"));
    let waits = run_examples(&["explain", "training-mt5dswjr9v-4nnqn", "-n", "research", "-f", "first-steps"]);
    insta::assert_snapshot!("explain-filters", waits);
}

#[test]
fn explain_tries_out_what_is_not_submitted_yet() {
    let try_out = |file: &str, files: &[&str]| run_examples(&[&["explain", "--try", file, "-f"], files].concat());
    let [cluster, borrows, claims] = TWO_TEAMS;
    insta::assert_snapshot!("explain-try-runs", try_out(claims, &[cluster, borrows]));
    insta::assert_snapshot!("explain-try-waits", try_out("two-teams/4-beyond-what-is-owed.yaml", &TWO_TEAMS));
    insta::assert_snapshot!("explain-try-some", try_out(borrows, &[cluster]));
    insta::assert_snapshot!("explain-try-some-json", try_out(borrows, &[cluster, "-o", "json"]));
    // Four of nine find no room: one is told of in full, and the others are named.
    insta::assert_snapshot!("explain-try-alike", try_out(borrows, &[cluster, claims]));
    let refused = pod("p", "-1");
    let folder = Folder::with("try", &[("node.yaml", NODE), ("refused.yaml", &refused), ("broken.yaml", "a: [1\n")]);
    insta::assert_snapshot!(
        "explain-try-refused",
        folder.run(&["explain", "--try", "refused.yaml", "-f", "node.yaml"])
    );
    insta::assert_snapshot!("explain-try-broken", folder.run(&["explain", "--try", "broken.yaml", "-f", "node.yaml"]));
}

#[test]
fn explain_needs_a_pod_that_there_is() {
    let pods = format!("{NODE}{}{}", pod("web-0", "1"), pod("web-0", "1").replace("namespace: a", "namespace: b"));
    let folder = Folder::with("no-such-pod", &[("cluster.yaml", &pods), ("node.yaml", NODE)]);
    let explain = |pod: &[&str], file: &str| {
        let shown = folder.run(&[&["explain"], pod, &["-f", file]].concat());
        assert!(shown.starts_with("exit code 2\n--- stdout\n--- stderr\n"), "{shown}");
        shown.lines().skip(3).map(str::to_owned).collect::<Vec<_>>().join("\n")
    };
    let cases: &[(&[&str], &str, &str)] = &[
        (&["a/web-1"], "cluster.yaml", r#"error: no pod "a/web-1": did you mean a/web-0 or b/web-0?"#),
        (&["web-1", "-n", "b"], "cluster.yaml", r#"error: no pod "b/web-1": did you mean b/web-0 or a/web-0?"#),
        (&["shop/database"], "cluster.yaml", r#"error: no pod "shop/database": none of the 2 pods has a name like it"#),
        (&["web-0"], "cluster.yaml", r#"error: several pods are called "web-0": write one of a/web-0, b/web-0"#),
        (
            &["a/web-0", "-n", "b"],
            "cluster.yaml",
            r#"error: the pod "a/web-0" and --namespace "b" name two namespaces"#,
        ),
        (&["x"], "node.yaml", r#"error: no pod "x": the cluster has no pods"#),
        (&[], "node.yaml", "error: no pod is named: write NAMESPACE/NAME before -f, or try a file out with --try FILE"),
    ];
    for (pod, file, expected) in cases {
        assert_eq!(explain(pod, file), *expected);
    }
    assert!(folder.run(&["explain", "pod/web-0", "-n", "b", "-f", "cluster.yaml"]).contains("b/web-0 runs on n-0"));
}

/// Seven GPU nodes whose caps close them: one that holds more than its cap, one with a taint besides.
fn capped_cluster() -> String {
    let node = |i: usize| {
        let taints = if i == 3 { "spec: {taints: [{key: maintenance, effect: NoSchedule}]}\n" } else { "" };
        let cap = if i == 6 { 8 } else { 4 };
        format!(
            "---
apiVersion: v1
kind: Node
metadata: {{name: gpu-{i}, annotations: {{volcano.sh/crossquota-cpu: '{cap}'}}}}
{taints}status: {{allocatable: {{cpu: '32', memory: 64Gi, nvidia.com/gpu: '4', pods: '110'}}}}
"
        )
    };
    let nodes: String = (0..7).map(node).collect();
    let running = pod("running", "9").replace("spec: {", "spec: {nodeName: gpu-6, ");
    format!("{nodes}---\n{NODE}{running}{}", pod("batch", "5"))
}

#[test]
fn explain_and_tree_show_which_nodes_are_closed_by_which_cap() {
    let cluster = capped_cluster();
    let folder = Folder::with("closed-by-caps", &[("conf.yaml", VOLCANO_CONF), ("cluster.yaml", &cluster)]);
    let run = |arguments: &[&str]| folder.run(&[arguments, &["-f", "cluster.yaml", "--config", "conf.yaml"]].concat());
    insta::assert_snapshot!("explain-caps", run(&["explain", "batch"]));
    insta::assert_snapshot!("explain-caps-wide", run(&["explain", "batch", "-o", "wide"]));
    insta::assert_snapshot!("explain-caps-json", run(&["explain", "batch", "-o", "json"]));
    insta::assert_snapshot!("tree-caps", run(&["tree"]));
    insta::assert_snapshot!("tree-caps-json", run(&["tree", "-o", "json"]));
}

/// Two fair quotas, one of which borrows.
const FAIR: &str = "\
---
apiVersion: nos.nebuly.com/v1alpha1
kind: ElasticQuota
metadata: {name: first, namespace: a}
spec: {min: {cpu: 1}, max: {cpu: 3}}
---
apiVersion: nos.nebuly.com/v1alpha1
kind: CompositeElasticQuota
metadata: {name: others, namespace: b}
spec: {namespaces: [b, c], min: {cpu: 3, memory: 4Gi}}
";

#[test]
fn tree_and_top_show_how_quotas_and_nodes_stand() {
    insta::assert_snapshot!("tree", run_examples(&["tree", "-f", "two-teams"]));
    insta::assert_snapshot!("tree-json", run_examples(&["tree", "-f", "two-teams", "-o", "json"]));
    insta::assert_snapshot!("top", run_examples(&["top", "-f", "two-teams"]));
    insta::assert_snapshot!("top-json", run_examples(&["top", "-f", "two-teams", "-o", "json"]));
    insta::assert_snapshot!("top-by", run_examples(&["top", "-f", "first-steps", "--by", "cpu"]));
    insta::assert_snapshot!("top-by-unknown", run_examples(&["top", "-f", "first-steps", "--by", "gpu"]));
    let cluster = format!("{NODE}{FAIR}{}{}{}---\nkind: Podd\n", pod("p", "1"), pod("q", "1"), pod("bad", "x"));
    let folder = Folder::with("fair", &[("cluster.yaml", &cluster)]);
    insta::assert_snapshot!("tree-fair", folder.run(&["tree", "-f", "cluster.yaml"]));
    insta::assert_snapshot!("explain-over-quota", folder.run(&["explain", "q", "-f", "cluster.yaml"]));
    // Two pools refuse the pod, and no node is large enough for it.
    let both = format!("{cluster}---\n{QUOTAS}{}", pod("large", "5"));
    let folder = Folder::with("two-pools", &[("cluster.yaml", &both.replace("nvidia.com/gpu", "cpu"))]);
    insta::assert_snapshot!("explain-two-pools", folder.run(&["explain", "large", "-f", "cluster.yaml"]));
    insta::assert_snapshot!("tree-empty", folder.run(&["tree", "-f", "gone.yaml"]));
}

/// Two quotas below a third, and more pods of one of them than it may hold.
const QUOTA_TREE: &str = "\
apiVersion: v1
kind: Node
metadata: {name: n}
status: {allocatable: {cpu: '20', memory: 100Gi, pods: '110'}}
---
apiVersion: scheduling.sigs.k8s.io/v1alpha1
kind: ElasticQuota
metadata: {name: all, namespace: kube-system, labels: {quota.scheduling.koordinator.sh/is-parent: 'true'}}
spec: {min: {cpu: 12, memory: 20Gi}, max: {cpu: 16, memory: 40Gi}}
---
apiVersion: scheduling.sigs.k8s.io/v1alpha1
kind: ElasticQuota
metadata: {name: a, namespace: a, labels: {quota.scheduling.koordinator.sh/parent: all}}
spec: {min: {cpu: 4, memory: 10Gi}, max: {cpu: 16, memory: 40Gi}}
---
apiVersion: scheduling.sigs.k8s.io/v1alpha1
kind: ElasticQuota
metadata: {name: b, namespace: b, labels: {quota.scheduling.koordinator.sh/parent: all}}
spec: {min: {cpu: 8, memory: 10Gi}, max: {cpu: 16, memory: 40Gi}}
";

#[test]
fn trees_of_quotas_are_shown_and_explained() {
    let pods: String = (0..4).map(|i| pod(&format!("p-{i}"), "5")).collect();
    let claims = pod("claims", "5").replace("namespace: a", "namespace: b");
    let cluster = format!("{QUOTA_TREE}{pods}");
    let folder = Folder::with("quota-tree", &[("cluster.yaml", &cluster), ("claims.yaml", &claims)]);
    insta::assert_snapshot!("tree-of-quotas", folder.run(&["tree", "-f", "cluster.yaml"]));
    insta::assert_snapshot!("explain-tree", folder.run(&["explain", "p-3", "-f", "cluster.yaml"]));
    let plan = ["plan", "-f", "claims.yaml", "--on", "cluster.yaml", "--wait", "10m"];
    insta::assert_snapshot!("plan-tree", folder.run(&plan));
}

/// Research is entitled to less, vision to more.
const OTHER_QUOTAS: &str = "\
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: ElasticQuota
metadata: {name: research, namespace: research}
spec: {min: {nvidia.com/gpu: 2}, max: {nvidia.com/gpu: 8}}
---
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: ElasticQuota
metadata: {name: vision, namespace: vision}
spec: {min: {nvidia.com/gpu: 8}}
";

#[test]
fn plan_says_what_a_change_of_quotas_would_do() {
    let upside_down = OTHER_QUOTAS.replace("max: {nvidia.com/gpu: 8}", "max: {nvidia.com/gpu: 1}");
    let lower = OTHER_QUOTAS.replace("min: {nvidia.com/gpu: 8}", "min: {nvidia.com/gpu: 6}");
    let files = [("change.yaml", OTHER_QUOTAS), ("refused.yaml", &upside_down), ("lower.yaml", &lower)];
    let folder = Folder::with("plan", &files);
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/two-teams");
    let on = examples.to_string_lossy();
    let plan = |change: &str, more: &[&str]| folder.run(&[&["plan", "-f", change, "--on", &on], more].concat());
    insta::assert_snapshot!("plan", plan("change.yaml", &[]));
    insta::assert_snapshot!("plan-json", plan("change.yaml", &["-o", "json"]));
    insta::assert_snapshot!("plan-refused", plan("refused.yaml", &[]));
    insta::assert_snapshot!("plan-over-quota", plan("lower.yaml", &["--wait", "10m"]));
    let same = ["plan", "-f", "two-teams/1-cluster.yaml", "--on", "two-teams"];
    insta::assert_snapshot!("plan-nothing", run_examples(&same));
    let twice =
        "exit code 2\n--- stdout\n--- stderr\nerror: `-` is named twice: standard input can be read only once\n";
    assert_eq!(run_examples(&["plan", "-f", "-", "--on", "-"]), twice);
    assert_eq!(run_examples(&["explain", "--try", "-", "-f", "-"]), twice);
    assert_eq!(run_examples(&["simulate", "-", "-"]), twice);
}

/// Runs the program on a terminal of its own.
fn on_a_terminal(folder: &Folder, arguments: &str, variables: &[(&str, &str)]) -> String {
    let line = format!("{} {arguments}", env!("CARGO_BIN_EXE_quotient"));
    let mut script = command(&folder.0, "script");
    script.args(["-qec", &line, "/dev/null"]).env_remove("NO_COLOR").env("TERM", "xterm").env("CI", "1");
    script.envs(variables.iter().copied());
    let output = script.output().expect("script(1) of util-linux runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn long_answers_go_through_a_pager_on_a_terminal() {
    let folder = Folder::with("pager", &[("n.yaml", NODE)]);
    let pager = ("PAGER", "sed s/^/paged:/");
    let shown = on_a_terminal(&folder, "top -f n.yaml", &[pager]);
    assert!(shown.lines().all(|line| line.starts_with("paged:")) && shown.contains("n-0"), "{shown}");
    assert!(shown.contains('\u{1b}'), "colours: {shown:?}");
    let own = on_a_terminal(&folder, "top -f n.yaml", &[pager, ("QUOTIENT_PAGER", "sed s/^/own:/")]);
    assert!(own.starts_with("own:"), "{own}");
    for (arguments, variables) in [
        ("top -f n.yaml --no-pager", &[pager][..]),
        ("top -f n.yaml", &[pager, ("TERM", "dumb")]),
        ("top -f n.yaml -o json", &[pager]),
        ("top -f n.yaml", &[("PAGER", "")]),
    ] {
        let shown = on_a_terminal(&folder, arguments, variables);
        assert!(!shown.contains("paged:") && shown.contains("n-0"), "{arguments}: {shown}");
    }
    let dumb = on_a_terminal(&folder, "top -f n.yaml", &[("TERM", "dumb")]);
    assert!(!dumb.contains('\u{1b}'), "{dumb:?}");
    assert!(!on_a_terminal(&folder, "top -f n.yaml --color never --no-pager", &[]).contains('\u{1b}'));
}

#[test]
fn completion_scripts_are_scripts() {
    let folder = Folder::with("completion", &[]);
    let output = command(&folder.0, env!("CARGO_BIN_EXE_quotient")).args(["completion", "bash"]).output();
    fs::write(folder.0.join("script"), output.expect("it runs").stdout).expect("a file can be written");
    let check = "source ./script && complete -p quotient && COMP_WORDS=(quotient pla) COMP_CWORD=1 \
        && _quotient_live quotient pla quotient && echo \"${COMPREPLY[@]}\"";
    let bash = command(&folder.0, "bash").args(["-ec", check]).output().expect("bash runs");
    let said = String::from_utf8_lossy(&bash.stdout).into_owned();
    assert!(said.contains("_quotient_live") && said.trim_end().ends_with("plan"), "{said}: {bash:?}");
    assert_eq!(
        folder.run(&["complete", "--", "pla"]).lines().nth(2).map(|line| line.split('\t').next()),
        Some(Some("plan"))
    );
}

#[test]
fn a_watched_top_of_a_large_cluster_fits_the_screen() {
    let mut objects = String::new();
    for i in 0..300 {
        objects.push_str(&format!(
            "---\napiVersion: v1\nkind: Node\nmetadata: {{name: n-{i}}}\nstatus: {{allocatable: {{cpu: '{}', pods: '9'}}}}\n",
            1 + i
        ));
        objects.push_str(&format!(
            "---\napiVersion: scheduling.x-k8s.io/v1alpha1\nkind: ElasticQuota\nmetadata: {{name: q, namespace: t-{i}}}\n\
             spec: {{min: {{cpu: '1', memory: 1Gi}}, max: {{cpu: '{}'}}}}\n",
            1 + i
        ));
    }
    let folder = Folder::with("full-screen", &[("all.yaml", &objects)]);
    let line = "stty rows 24 cols 100; timeout 4 ";
    let shown = {
        let mut script = command(&folder.0, "script");
        let line = format!("{line}{} top --watch 1s -f all.yaml", env!("CARGO_BIN_EXE_quotient"));
        script.args(["-qec", &line, "/dev/null"]).env("TERM", "xterm").env("CI", "1");
        String::from_utf8_lossy(&script.output().expect("script(1) runs").stdout).into_owned()
    };
    let screens: Vec<&str> = shown.split("\u{1b}[H\u{1b}[2J").skip(1).collect();
    assert!(!screens.is_empty(), "{shown:?}");
    for screen in screens {
        let lines: Vec<&str> = screen.lines().collect();
        assert!(lines.len() < 24, "{} lines: {screen}", lines.len());
        assert!(lines.iter().all(|line| line.chars().count() <= 100), "{screen}");
        assert!(
            screen.contains("TOTAL") && screen.contains("Nodes: 300") && screen.contains("Quotas: 300"),
            "{screen}"
        );
        assert!(screen.matches("more (-o wide shows all)").count() == 2, "{screen}");
    }
}

#[test]
fn scenarios_may_come_from_standard_input() {
    let folder = Folder::with("test-stdin", &[]);
    let scenario = "{apiVersion: quotient.dev/v1alpha1, kind: Scenario, metadata: {name: s}, spec: {steps: [
        {name: one, nodes: [{name: n, allocatable: {cpu: '1', pods: '9'}}], pods: [{namespace: a, name: p, requests: {cpu: '1'}}],
         expect: {bound: {a/p: n}}}]}}";
    let mut child = command(&folder.0, env!("CARGO_BIN_EXE_quotient"));
    let child = child.args(["test", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = child.stderr(Stdio::piped()).spawn().expect("it runs");
    std::io::Write::write_all(&mut child.stdin.take().expect("a pipe"), scenario.as_bytes()).expect("it reads");
    let shown = show(&child.wait_with_output().expect("it ends"));
    assert!(shown.starts_with("exit code 0") && shown.contains("1 passed"), "{shown}");
}

#[test]
fn a_recorded_demo_is_replayed_with_the_same_evictions() {
    let folder = Folder::with("recorded", &[]);
    let told = folder.run(&["demo", "--headless", "--nodes", "60", "--record", "trace.jsonl"]);
    let evicted =
        |text: &str| text.lines().find_map(|line| line.strip_suffix(" pods were evicted")?.parse::<u64>().ok());
    let evicted = evicted(&told.replace(" in 62 minutes, each for a pod that was entitled to the room.", ""));
    let replayed = folder.run(&["replay", "trace.jsonl", "-o", "json"]);
    let (_, json) = replayed.split_once("--- stdout\n").expect("it has an output");
    let (json, _) = json.split_once("--- stderr").expect("it has an output");
    let figures: serde_json::Value = serde_json::from_str(json).expect("it is JSON");
    assert_eq!(figures[0]["evictions"].as_u64(), evicted, "{told}{replayed}");
    assert!(evicted > Some(0), "{told}");
}

#[test]
fn a_cluster_that_is_not_found_is_one_line_that_says_where_it_was_looked_for() {
    let kubeconfig = "{apiVersion: v1, kind: Config, current-context: red, users: [{name: u, user: {token: t}}],
        clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}],
        contexts: [{name: red, context: {cluster: c, user: u}}, {name: blue, context: {cluster: c, user: u}}]}";
    let folder = Folder::with("contexts", &[("kubeconfig", kubeconfig)]);
    let said = |variable: Option<&str>, arguments: &[&str]| {
        let mut command = command(&folder.0, env!("CARGO_BIN_EXE_quotient"));
        command.env("HOME", &folder.0).env_remove("KUBECONFIG").envs(variable.map(|path| ("KUBECONFIG", path)));
        let output = command.arg("tree").args(arguments).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let wrong = "error: --context \"green\": the kubeconfig has no such context: expected red or blue\n";
    assert_eq!(said(Some("kubeconfig"), &["--context", "green"]), wrong);
    assert_eq!(said(None, &["--kubeconfig", "kubeconfig", "--context", "green"]), wrong);
    let gone = said(Some("gone"), &[]);
    assert!(gone.starts_with("error: no cluster: KUBECONFIG is gone and leads to none"), "{gone}");
    let nowhere = said(None, &[]);
    assert!(nowhere.starts_with("error: no cluster: KUBECONFIG is not set, there is no ~/.kube/config"), "{nowhere}");
    let silent = said(Some("kubeconfig"), &["--context", "blue"]);
    assert!(silent.starts_with("error: https://127.0.0.1:1/: no API server answers there"), "{silent}");
}
