//! A bound on what an expression costs, found before it is evaluated, and what it may name.
//!
//! The estimate walks the expression once with an upper bound for the size of every value: a literal has its own size,
//! what
//! a device has is at most [`UNKNOWN`], a sum is as large as its parts. A fold costs its step as often as its range is
//! long. So neither nested loops nor values that are doubled over and over get past it.

use cel::IdedExpr;
use cel::common::ast::{EntryExpr, Expr, LiteralValue};

use crate::limits::CEL_COST_MAX;

/// The size of a value that a device has: attributes and lists have at most 64 entries, texts at most 64 characters.
const UNKNOWN: u64 = 64;

/// What an expression costs at most, and how large its value is at most.
#[derive(Debug, Clone, Copy)]
struct Estimate {
    cost: u64,
    size: u64,
}

/// The names of types and of what functions are grouped under.
const NAMES: [&str; 18] = [
    "int",
    "uint",
    "double",
    "bool",
    "string",
    "bytes",
    "list",
    "map",
    "type",
    "null_type",
    "dyn",
    "optional",
    "optional_type",
    "math",
    "lists",
    "strings",
    "sets",
    "cel",
];

/// The fields of `device`.
const FIELDS: [&str; 4] = ["driver", "attributes", "capacity", "allowMultipleAllocations"];

/// Why an expression is refused, if so.
pub(super) fn check(expression: &IdedExpr) -> Result<(), String> {
    let mut scope = Vec::new();
    let Estimate { cost, .. } = estimate(expression, &mut scope)?;
    if cost > CEL_COST_MAX {
        return Err(format!("may cost {cost} steps; expected at most {CEL_COST_MAX}"));
    }
    Ok(())
}

fn literal(value: &LiteralValue) -> u64 {
    match value {
        LiteralValue::String(text) => text.inner().len() as u64,
        LiteralValue::Bytes(bytes) => bytes.inner().len() as u64,
        _ => 1,
    }
}

fn estimate(expression: &IdedExpr, scope: &mut Vec<(String, u64)>) -> Result<Estimate, String> {
    let one = |size| Ok(Estimate { cost: 1, size });
    match &expression.expr {
        Expr::Unspecified => one(1),
        Expr::Literal(value) => one(literal(value)),
        Expr::Ident(name) => {
            let known = scope.iter().rev().find(|(known, _)| known == name).map(|(_, size)| *size);
            match known {
                Some(size) => one(size),
                None if name == "device" || NAMES.contains(&name.as_str()) => one(UNKNOWN),
                None => Err(format!("undeclared reference to {name:?}")),
            }
        }
        Expr::Select(select) => {
            let of_device = matches!(&select.operand.expr, Expr::Ident(name) if name == "device");
            let is_bound = scope.iter().any(|(name, _)| name == "device");
            if of_device && !is_bound && !FIELDS.contains(&select.field.as_str()) {
                return Err(format!(
                    "undefined field {:?} of device; expected one of {}",
                    select.field,
                    FIELDS.join(", ")
                ));
            }
            let inner = estimate(&select.operand, scope)?;
            Ok(Estimate { cost: inner.cost.saturating_add(1), size: inner.size.max(UNKNOWN) })
        }
        Expr::List(list) => sum(list.elements.iter(), scope),
        Expr::Map(map) => entries(map.entries.iter().map(|entry| &entry.expr), scope),
        Expr::Struct(value) => Err(format!("undeclared type {:?}", value.type_name)),
        Expr::Call(call) => {
            let mut parts = Vec::new();
            for argument in call.target.as_deref().into_iter().chain(&call.args) {
                parts.push(estimate(argument, scope)?);
            }
            let cost = parts.iter().fold(1u64, |sum, part| sum.saturating_add(part.cost));
            let sizes = || parts.iter().map(|part| part.size.max(1));
            let size = match call.func_name.as_str() {
                "_+_" => sizes().fold(0, u64::saturating_add),
                // A result of these may be as large as one part for each element of another.
                "replace" | "join" | "format" | "range" | "lists.range" | "flatten" => {
                    sizes().fold(1, u64::saturating_mul).max(UNKNOWN)
                }
                _ => sizes().max().unwrap_or(1).max(UNKNOWN),
            };
            // What a function reads and makes, ten characters a step.
            let work = sizes().fold(size, u64::saturating_add) / 10;
            bounded(Estimate { cost: cost.saturating_add(work), size })
        }
        Expr::Comprehension(fold) => {
            let range = estimate(&fold.iter_range, scope)?;
            let start = estimate(&fold.accu_init, scope)?;
            let depth = scope.len();
            let is_empty = matches!(&fold.iter_range.expr, Expr::List(list) if list.elements.is_empty());
            let rounds = if is_empty { 0 } else { range.size };
            let element = range.size.max(UNKNOWN);
            scope.push((fold.iter_var.clone(), element));
            scope.extend(fold.iter_var2.iter().map(|name| (name.clone(), element)));
            // What a round adds: the fold so far counts as nothing here, and once for each round below.
            scope.push((fold.accu_var.clone(), 0));
            let condition = estimate(&fold.loop_cond, scope)?;
            let step = estimate(&fold.loop_step, scope)?;
            scope.truncate(depth);
            let size = start.size.saturating_add(rounds.saturating_mul(step.size));
            let per_round = condition.cost.saturating_add(step.cost);
            let rounds_cost = rounds.saturating_mul(per_round);
            scope.push((fold.accu_var.clone(), size));
            let result = estimate(&fold.result, scope)?;
            scope.truncate(depth);
            let cost = [range.cost, start.cost, rounds_cost, result.cost].into_iter().fold(1, u64::saturating_add);
            bounded(Estimate { cost, size: result.size.max(if is_empty { 0 } else { size }) })
        }
    }
}

/// A value larger than all that may be spent on it cannot be made within the limit.
fn bounded(estimate: Estimate) -> Result<Estimate, String> {
    if estimate.size > CEL_COST_MAX || estimate.cost > CEL_COST_MAX {
        return Err(format!("may cost more than {CEL_COST_MAX} steps"));
    }
    Ok(estimate)
}

fn sum<'e>(parts: impl Iterator<Item = &'e IdedExpr>, scope: &mut Vec<(String, u64)>) -> Result<Estimate, String> {
    let mut total = Estimate { cost: 1, size: 0 };
    for part in parts {
        let part = estimate(part, scope)?;
        total.cost = total.cost.saturating_add(part.cost);
        total.size = total.size.saturating_add(part.size.max(1));
    }
    Ok(total)
}

fn entries<'e>(
    entries: impl Iterator<Item = &'e EntryExpr>,
    scope: &mut Vec<(String, u64)>,
) -> Result<Estimate, String> {
    let mut total = Estimate { cost: 1, size: 0 };
    for entry in entries {
        let parts = match entry {
            EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
            EntryExpr::StructField(field) => vec![&field.value],
        };
        let part = sum(parts.into_iter(), scope)?;
        total.cost = total.cost.saturating_add(part.cost);
        total.size = total.size.saturating_add(part.size);
    }
    Ok(total)
}
