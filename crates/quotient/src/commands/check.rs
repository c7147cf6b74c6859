//! `quotient check`: whether a cluster is ready for the program, and the program well in it.

use anyhow::{Context, Result};
use quotient_api::Configuration;
use quotient_cluster::connect;

use crate::arguments::{CheckArguments, OutputArguments};
use crate::check::{Finding, Verdict, check};
use crate::exit::Exit;
use crate::printer::{Printer, Tone};

/// Asks, and prints what was found.
pub fn run(arguments: CheckArguments) -> Result<Exit> {
    let CheckArguments { kubeconfig, namespace, config, output: OutputArguments { output } } = arguments;
    let mut printer = Printer::new(output);
    let configuration = match config.as_deref().map(Configuration::read_path).transpose() {
        Ok(configuration) => configuration,
        Err(problems) => return Ok(printer.refuse(&problems)),
    };
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("the runtime cannot be started")?;
    let findings = runtime.block_on(async {
        let clients = connect(kubeconfig.as_deref()).await?;
        printer.progress(format_args!("asks {}", clients.url));
        check(&clients, &namespace, configuration).await
    })?;
    if printer.is_for_people() {
        tell(&mut printer, &findings)?;
    } else {
        printer.document(&findings)?;
    }
    printer.finish()?;
    let failed = findings.iter().any(|finding| finding.verdict == Verdict::Failed);
    Ok(if failed { Exit::No } else { Exit::Fine })
}

fn tell(printer: &mut Printer, findings: &[Finding]) -> Result<()> {
    let mut section = "";
    for finding in findings {
        if finding.section != section {
            if !section.is_empty() {
                printer.line("")?;
            }
            section = finding.section;
            printer.line(printer.paint(Tone::Strong, section))?;
        }
        let word = match finding.verdict {
            Verdict::Ok => printer.paint(Tone::Good, "ok     "),
            Verdict::Warning => printer.paint(Tone::Strong, "warning"),
            Verdict::Failed => printer.paint(Tone::Bad, "failed "),
        };
        printer.line(format_args!("  {word}  {}", finding.message))?;
        if let Some(hint) = &finding.hint {
            printer.line(format_args!("           hint: {hint}"))?;
        }
    }
    let count = |verdict: Verdict| findings.iter().filter(|finding| finding.verdict == verdict).count();
    let (ok, warnings, failed) = (count(Verdict::Ok), count(Verdict::Warning), count(Verdict::Failed));
    printer.line("")?;
    printer.line(format_args!("{ok} ok, {warnings} warnings, {failed} failed"))
}
