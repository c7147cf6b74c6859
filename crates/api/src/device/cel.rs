//! Selectors of devices, in CEL: compiled with a bound on what they may cost, evaluated for one device at a time.
//!
//! The variable `device` is as Kubernetes has it: `driver`, `attributes` and `capacity` by domain and name, and
//! `allowMultipleAllocations`. A domain that a device does not have is an empty map, so that `has` can ask for a name
//! in
//! it; a name that is missing is an error. Quantities and versions are types of their own.

mod cost;
mod depth;
mod values;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

use cel::common::ast::{ComprehensionExpr, Expr, ListExpr, LiteralValue};
use cel::common::traits::{Container, Indexer, Iterable, Sizer};
use cel::common::types::{MAP_TYPE, Type};
use cel::common::value::{CowVal, Val};
use cel::objects::{Key, Map};
use cel::parser::{Macro, MacroExprHelper};
use cel::{Context, Env, ExecutionError, IdedExpr, ParseError, Program, Value};
use quotient_engine::device::Verdict;
use quotient_engine::fact::Name;

use super::slice::{Device, Field};
use crate::limits::{CEL_BYTES_MAX, CEL_DEPTH_MAX};
use values::{QuantityValue, SemverValue};

/// A selector that can be evaluated.
#[derive(Clone)]
pub(crate) struct Selector {
    source: Name,
    program: Result<Arc<Program>, Name>,
}

impl fmt::Debug for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

impl Selector {
    /// Compiles an expression. One that does not compile is an error for every device.
    pub fn new(source: &str) -> Self {
        Selector { source: source.into(), program: compile(source).map(Arc::new).map_err(Name::from) }
    }
}

/// Why an expression does not compile, if so.
pub(crate) fn compile(source: &str) -> Result<Program, String> {
    if source.len() > CEL_BYTES_MAX {
        return Err(format!("{} bytes; expected at most {CEL_BYTES_MAX}", source.len()));
    }
    let depth = depth::depth(source);
    if depth > CEL_DEPTH_MAX {
        return Err(format!("nested {depth} deep; expected at most {CEL_DEPTH_MAX}"));
    }
    let program = ENVIRONMENT.env.compile(source).map_err(|errors| {
        let text = errors.to_string();
        text.lines().next().unwrap_or("cannot be parsed").trim().to_string()
    })?;
    cost::check(program.expression())?;
    Ok(program)
}

/// What selectors say of a device, one after the other: the first that is not met, or cannot be evaluated, decides.
pub(crate) fn judge<'s>(device: &Subject<'_>, selectors: impl Iterator<Item = &'s Selector>) -> Verdict {
    for selector in selectors {
        let error = |message: &dyn fmt::Display| Verdict::Error(format!("{:?}: {message}", &*selector.source).into());
        let program = match &selector.program {
            Ok(program) => program,
            Err(message) => return error(message),
        };
        match program.execute(&device.context) {
            Ok(Value::Bool(true)) => {}
            Ok(Value::Bool(false)) => return Verdict::No,
            Ok(other) => return error(&format!("gives {}; expected true or false", other.type_of())),
            Err(problem) => return error(&problem),
        }
    }
    Verdict::Yes
}

/// A device, ready to be judged.
pub(crate) struct Subject<'a> {
    context: Context<'a, 'static>,
}

impl Subject<'_> {
    pub fn new(driver: &Name, device: &Device) -> Subject<'static> {
        let mut context = ENVIRONMENT.context.new_inner_scope();
        let driver = Value::String(Arc::new(driver.to_string()));
        let shared = Value::Bool(device.shared);
        let attributes = by_domain(device.attributes.iter().map(|(domain, name, field)| (domain, name, value(field))));
        let capacity = by_domain(device.capacity.iter().map(|own| {
            let quantity = quotient_engine::quantity::Quantity::from_nanos(own.value, own.format);
            (&own.domain, &own.name, Value::Opaque(Arc::new(QuantityValue(quantity))))
        }));
        let whole: HashMap<Key, Value> = HashMap::from([
            ("driver".into(), driver.clone()),
            ("attributes".into(), attributes.clone()),
            ("capacity".into(), capacity.clone()),
            ("allowMultipleAllocations".into(), shared.clone()),
        ]);
        context.add_variable_from_value("device", Value::Map(Map::from(whole)));
        // The more specific name goes before the field of the variable: this is where missing domains are empty.
        context.add_variable_from_value("device.driver", driver);
        context.add_variable_from_value("device.allowMultipleAllocations", shared);
        for (name, domains) in [("device.attributes", attributes), ("device.capacity", capacity)] {
            if let Ok(inner) = <Box<dyn Val>>::try_from(domains) {
                context.add_variable_as_val(name, Box::new(Domains { inner }));
            }
        }
        Subject { context }
    }
}

fn value(field: &Field) -> Value {
    match field {
        Field::Int(value) => Value::Int(*value),
        Field::Bool(value) => Value::Bool(*value),
        Field::Text(value) => Value::String(Arc::new(value.to_string())),
        Field::Version(text) => match SemverValue::parse(text, false) {
            Some(version) => Value::Opaque(Arc::new(version)),
            None => Value::Null,
        },
    }
}

fn by_domain<'d>(entries: impl Iterator<Item = (&'d Name, &'d Name, Value)>) -> Value {
    let mut domains: HashMap<&Name, HashMap<Key, Value>> = HashMap::new();
    for (domain, name, value) in entries {
        domains.entry(domain).or_default().insert(name.to_string().into(), value);
    }
    let whole: HashMap<Key, Value> =
        domains.into_iter().map(|(domain, names)| (domain.to_string().into(), Value::Map(Map::from(names)))).collect();
    Value::Map(Map::from(whole))
}

/// A map of domains in which a domain that is missing is empty.
#[derive(Debug)]
struct Domains {
    inner: Box<dyn Val>,
}

impl Val for Domains {
    fn get_type(&self) -> &Type {
        &MAP_TYPE
    }

    fn cel_type() -> &'static Type {
        &MAP_TYPE
    }

    fn as_container(&self) -> Option<&dyn Container> {
        self.inner.as_container()
    }

    fn as_indexer<'b, 'v>(&'b self) -> Option<&'b (dyn Indexer + 'v)>
    where
        Self: 'v,
    {
        Some(self)
    }

    fn as_iterable<'b, 'v>(&'b self) -> Option<&'b (dyn Iterable + 'v)>
    where
        Self: 'v,
    {
        self.inner.as_iterable()
    }

    fn as_sizer(&self) -> Option<&dyn Sizer> {
        self.inner.as_sizer()
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v>
    where
        Self: 'v,
    {
        Box::new(Domains { inner: self.inner.clone_as_boxed() })
    }
}

impl Indexer for Domains {
    fn get<'b, 'v>(&'b self, key: &dyn Val) -> Result<CowVal<'b, 'v>, ExecutionError>
    where
        Self: 'v,
    {
        let Some(inner) = self.inner.as_indexer() else { return Err(ExecutionError::MissingArgumentOrTarget) };
        match inner.get(key) {
            Err(ExecutionError::NoSuchKey(_)) => {
                let empty = <Box<dyn Val>>::try_from(Value::Map(Map::from(HashMap::<Key, Value>::new())));
                empty.map(CowVal::Owned).map_err(|_| ExecutionError::MissingArgumentOrTarget)
            }
            other => other,
        }
    }

    fn steal<'v>(self: Box<Self>, key: &dyn Val) -> Result<Box<dyn Val + 'v>, ExecutionError>
    where
        Self: 'v,
    {
        self.get(key).map(CowVal::into_owned)
    }
}

/// What expressions are compiled for and evaluated in.
struct Environment {
    env: Arc<Env>,
    context: Context<'static, 'static>,
}

static ENVIRONMENT: LazyLock<Environment> = LazyLock::new(|| {
    let mut env = Env::stdlib().with_optional_support(true);
    let known = "no two of these declare the same";
    env.add_extension(cel::extensions::strings).expect(known);
    env.add_extension(cel::extensions::math).expect(known);
    env.add_extension(cel::extensions::lists).expect(known);
    env.add_macro(Macro::receiver("bind", 3, bind)).expect(known);
    let env = Arc::new(env);
    let mut context = Context::with_env(Arc::clone(&env));
    values::add_functions(&mut context);
    Environment { env, context }
});

/// `cel.bind(name, value, expression)`: a fold over nothing, whose start is the value.
#[allow(clippy::ptr_arg)] // The signature is that of an expander.
fn bind(
    helper: &mut MacroExprHelper<'_>,
    target: &mut Option<IdedExpr>,
    arguments: &mut Vec<IdedExpr>,
) -> Result<Option<IdedExpr>, ParseError> {
    let of_cel = target.as_ref().is_some_and(|target| matches!(&target.expr, Expr::Ident(name) if name == "cel"));
    if !of_cel {
        return Ok(None);
    }
    let [name, value, result] = &arguments[..] else { return Ok(None) };
    let Expr::Ident(variable) = &name.expr else {
        return Err(helper.new_error(name.id, "expected a name to bind to"));
    };
    let (variable, value, result) = (variable.clone(), value.clone(), result.clone());
    let fold = ComprehensionExpr {
        iter_range: helper.next_expr(Expr::List(ListExpr::new(Vec::new()))),
        iter_var: "#unused".to_string(),
        iter_var2: None,
        accu_init: value,
        loop_cond: helper.next_expr(Expr::Literal(LiteralValue::Boolean(false.into()))),
        loop_step: helper.next_expr(Expr::Ident(variable.clone())),
        accu_var: variable,
        result,
    };
    Ok(Some(helper.next_expr(Expr::Comprehension(Box::new(fold)))))
}

#[cfg(test)]
mod tests;
