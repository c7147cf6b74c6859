//! What can be typed: commands, flags and their help. Nothing here does anything.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use crate::live::Which;

/// Schedules pods under team quotas, preempts fairly and explains every pending pod.
#[derive(Debug, Parser)]
#[command(name = "quotient", version, propagate_version = true, arg_required_else_help = true)]
#[command(after_help = "Exit codes: 0 fine, 1 the answer is no, 2 a mistake in the input, 70 a bug.")]
pub struct Arguments {
    #[command(flatten)]
    pub looks: LooksArguments,
    #[command(subcommand)]
    pub command: Command,
}

/// How everything looks.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct LooksArguments {
    /// Whether to use colour
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value = "auto")]
    pub color: Colour,
    /// Print nothing but the answer and errors
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Say more: every object that was left out, with its reason, and how long everything took
    #[arg(short, long, global = true, conflicts_with = "quiet")]
    pub verbose: bool,
    /// Show long answers without a pager (QUOTIENT_PAGER, PAGER or less)
    #[arg(long, global = true)]
    pub no_pager: bool,
}

/// When to use colour.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Colour {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    Always,
    Never,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Watch a simulated cluster of mixed cards in the browser: no Kubernetes needed
    ///
    /// Teams under different quotas share some hundreds of nodes in accelerated time, and a guided story shows
    /// borrowing,
    /// reclaiming, gangs, cards, caps and a quota change. Submit a job or change a quota, and see what happens.
    Demo(DemoArguments),
    /// Apply manifests to a virtual cluster and see what the scheduler does
    ///
    /// Files are applied in the order given; the cluster settles after each. Nothing outside the files is touched.
    Simulate(SimulateArguments),
    /// Explain why a pod is pending and what would help, where it runs, or why it was evicted
    ///
    /// The files are applied in order to a virtual cluster, as `simulate` does, and the pod is explained in the result.
    /// With --try the objects of a file are tried on top of it, before they are submitted.
    Explain(ExplainArguments),
    /// Show quotas as trees, with guaranteed, used, borrowed and lent amounts, and node caps
    Tree(TreeArguments),
    /// Show the fullest nodes and quotas first
    Top(TopArguments),
    /// Show what a change of quotas would do: which pods would be evicted, which would start
    ///
    /// The change is applied to a copy of the cluster, and the two are compared: over-used quotas, evicted, started and
    /// pending pods. Nothing outside the files is touched.
    Plan(PlanArguments),
    /// Replay a workload trace in virtual time: waits, use, fairness, evictions
    ///
    /// Submits the pods of a trace to the scheduler, with the quotas that you give, and reports what came of it. Two
    /// sets of quotas can be compared side by side.
    Replay(ReplayArguments),
    /// Save the state of a live cluster to a file that every other command reads
    ///
    /// What bears on scheduling is read with your own rights and kept; secrets, environment and commands are not.
    Snapshot(SnapshotArguments),
    /// Answer programs and agents over the Model Context Protocol, on standard input and output
    ///
    /// The tools are explain, tree, top, plan, simulate and lint. Nothing is written to a cluster.
    Mcp(McpArguments),
    /// Run scenarios: tests of a scheduling or quota policy
    ///
    /// A scenario builds a cluster step by step and states the expected result. `docs/scenarios.md` says how to write
    /// one.
    Test(TestArguments),
    /// Check manifests: what admission would reject, and guarantees that cannot be kept
    ///
    /// Objects are checked in the order given, as if they were applied one after another. Nothing is scheduled.
    Lint(LintArguments),
    /// Serve the dashboard with the views that `run` gives on standard input
    #[command(hide = true)]
    Dashboard(DashboardArguments),
    /// Answer what the change on standard input would do to a live cluster, within bounds of memory and time
    #[command(hide = true)]
    WhatIf(WhatIfArguments),
    /// Schedule the pods of a live cluster
    ///
    /// Watches the cluster, binds and evicts pods, writes labels and statuses. Several replicas may run: the leader
    /// writes, the others are ready to lead.
    Run(Box<RunArguments>),
    /// Print the manifests of an installation: CRDs, RBAC, Deployment, webhooks
    ///
    /// Nothing is sent; apply the output with kubectl.
    Install(InstallArguments),
    /// Check a cluster: server version, rights, CRDs, webhooks, certificates, lease, other schedulers, clock
    ///
    /// Asks the API server and changes nothing; the webhooks are tried with a dry run. Run it as an administrator
    /// before and after an installation, and when something does not work.
    Check(CheckArguments),
    /// Say what moving from another scheduler means for a cluster, and how to do it
    ///
    /// Reads a cluster that runs scheduler-plugins, nos, Koordinator or Volcano: their configurations, objects and
    /// pods. Says what works as it is, what differs, what would be decided differently today, and the steps. Nothing is
    /// written to the cluster.
    Migrate(MigrateArguments),
    /// Measure the engine: decisions per second, memory, growth with the cluster
    ///
    /// Everything is measured through the engine's public interface, on one thread, with the same workload each time.
    /// Each case runs in its own process, so that memory is measured for it alone.
    Bench(BenchArguments),
    /// Print the version, and the commit that the program was built from
    Version(OutputArguments),
    /// Print what may follow the words typed so far, for shells and for kubectl
    #[command(hide = true)]
    Complete {
        /// The words after the program's name; the last is the one being typed
        #[arg(value_name = "WORD", trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Print a completion script for a shell; names of pods come from the live cluster
    ///
    /// Example: quotient completion bash > /etc/bash_completion.d/quotient
    Completion {
        /// The shell
        #[arg(value_enum, value_name = "SHELL")]
        shell: clap_complete::Shell,
    },
    /// Write manual pages into a folder
    Man {
        /// The folder; it is made where there is none
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
}

/// How to write the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    Table,
    /// For people, with everything that a table leaves out
    Wide,
    /// For programs
    Json,
    /// The same as YAML
    Yaml,
}

/// The flag that every command has.
#[derive(Debug, Args)]
pub struct OutputArguments {
    /// Output format
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value = "table")]
    pub output: Format,
}

/// What `simulate` is told.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quotient simulate nodes.yaml workloads.yaml        what happens, step by step
  quotient simulate -o json manifests/               a folder, in order of names, as JSON
  kubectl get nodes,pods -A -o yaml | quotient simulate - new-job.yaml

Pods with spec.nodeName already run. An object that cannot be read is reported as a problem, the
rest is simulated, and the exit code is 0. It is 2 where a file cannot be opened, or where no file
holds an object.")]
pub struct SimulateArguments {
    /// YAML or JSON files, many documents each, or snapshots; folders in order of names; `-` is standard input
    #[arg(required_unless_present_any = ["from", "from_cluster"], value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Also write the report as a page: one HTML file that needs nothing else
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Start from the live cluster as it is; nothing is written to it
    #[arg(long)]
    pub from_cluster: bool,
    #[command(flatten)]
    pub cluster: ClusterArguments,
    #[command(flatten)]
    pub setup: SetupArguments,
    #[command(flatten)]
    pub output: OutputArguments,
}

/// Where a command finds the cluster that it looks at.
#[derive(Debug, Clone, Args)]
pub struct StateArguments {
    /// YAML or JSON files, many documents each, or snapshots; folders in order of names; `-` is standard input. Without
    /// files the live cluster is read
    #[arg(short = 'f', long = "filename", num_args = 1.., value_name = "FILE")]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub cluster: ClusterArguments,
    #[command(flatten)]
    pub setup: SetupArguments,
}

/// Whether to look again and again.
#[derive(Debug, Clone, Copy, Args)]
pub struct WatchArguments {
    /// Read the cluster again and again, this far apart, until interrupted
    #[arg(short, long, value_name = "DURATION", num_args = 0..=1, default_missing_value = "5s")]
    #[arg(value_parser = quotient_api::time::parse_duration)]
    pub watch: Option<Duration>,
}

/// Which live cluster.
#[derive(Debug, Clone, Default, Args)]
pub struct ClusterArguments {
    /// The kubeconfig of the live cluster; without it as kubectl finds it
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}

impl ClusterArguments {
    /// The cluster, with the namespace to look at where others may not be seen.
    pub fn which(self, namespace: Option<String>) -> Which {
        let ClusterArguments { kubeconfig, context } = self;
        Which { kubeconfig, context, namespace }
    }
}

/// What `mcp` is told.
#[derive(Debug, Default, Args)]
#[command(after_help = "\
Examples:
  quotient mcp                                       a client starts this and talks to it
  quotient mcp --context production                  questions without files are about this cluster")]
pub struct McpArguments {
    #[command(flatten)]
    pub cluster: ClusterArguments,
}

/// What `snapshot` is told.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quotient snapshot cluster.snapshot                         the cluster that kubectl talks to
  quotient snapshot --anonymize report.snapshot              for a bug report: names are replaced
  quotient explain vision/evaluate -f cluster.snapshot       every other command reads it")]
pub struct SnapshotArguments {
    /// The file to write; `-` is standard output
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Replace names of namespaces, objects, labels and their values
    #[arg(long)]
    pub anonymize: bool,
    /// The namespace to look at, where others may not be seen
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
    #[command(flatten)]
    pub cluster: ClusterArguments,
}

/// How the cluster is set up.
#[derive(Debug, Clone, Args)]
pub struct SetupArguments {
    /// A snapshot to start from
    #[arg(long, value_name = "SNAPSHOT")]
    pub from: Option<PathBuf>,
    /// A QuotientConfiguration, or the configuration of a Volcano scheduler
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Schedule only pods with this spec.schedulerName; without it all pods are scheduled
    #[arg(long, value_name = "NAME")]
    pub scheduler_name: Option<String>,
}

/// What `explain` is told.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quotient explain vision/evaluate -f cluster.yaml           why it is pending, and what would help
  quotient explain evaluate -n vision -f nodes/ pods.yaml    the same, by name and namespace
  quotient explain vision/evaluate -f cluster.yaml -o wide   every node that does not fit
  quotient explain job/vision/train -f cluster.yaml          all pods of a Job, Deployment, PodGroup, …
  quotient explain eviction research/sweep-0 -f cluster.yaml why a pod was evicted, and for whom
  quotient explain --try job.yaml -f cluster.yaml            before submitting: would its pods run?
  quotient explain vision/evaluate                           on the live cluster that kubectl talks to

The pod comes before -f. Exit code 0 means that there is an answer; with --try, 1 means that not
all pods of the file would run. It is 2 where there is no such pod, a file cannot be opened, or
the tried file cannot be read.")]
pub struct ExplainArguments {
    /// A pod: NAMESPACE/NAME, or NAME where only one pod has it; KIND/NAMESPACE/NAME of a Job, Deployment,
    /// PodGroup or the like for all its pods; `eviction POD` for why a pod was evicted. With --try it may be left out:
    /// all pods of the file are explained
    #[arg(value_name = "POD", num_args = 1..=2)]
    pub target: Vec<String>,
    /// The pod's namespace, if it is not given before its name
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// Try these files on top of the others, and say what would happen to their pods
    #[arg(long = "try", num_args = 1.., value_name = "FILE")]
    pub trial: Vec<PathBuf>,
    #[command(flatten)]
    pub state: StateArguments,
    #[command(flatten)]
    pub output: OutputArguments,
}

/// What `tree` is told.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quotient tree -f cluster.yaml
  quotient tree -f nodes.yaml quotas.yaml pods.yaml --config quotient.yaml
  kubectl get nodes,pods,elasticquotas -A -o yaml | quotient tree -f -

GUARANTEED is the min. RECLAIMABLE is what other quotas may reclaim from a quota. A node cap is what
pods without GPUs may use on a GPU node; exceeded caps come first.")]
pub struct TreeArguments {
    #[command(flatten)]
    pub watch: WatchArguments,
    #[command(flatten)]
    pub state: StateArguments,
    #[command(flatten)]
    pub output: OutputArguments,
}

/// What `top` is told.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quotient top -f cluster.yaml                       by the scarcest resource of each
  quotient top -f cluster.yaml --by nvidia.com/gpu   by GPUs

A node is as full as its scarcest resource; a quota is as full as used divided by entitlement, or by
max where it is entitled to nothing.")]
pub struct TopArguments {
    #[command(flatten)]
    pub watch: WatchArguments,
    /// Sort by this resource; without it by the scarcest of each node and quota
    #[arg(long, value_name = "RESOURCE")]
    pub by: Option<String>,
    #[command(flatten)]
    pub state: StateArguments,
    #[command(flatten)]
    pub output: OutputArguments,
}

/// What `plan` is told.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quotient plan -f new-quotas.yaml --on cluster.yaml
  quotient plan -f new-quotas.yaml --on cluster.yaml --wait 10m    and 10 minutes later
  quotient plan -f new-quotas.yaml --on cluster.yaml --allow-evictions 0   for a CI system
  kubectl get nodes,pods,elasticquotas -A -o yaml | quotient plan -f new-quotas.yaml --on -

Exit code 1 means that admission rejects an object of the change, or that more pods would be
evicted than --allow-evictions says; 2 that a file cannot be opened, or the change not be read.")]
pub struct PlanArguments {
    /// The change: quotas, or any other objects
    #[arg(short = 'f', long = "filename", required = true, num_args = 1.., value_name = "FILE")]
    pub change: Vec<PathBuf>,
    /// The cluster now: YAML or JSON files, snapshots, folders; `-` is standard input. Without it the live cluster
    /// is read
    #[arg(long, num_args = 1.., value_name = "FILE")]
    pub on: Vec<PathBuf>,
    #[command(flatten)]
    pub cluster: ClusterArguments,
    /// Let this much time pass after the change, such as 30s or 10m
    #[arg(long, value_name = "DURATION", value_parser = quotient_api::time::parse_duration)]
    pub wait: Option<Duration>,
    /// Exit with 1 where more pods than this would be evicted
    #[arg(long, value_name = "N")]
    pub allow_evictions: Option<usize>,
    #[command(flatten)]
    pub setup: SetupArguments,
    #[command(flatten)]
    pub output: OutputArguments,
}

/// What `demo` is told.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quotient demo                                      prints an address to open in a browser
  quotient demo --headless                           the story as text, and its end
  quotient demo --nodes 1000 --seed 7
  quotient demo --record trace.jsonl                 everything that is submitted, for `quotient replay`

The same seed gives the same story. The dashboard is served on a loopback address only.")]
pub struct DemoArguments {
    /// What the load is drawn from
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// How many nodes are simulated
    #[arg(long, value_name = "N", default_value_t = 240, value_parser = clap::value_parser!(u32).range(60..=5000))]
    pub nodes: u32,
    /// Serve the dashboard here [default: 127.0.0.1, the first free port from 8080 on]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,
    /// Write everything that is submitted to this file, as JSON lines
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Tell the story as text, without a dashboard, and end
    #[arg(long)]
    pub headless: bool,
}

/// What `replay` is told.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quotient replay trace.jsonl                              a trace of `quotient demo --record`
  quotient replay openb/openb_pod_list_default.csv         the openb format; nodes from the same folder
  quotient replay pods.csv -f quotas.yaml --report out.html
  quotient replay pods.csv -f today.yaml --against tomorrow.yaml --faster 200

Pods that are evicted wait again and run from the beginning. Exit code 2 means that a file cannot be
read, or that an object of the configuration is rejected.")]
pub struct ReplayArguments {
    /// A pod list of the openb format (CSV), or JSON lines
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,
    /// The node list of an openb trace [default: openb_node_list_all_node.csv beside it]
    #[arg(long, value_name = "FILE")]
    pub nodes: Option<PathBuf>,
    /// Quotas and other objects that exist before the trace begins
    #[arg(short = 'f', long = "filename", num_args = 1.., value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Replay the trace a second time with these objects instead, and compare
    #[arg(long, num_args = 1.., value_name = "FILE")]
    pub against: Vec<PathBuf>,
    /// Submit pods this many times as fast; they run as long as before
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub faster: u32,
    /// Also ask about so many pods, as they become pending, when they will start, and say how often the answer held
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub forecasts: usize,
    /// Also write a page with plots: one HTML file that needs nothing else
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    #[command(flatten)]
    pub setup: SetupArguments,
    #[command(flatten)]
    pub output: OutputArguments,
}

/// What `test` is told.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quotient test scenarios/                           every scenario under a folder
  quotient test --junit report.xml my-policy.yaml    for a CI system
  quotient test -o json my-policy.yaml
  quotient test --kubeconfig test-cluster my-policy.yaml   on a real API server, which is emptied

Exit code 1 means that an expectation failed, 2 that a scenario cannot be read; nothing is run then.")]
pub struct TestArguments {
    /// Scenario files, or folders of them; `-` is standard input
    #[arg(required = true, value_name = "FILE|DIR")]
    pub files: Vec<PathBuf>,
    /// Also write the results as JUnit XML
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Run on the API server of this kubeconfig, with nodes simulated by kwok; it must have no nodes, pods or quotas
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Scenarios that cannot hold on a real API server: a mapping of their names to the reasons
    #[arg(long, value_name = "FILE", requires = "kubeconfig")]
    pub except: Option<PathBuf>,
    #[command(flatten)]
    pub output: OutputArguments,
}

/// What `lint` is told.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quotient lint quotas.yaml                          the quotas alone
  quotient lint nodes.yaml quotas.yaml               also whether the nodes hold the guarantees
  kubectl get nodes,elasticquotas -A -o yaml | quotient lint -

Exit code 1 means that there are findings, 2 that something cannot be read.")]
pub struct LintArguments {
    /// YAML or JSON files, many documents each; folders in order of names; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// A QuotientConfiguration
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    pub output: OutputArguments,
}

/// What `run` is told.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quotient run                                       the cluster that kubectl talks to
  quotient run --shadow --metrics 127.0.0.1:9090     decide and report, write nothing
  quotient run --shadow --compare                    count where another scheduler agrees
  quotient run --config quotient.yaml --log json
  quotient run --webhook 127.0.0.1:9443 --webhook-url https://127.0.0.1:9443

QUOTIENT_LOG sets what is logged, as in QUOTIENT_LOG=debug; `log` of the configuration changes it while
it runs. Every replica answers webhooks; `quotient install` prints the configurations that register them.")]
pub struct RunArguments {
    /// The cluster; by default the one that kubectl uses, or the one that this pod runs in
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// A QuotientConfiguration, or the configuration of a Volcano scheduler; read again when it changes
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The quota systems to schedule by; objects of others are not read
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        value_name = "SYSTEM,…",
        default_value = "elastic,tree,queues,jobs"
    )]
    pub systems: Vec<SystemChoice>,
    /// Run only these parts
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PART,…")]
    pub only: Vec<Part>,
    /// Decide and report, and write nothing
    #[arg(long)]
    pub shadow: bool,
    /// Compare decisions with those of the scheduler that binds the pods, and count where the two agree: metrics,
    /// /comparison, and a line in the log
    #[arg(long, requires = "shadow")]
    pub compare: bool,
    /// How often the comparison is logged
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = quotient_api::time::parse_duration)]
    #[arg(requires = "compare")]
    pub compare_every: Duration,
    /// Serve /metrics, /livez and /readyz here
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub metrics: Option<SocketAddr>,
    /// Serve /livez and /readyz here too, without TLS, with connections of their own: for probes
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub probes: Option<SocketAddr>,
    /// Serve /debug/profile beside metrics: where the process spends its time, and its memory
    #[arg(long, requires = "metrics")]
    pub profiling: bool,
    /// Who may read /metrics; probes are answered to everyone
    #[arg(long, value_enum, value_name = "WHO", default_value = "open")]
    pub metrics_access: MetricsAccess,
    /// Serve metrics and probes over TLS, with tls.crt and tls.key of this folder; they are read again when they change
    #[arg(long, value_name = "DIR")]
    pub metrics_certificate: Option<PathBuf>,
    /// Serve the dashboard here; people sign in with a token of the cluster and see what their rights let them see
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub dashboard: Option<SocketAddr>,
    /// Let viewers apply changes, with their own token and rights; it is read-only otherwise
    #[arg(long, requires = "dashboard")]
    pub dashboard_apply: bool,
    /// Record pods, nodes and quotas to this file as they come and go, for `quotient replay`
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// The Lease for leader election
    #[arg(long, value_name = "NAMESPACE/NAME", default_value = "kube-system/quotient")]
    pub lease: String,
    /// How long after the last renewal another replica may take the Lease
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = crate::commands::lease_duration)]
    pub lease_duration: Duration,
    /// How long to wait for an API server that does not answer at the start
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = quotient_api::time::parse_duration)]
    pub wait_for_server: Duration,
    /// Serve the admission webhooks here, over TLS
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub webhook: Option<SocketAddr>,
    /// The Service by which the API server reaches the webhooks
    #[arg(long, value_name = "NAMESPACE/NAME", default_value = "quotient-system/quotient")]
    pub webhook_service: String,
    /// The URL by which the API server reaches the webhooks, instead of a Service
    #[arg(long, value_name = "URL", value_parser = crate::commands::webhook_url)]
    pub webhook_url: Option<String>,
    /// The Secret with the CA of the webhooks; it is created if it does not exist
    #[arg(long, value_name = "NAMESPACE/NAME", default_value = "quotient-system/quotient-webhook-authority")]
    pub webhook_secret: String,
    /// Serve webhooks with tls.crt and tls.key of this folder; they are read again when they change
    #[arg(long, value_name = "DIR")]
    pub webhook_certificate: Option<PathBuf>,
    /// Answer only clients with a certificate of these authorities (PEM): those that the API server shows to webhooks
    #[arg(long, value_name = "FILE")]
    pub webhook_client_ca: Option<PathBuf>,
    /// Log format; the log goes to stderr
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text")]
    pub log: LogFormat,
}

/// Who may read metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MetricsAccess {
    /// Everyone who reaches the port
    Open,
    /// Owners of a token that may get the path, such as /metrics, as the API server says
    Authorized,
}

/// What the process of the dashboard is told.
#[derive(Debug, Args)]
pub struct DashboardArguments {
    /// Where it is served
    pub address: SocketAddr,
    /// Let viewers apply changes, with their own token and rights
    #[arg(long)]
    pub apply: bool,
    #[command(flatten)]
    pub cluster: WhatIfArguments,
    /// Log format
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text")]
    pub log: LogFormat,
}

/// The cluster on a copy of which a change is tried.
#[derive(Debug, Clone, Args)]
pub struct WhatIfArguments {
    /// The cluster; by default the one that kubectl uses, or the one that this pod runs in
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The configuration of the scheduler
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The controller of Volcano Jobs is off
    #[arg(long)]
    pub without_jobs: bool,
}

/// A part of `run`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// Binds, evicts, nominates, writes reasons of pending pods
    Scheduler,
    /// Writes capacity labels, statuses and root quotas; creates groups, and pods of Volcano Jobs
    Controllers,
    /// Answers admission reviews; needs --webhook
    Webhooks,
}

/// What `install` is told.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quotient install --image registry.example/quotient:1.0 | kubectl apply --server-side -f -
  quotient install --systems elastic,queues             without quota trees
  quotient install --config quotient.yaml --replicas 3
  quotient install --webhook-url https://127.0.0.1:9443   for a `quotient run` outside the cluster
  quotient install --systems queues,jobs                with the controller of Volcano Jobs
  quotient install --no-crds                            where Volcano owns its CRDs

A system that is left out has no CRDs, no rights and no webhooks.")]
pub struct InstallArguments {
    /// The namespace
    #[arg(long, value_name = "NAME", default_value = "quotient-system", value_parser = crate::commands::namespace)]
    pub namespace: String,
    /// The program's image
    #[arg(long, value_name = "IMAGE", default_value = concat!("quotient:", env!("CARGO_PKG_VERSION")))]
    pub image: String,
    /// Replicas; the leader writes, all answer webhooks
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub replicas: u32,
    /// The quota systems that the cluster uses
    #[arg(long, value_enum, value_delimiter = ',', value_name = "SYSTEM,…", default_value = "elastic,tree,queues")]
    pub systems: Vec<SystemChoice>,
    /// Leave the CRDs out, where another installation owns them
    #[arg(long)]
    pub no_crds: bool,
    /// A QuotientConfiguration for the program, kept in a ConfigMap
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The webhooks of a program outside the cluster; no Deployment is printed
    #[arg(long, value_name = "URL", value_parser = crate::commands::webhook_url)]
    pub webhook_url: Option<String>,
    /// Run webhooks in a Deployment of their own, with as many replicas
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    pub separate_webhooks: bool,
    /// Print a NetworkPolicy: only the ports of webhooks and metrics accept connections from elsewhere than the node
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    pub network_policy: bool,
    /// Print policies of the API server that close ways round a quota, for namespaces labelled quotient.dev/tenant=true
    #[arg(long)]
    pub tenant_policy: bool,
    /// Output format
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value = "yaml")]
    pub output: ManifestFormat,
}

/// What `check` is told.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quotient check                                     the cluster that kubectl talks to
  quotient check --namespace scheduling -o json

Exit code 1 means that something failed; each failure has a hint.")]
pub struct CheckArguments {
    /// The cluster; without it the one that kubectl would talk to
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The namespace that the program is installed in
    #[arg(short, long, value_name = "NAME", default_value = "quotient-system", value_parser = crate::commands::namespace)]
    pub namespace: String,
    /// The QuotientConfiguration of a program outside of the cluster; otherwise its ConfigMap is read
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    pub output: OutputArguments,
}

/// What `migrate` is told.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quotient migrate                                   the cluster that kubectl talks to
  quotient migrate -f cluster.snapshot --scheduler-config volcano-scheduler.conf
  kubectl get cm,deploy,nodes,pods,queues -A -o yaml | quotient migrate -f -
  quotient migrate --write-config quotient.yaml      the configuration that it proposes

Snapshots hold no ConfigMaps and no flags of containers: give the scheduler's configuration with
--scheduler-config.")]
pub struct MigrateArguments {
    /// The configuration of a scheduler: a KubeSchedulerConfiguration, one of Volcano, or a ConfigMap with one
    #[arg(long, num_args = 1.., value_name = "FILE")]
    pub scheduler_config: Vec<PathBuf>,
    /// Also write the proposed QuotientConfiguration to this file
    #[arg(long, value_name = "FILE")]
    pub write_config: Option<PathBuf>,
    #[command(flatten)]
    pub state: StateArguments,
    #[command(flatten)]
    pub output: OutputArguments,
}

/// A system whose objects are understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SystemChoice {
    /// ElasticQuota and CompositeElasticQuota of scheduling.x-k8s.io, nos.nebuly.com and n8s.nebuly.ai
    Elastic,
    /// ElasticQuota of scheduling.sigs.k8s.io and ElasticQuotaProfile
    Tree,
    /// Queue, PodGroup and Job of Volcano
    Queues,
    /// The controller of Volcano Jobs; it may create pods in every namespace
    Jobs,
}

/// How objects are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ManifestFormat {
    /// A document for each object
    Yaml,
    /// One list
    Json,
}

/// How a log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// A line for people
    Text,
    /// A JSON object a line
    Json,
}

/// What `bench` is told.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quotient bench                                     the published figures, each beside its goal
  quotient bench --quick                             the same at a tenth of the size, in seconds
  quotient bench --nodes 2000,8000 --pods 10000 --shapes 50
  quotient bench --check                             exit code 1 where a goal is missed")]
pub struct BenchArguments {
    /// Measure placement only, at these numbers of nodes
    #[arg(long, value_delimiter = ',', value_name = "N,…", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub nodes: Vec<u32>,
    /// Measure placement only, of this many pods [default: 20000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub pods: Option<u32>,
    /// Measure placement only, with this many distinct shapes among plain pods [default: 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub shapes: Option<u32>,
    /// How often each timed case runs; the median counts
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=99))]
    pub rounds: u32,
    /// A tenth of the size, one round
    #[arg(long)]
    pub quick: bool,
    /// Exit with 1 where a goal is missed
    #[arg(long)]
    pub check: bool,
    /// Only measure growth, over nodes, pods, quotas and shapes, and draw it into this file (SVG)
    #[arg(long, value_name = "FILE")]
    pub growth: Option<PathBuf>,
    /// Run this one case and print its figures: how `bench` calls itself
    #[arg(long, hide = true, value_name = "JSON")]
    pub case: Option<String>,
    #[command(flatten)]
    pub output: OutputArguments,
}

/// Reads the command line; help, the version and mistakes end the program here.
pub fn parse() -> Arguments {
    let typed: Vec<OsString> = std::env::args_os().collect();
    let is_plugin = typed.first().is_some_and(|name| is_kubectl_plugin(name.as_ref()));
    let program = if is_plugin { "kubectl quotient" } else { "quotient" };
    let matches = command_line(program).get_matches_from(typed);
    Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

/// All that can be typed after `program`.
pub fn command_line(program: &'static str) -> clap::Command {
    // -f takes many files, so that what is written after them is one of them: usage shows the pod first.
    let usage = format!("{program} explain POD [OPTIONS]");
    Arguments::command().bin_name(program).mut_subcommand("explain", |explain| explain.override_usage(usage))
}

/// kubectl runs plugins under the name `kubectl-quotient`; help should then show what was typed.
fn is_kubectl_plugin(program: &Path) -> bool {
    program.file_stem().is_some_and(|name| name == "kubectl-quotient")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_plugin_is_known_by_its_name() {
        assert!(is_kubectl_plugin(Path::new("/usr/local/bin/kubectl-quotient")));
        assert!(!is_kubectl_plugin(Path::new("/usr/local/bin/quotient")));
    }
}
