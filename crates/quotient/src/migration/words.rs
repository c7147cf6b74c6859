//! What `migrate` tells people.

use anyhow::Result;

use super::{Incumbent, Migration, Pending, Remark, Row, Step, Today, counted, some_of};
use crate::printer::{Printer, Tone};
use crate::story::{counts, tell_bound, tell_evicted, tell_refused};

/// Prints the answer for people.
pub fn tell(printer: &mut Printer, migration: &Migration) -> Result<()> {
    let Migration { incumbents, works, differs, today, configuration, steps } = migration;
    if incumbents.is_empty() {
        return printer.line("No scheduler was found: neither a configuration, nor an object of one, nor a pod.");
    }
    for incumbent in incumbents {
        tell_incumbent(printer, incumbent)?;
    }
    title(printer, "Works as it is")?;
    printer.list(works, |_, Remark { what, message, .. }| vec![format!("{what}: {message}")])?;
    title(printer, "Differs")?;
    printer.list(differs, |_, Remark { what, message, row, .. }| {
        let link = row.as_ref().map(|Row { page, row }| format!("  see {page}, row \"{row}\""));
        [Some(format!("{what}: {message}")), link].into_iter().flatten().collect()
    })?;
    tell_today(printer, today)?;
    title(printer, "Configuration")?;
    for line in serde_saphyr::to_string(configuration)?.lines() {
        printer.line(format_args!("  {line}"))?;
    }
    title(printer, "Steps")?;
    for (index, Step { title, commands }) in steps.iter().enumerate() {
        printer.line(format_args!("  {}. {title}", index + 1))?;
        for command in commands {
            printer.line(format_args!("     {command}"))?;
        }
    }
    Ok(())
}

fn title(printer: &mut Printer, text: &str) -> Result<()> {
    printer.line("")?;
    printer.line(printer.paint(Tone::Strong, text))
}

fn tell_incumbent(printer: &mut Printer, incumbent: &Incumbent) -> Result<()> {
    let Incumbent { system, scheduler_names, found, pods, workloads } = incumbent;
    printer.line(printer.paint(Tone::Strong, &system.to_string()))?;
    if !found.is_empty() {
        printer.line(format_args!("  found  {}", found.join("; ")))?;
    }
    let names = scheduler_names.join(", ");
    let made = if workloads.is_empty() { String::new() } else { format!(": {}", some_of(workloads)) };
    printer.line(format_args!(
        "  owns   {} and {} with schedulerName {names}{made}",
        counted(*pods, "pod"),
        counted(workloads.len(), "workload")
    ))
}

fn tell_today(printer: &mut Printer, today: &Today) -> Result<()> {
    let Today { bound, evicted, rejected, problems, pending } = today;
    title(printer, "Today, on this state")?;
    let decided = counts(&[
        (bound.len(), "would be bound"),
        (evicted.len(), "would be evicted"),
        (rejected.len(), "would be rejected"),
        (problems.len(), if problems.len() == 1 { "problem" } else { "problems" }),
    ]);
    printer.line(format_args!("  {}", decided.unwrap_or_else(|| "nothing would change".to_owned())))?;
    tell_refused(printer, problems, rejected)?;
    tell_evicted(printer, &evicted.iter().collect::<Vec<_>>())?;
    tell_bound(printer, bound)?;
    printer.list(pending, |_, Pending { count, pod, reason }| {
        let others = if *count > 1 { format!(" and {} more", count - 1) } else { String::new() };
        vec![format!("pending   {pod}{others}: {}: {}", reason.code, reason.message)]
    })
}
