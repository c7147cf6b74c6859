//! Any objects are read, translated and given to an engine, which decides: nothing that a tenant can store stops it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quotient_api::{Configuration, Translator, kinds};
use quotient_engine::{Budget, Engine, Tick};
use serde_json::{Value, json};

fuzz_target!(|bytes: &[u8]| {
    let configuration = Configuration::default();
    let mut engine = Engine::new(configuration.engine_settings());
    let mut translator = Translator::new(configuration.translator_settings(None));
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "2", "pods": "9"}}});
    translator.upsert(&node).facts.into_iter().for_each(|fact| engine.observe(Tick(0), fact));
    let objects = serde_json::Deserializer::from_slice(bytes).into_iter::<Value>().filter_map(Result::ok).take(8);
    for (index, mut object) in objects.enumerate() {
        // A number chooses the kind: most kinds are hard to spell by chance.
        if let Some(fields) = object.as_object_mut()
            && let Some(choice) = fields.get("k").and_then(Value::as_u64)
        {
            let kind = &kinds::KINDS[choice as usize % kinds::KINDS.len()];
            fields.insert("kind".to_string(), json!(kind.kind));
            fields.insert("apiVersion".to_string(), json!(kind.api_version()));
            fields.entry("metadata").or_insert_with(|| json!({"name": "x", "namespace": "a", "uid": index.to_string()}));
        }
        for fact in translator.upsert(&object).facts {
            engine.observe(Tick(index as u64), fact);
        }
        engine.decide(Tick(index as u64), Budget { pods_max: 16 });
    }
});
