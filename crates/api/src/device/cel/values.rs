//! Quantities and versions, as selectors know them.

use std::cmp::Ordering;
use std::sync::Arc;

use cel::extractors::{Arguments, This};
use cel::objects::Opaque;
use cel::{Context, ExecutionError, Value};
use quotient_engine::quantity::Quantity;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct QuantityValue(pub Quantity);

impl Opaque for QuantityValue {
    fn runtime_type_name(&self) -> &str {
        "kubernetes.Quantity"
    }
}

/// A semantic version. Build metadata does not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SemverValue {
    numbers: [u64; 3],
    prerelease: Vec<Part>,
}

/// A part of a prerelease: numbers come before texts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Number(u64),
    Text(String),
}

impl Opaque for SemverValue {
    fn runtime_type_name(&self) -> &str {
        "kubernetes.Semver"
    }
}

impl SemverValue {
    /// Reads `1.2.3-rc.1+build`. Where it may be normalised, `v1.2` and `01.2` are read too.
    pub fn parse(text: &str, normalise: bool) -> Option<Self> {
        let text = if normalise { text.strip_prefix('v').unwrap_or(text) } else { text };
        let (text, build) = match text.split_once('+') {
            Some((text, build)) => (text, Some(build)),
            None => (text, None),
        };
        let is_part =
            |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if build.is_some_and(|build| !build.split('.').all(is_part)) {
            return None;
        }
        let (core, prerelease) = match text.split_once('-') {
            Some((core, prerelease)) => (core, Some(prerelease)),
            None => (text, None),
        };
        let mut numbers = Vec::new();
        for part in core.split('.') {
            let part = if normalise && part.len() > 1 { part.trim_start_matches('0') } else { part };
            numbers.push(number(if normalise && part.is_empty() { "0" } else { part })?);
        }
        if normalise && prerelease.is_none() {
            numbers.resize(numbers.len().max(3), 0);
        }
        let numbers: [u64; 3] = numbers.try_into().ok()?;
        let part = |part: &str| {
            let digits = part.bytes().all(|byte| byte.is_ascii_digit());
            match (is_part(part), digits) {
                (false, _) => None,
                (true, true) => number(part).map(Part::Number),
                (true, false) => Some(Part::Text(part.to_string())),
            }
        };
        let prerelease = match prerelease {
            Some(text) => text.split('.').map(part).collect::<Option<Vec<Part>>>()?,
            None => Vec::new(),
        };
        Some(SemverValue { numbers, prerelease })
    }
}

/// A number without leading zeroes.
fn number(text: &str) -> Option<u64> {
    let plain = text == "0" || !text.starts_with('0');
    (plain && !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

impl Ord for SemverValue {
    fn cmp(&self, other: &Self) -> Ordering {
        // A version comes after its prereleases.
        let released = |version: &SemverValue| version.prerelease.is_empty();
        self.numbers
            .cmp(&other.numbers)
            .then(released(self).cmp(&released(other)))
            .then_with(|| self.prerelease.cmp(&other.prerelease))
    }
}

impl PartialOrd for SemverValue {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn wrong(function: &str, message: impl ToString) -> ExecutionError {
    ExecutionError::FunctionError { function: function.to_string(), message: message.to_string() }
}

fn quantity_of(value: &Value) -> Option<Quantity> {
    match value {
        Value::Opaque(opaque) => opaque.downcast_ref::<QuantityValue>().map(|value| value.0),
        _ => None,
    }
}

fn semver_of(value: &Value) -> Option<&SemverValue> {
    match value {
        Value::Opaque(opaque) => opaque.downcast_ref::<SemverValue>(),
        _ => None,
    }
}

/// How two quantities, or two versions, compare.
fn compare(function: &str, this: &Value, other: &Value) -> Result<Ordering, ExecutionError> {
    if let (Some(this), Some(other)) = (quantity_of(this), quantity_of(other)) {
        return Ok(this.cmp(&other));
    }
    if let (Some(this), Some(other)) = (semver_of(this), semver_of(other)) {
        return Ok(this.cmp(other));
    }
    Err(wrong(function, "expected two quantities or two versions"))
}

fn read_quantity(text: &Value) -> Result<Quantity, ExecutionError> {
    let Value::String(text) = text else { return Err(wrong("quantity", "expected a string")) };
    text.parse::<Quantity>().map_err(|error| wrong("quantity", error))
}

fn read_semver(arguments: &[Value]) -> Result<Option<SemverValue>, ExecutionError> {
    let normalise = match arguments.get(1) {
        None => false,
        Some(Value::Bool(normalise)) => *normalise,
        Some(_) => return Err(wrong("semver", "expected true or false as the second argument")),
    };
    let Some(Value::String(text)) = arguments.first() else { return Err(wrong("semver", "expected a string")) };
    Ok(SemverValue::parse(text, normalise))
}

fn sum(function: &str, this: &Value, other: &Value, sign: i128) -> Result<Value, ExecutionError> {
    let Some(this) = quantity_of(this) else { return Err(wrong(function, "expected a quantity")) };
    let other = match other {
        Value::Int(whole) => i128::from(*whole) * 1_000_000_000,
        other => quantity_of(other).ok_or_else(|| wrong(function, "expected a quantity or a whole number"))?.nanos(),
    };
    let nanos = this.nanos().checked_add(sign * other).ok_or_else(|| wrong(function, "out of range"))?;
    Ok(Value::Opaque(Arc::new(QuantityValue(Quantity::from_nanos(nanos, this.format())))))
}

type Outcome = Result<Value, ExecutionError>;

/// Adds what Kubernetes adds to CEL and a selector of devices may use.
pub(super) fn add_functions(context: &mut Context<'_, '_>) {
    const FREE: &str = "the standard library has no function of this name";
    let mut quantities = |name: &'static str, test: fn(Ordering) -> Value| {
        let function =
            move |This(this): This<Value>, other: Value| -> Outcome { compare(name, &this, &other).map(test) };
        context.add_function(name, function).expect(FREE);
    };
    quantities("isGreaterThan", |order| Value::Bool(order.is_gt()));
    quantities("isLessThan", |order| Value::Bool(order.is_lt()));
    quantities("compareTo", |order| Value::Int(order as i64));
    let mut add = |name: &'static str, function: fn(Value) -> Outcome| {
        context.add_function(name, move |This(this): This<Value>| -> Outcome { function(this) }).expect(FREE);
    };
    add("quantity", |text| read_quantity(&text).map(|quantity| Value::Opaque(Arc::new(QuantityValue(quantity)))));
    add("isQuantity", |text| Ok(Value::Bool(read_quantity(&text).is_ok())));
    add("isInteger", |this| {
        let quantity = quantity_of(&this).ok_or_else(|| wrong("isInteger", "expected a quantity"))?;
        Ok(Value::Bool(quantity.nanos() % 1_000_000_000 == 0 && quantity.value().is_ok()))
    });
    add("asInteger", |this| {
        let quantity = quantity_of(&this).ok_or_else(|| wrong("asInteger", "expected a quantity"))?;
        match quantity.value() {
            Ok(value) if quantity.nanos() % 1_000_000_000 == 0 => Ok(Value::Int(value)),
            _ => Err(wrong("asInteger", "cannot convert value to integer")),
        }
    });
    add("asApproximateFloat", |this| {
        let quantity = quantity_of(&this).ok_or_else(|| wrong("asApproximateFloat", "expected a quantity"))?;
        Ok(Value::Float(quantity.nanos() as f64 / 1e9))
    });
    add("sign", |this| {
        let quantity = quantity_of(&this).ok_or_else(|| wrong("sign", "expected a quantity"))?;
        Ok(Value::Int(quantity.nanos().signum() as i64))
    });
    let mut part = |name: &'static str, at: usize| {
        let function = move |This(this): This<Value>| -> Outcome {
            let version = semver_of(&this).ok_or_else(|| wrong(name, "expected a version"))?;
            Ok(Value::Int(i64::try_from(version.numbers[at]).unwrap_or(i64::MAX)))
        };
        context.add_function(name, function).expect(FREE);
    };
    part("major", 0);
    part("minor", 1);
    part("patch", 2);
    let add = |This(this): This<Value>, other: Value| -> Outcome { sum("add", &this, &other, 1) };
    context.add_function("add", add).expect(FREE);
    let sub = |This(this): This<Value>, other: Value| -> Outcome { sum("sub", &this, &other, -1) };
    context.add_function("sub", sub).expect(FREE);
    let semver = |Arguments(arguments): Arguments| -> Outcome {
        let version = read_semver(&arguments)?.ok_or_else(|| wrong("semver", "expected a version such as 1.2.3"))?;
        Ok(Value::Opaque(Arc::new(version)))
    };
    context.add_function("semver", semver).expect(FREE);
    let is_semver =
        |Arguments(arguments): Arguments| -> Outcome { Ok(Value::Bool(read_semver(&arguments)?.is_some())) };
    context.add_function("isSemver", is_semver).expect(FREE);
    let find = |This(this): This<Arc<String>>, pattern: Arc<String>| -> Outcome {
        let pattern = regex_lite::Regex::new(&pattern).map_err(|error| wrong("find", error))?;
        let found = pattern.find(&this).map_or("", |found| found.as_str());
        Ok(Value::String(Arc::new(found.to_string())))
    };
    context.add_function("find", find).expect(FREE);
}
