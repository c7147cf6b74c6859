//! `quotient mcp`: the read-only answers for programs and agents, as a Model Context Protocol server on standard input
//! and output.
//!
//! A message is a line of JSON-RPC 2.0. Requests are answered one after another, in their order; notifications are not.
//! Nothing is ever written to a cluster.

mod tools;

use std::io::{self, BufRead, Write};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::arguments::{Format, McpArguments};
use crate::exit::Exit;
use crate::printer::Printer;

/// The versions of the protocol that are spoken, the preferred one first.
const VERSIONS: [&str; 3] = ["2025-06-18", "2025-03-26", "2024-11-05"];

/// The longest message that is read: a request holds manifests at most.
const MESSAGE_BYTES_MAX: usize = 64 << 20;

const PARSE_ERROR: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;
const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;

/// Answers until the input ends.
pub fn run(arguments: McpArguments) -> Result<Exit> {
    let mut printer = Printer::new(Format::Json);
    let mut input = io::stdin().lock();
    let mut out = io::stdout().lock();
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = io::Read::take(&mut input, MESSAGE_BYTES_MAX as u64).read_until(b'\n', &mut line);
        if read.context("the input cannot be read")? == 0 {
            return Ok(Exit::Fine);
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let Some(answer) = answer(&line, &arguments, &mut printer) else { continue };
        let written = writeln!(out, "{answer}").and_then(|()| out.flush());
        match written {
            // Whoever asked is gone.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(Exit::Fine),
            other => other.context("the answer cannot be written")?,
        }
    }
}

/// The answer to a message; `None` where it wants none.
fn answer(line: &[u8], arguments: &McpArguments, printer: &mut Printer) -> Option<Value> {
    let message: Value = match serde_json::from_slice(line) {
        Ok(message) => message,
        Err(error) => return Some(failure(Value::Null, PARSE_ERROR, &format!("not JSON: {error}"))),
    };
    let Some(method) = message.get("method").and_then(Value::as_str) else {
        let id = message.get("id").cloned().unwrap_or(Value::Null);
        return Some(failure(id, INVALID_REQUEST, "expected a method"));
    };
    let id = message.get("id").cloned().filter(|id| !id.is_null())?;
    let parameters = message.get("params").cloned().unwrap_or_else(|| json!({}));
    let result = match method {
        "initialize" => Ok(initialized(&parameters)),
        "ping" => Ok(json!({})),
        "tools/list" => Ok(json!({"tools": tools::all().map(tools::Tool::listed).collect::<Vec<_>>()})),
        "tools/call" => call(&parameters, arguments, printer),
        _ => Err((METHOD_NOT_FOUND, format!("{method:?} is not a method that is known"))),
    };
    Some(match result {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err((code, message)) => failure(id, code, &message),
    })
}

fn failure(id: Value, code: i64, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

fn initialized(parameters: &Value) -> Value {
    let asked = parameters.get("protocolVersion").and_then(Value::as_str);
    let version = VERSIONS.into_iter().find(|version| Some(*version) == asked).unwrap_or(VERSIONS[0]);
    json!({
        "protocolVersion": version,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "quotient", "version": env!("CARGO_PKG_VERSION")},
        "instructions": "Answers about pods, quotas and nodes of a Kubernetes cluster: why a pod is pending, what would let it run, what a change of quotas would do. Give files or manifests, or neither for the live cluster. Nothing is written.",
    })
}

fn call(parameters: &Value, arguments: &McpArguments, printer: &mut Printer) -> Result<Value, (i64, String)> {
    let name = parameters.get("name").and_then(Value::as_str).unwrap_or_default();
    let Some(tool) = tools::all().find(|tool| tool.name == name) else {
        return Err((INVALID_PARAMS, format!("{name:?} is not a tool that is known")));
    };
    let given = parameters.get("arguments").cloned().unwrap_or_else(|| json!({}));
    // What goes wrong within a tool is part of its answer, so that whoever asked can mend the question.
    Ok(match tools::run(tool, &given, arguments, printer) {
        Ok(answer) => json!({
            "content": [{"type": "text", "text": answer.to_string()}],
            "structuredContent": answer,
            "isError": false,
        }),
        Err(error) => json!({"content": [{"type": "text", "text": format!("{error:#}")}], "isError": true}),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(message: Value) -> Option<Value> {
        let mut printer = Printer::new(Format::Json);
        answer(message.to_string().as_bytes(), &McpArguments::default(), &mut printer)
    }

    fn result(method: &str, params: Value) -> Value {
        let answer = ask(json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})).expect("an answer");
        assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &json!(7)), "{answer}");
        answer["result"].clone()
    }

    const CLUSTER: &str = "
{apiVersion: v1, kind: Node, metadata: {name: n}, status: {allocatable: {cpu: '4', pods: '10'}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: big, namespace: a}, spec: {containers: [{name: c, image: i, resources: {requests: {cpu: '5'}}}]}}
";

    #[test]
    fn it_says_what_it_is_and_what_it_can() {
        let hello = result("initialize", json!({"protocolVersion": "2024-11-05"}));
        assert_eq!(hello["protocolVersion"], "2024-11-05");
        assert_eq!(result("initialize", json!({"protocolVersion": "1"}))["protocolVersion"], VERSIONS[0]);
        let tools = result("tools/list", json!({}));
        let names: Vec<&str> =
            tools["tools"].as_array().expect("a list").iter().filter_map(|tool| tool["name"].as_str()).collect();
        assert_eq!(names, ["explain", "tree", "top", "plan", "simulate", "lint"]);
        assert!(tools["tools"].as_array().expect("a list").iter().all(|tool| tool["inputSchema"]["type"] == "object"));
        assert_eq!(result("ping", json!({})), json!({}));
        assert_eq!(ask(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})), None);
    }

    #[test]
    fn tools_answer_and_say_what_is_wrong() {
        let called = |name: &str, arguments: Value| result("tools/call", json!({"name": name, "arguments": arguments}));
        let told = called("explain", json!({"manifests": CLUSTER, "pod": "a/big"}));
        assert_eq!(told["isError"], false, "{told}");
        assert_eq!(told["structuredContent"]["reason"]["code"], "NoFittingNode");
        let text = told["content"][0]["text"].as_str().expect("a text");
        assert_eq!(serde_json::from_str::<Value>(text).ok(), Some(told["structuredContent"].clone()));
        for (tool, part) in [("tree", "groups"), ("top", "nodes"), ("simulate", "steps"), ("lint", "findings")] {
            let answer = called(tool, json!({"manifests": CLUSTER}));
            assert!(answer["structuredContent"].get(part).is_some(), "{tool}: {answer}");
        }
        let change = "{apiVersion: v1, kind: Node, metadata: {name: m}, status: {allocatable: {cpu: '8', pods: '10'}}}";
        let plan = called("plan", json!({"manifests": CLUSTER, "change": change}));
        assert_eq!(plan["structuredContent"]["verdict"]["starts"], 1, "{plan}");
        assert_eq!(called("explain", json!({"manifests": CLUSTER, "pod": "a/none"}))["isError"], true);
        assert_eq!(called("explain", json!({"files": ["gone.yaml"], "pod": "a/b"}))["isError"], true);
        let unknown = ask(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "delete"}}));
        assert_eq!(unknown.expect("an answer")["error"]["code"], INVALID_PARAMS);
        let nonsense = answer(b"{nonsense", &McpArguments::default(), &mut Printer::new(Format::Json));
        assert_eq!(nonsense.expect("an answer")["error"]["code"], PARSE_ERROR);
    }
}
