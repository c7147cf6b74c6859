//! Which commands there are about an object.

use quotient_api::ObjectKey;
use quotient_api::volcano::command;
use serde_json::Value;

use super::Objects;

impl Objects {
    /// The commands about an object that are still to be carried out, the oldest first.
    pub fn commands_about<'a>(
        &'a self,
        key: &ObjectKey,
        object: &Value,
    ) -> impl Iterator<Item = (&'a ObjectKey, &'a Value)> + use<'a> {
        let all = self.of_kind(command::BUS, command::COMMAND, key.namespace.as_deref());
        let is_open = |command: &Value| command.pointer("/metadata/deletionTimestamp").is_none_or(Value::is_null);
        let about = all.filter(|(of, command)| {
            command::target(of, command).as_ref() == Some(key) && command::is_about(command, object) && is_open(command)
        });
        let mut about: Vec<_> = about.collect();
        about.sort_by_key(|(_, command)| command.pointer("/metadata/creationTimestamp").and_then(Value::as_str));
        about.into_iter()
    }
}
