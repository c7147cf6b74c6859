//! Arguments of a job's plugins, written as a command line: `--name=value`, `--name value`, or `--name` for true.

use serde_json::Value;

/// The arguments of one plugin.
#[derive(Debug, Clone, Copy)]
pub struct Arguments<'a>(&'a [Value]);

impl<'a> Arguments<'a> {
    pub fn of(plugin: &'a Value) -> Self {
        Arguments(plugin.as_array().map_or(&[], Vec::as_slice))
    }

    /// The value of an argument; empty where it stands without one.
    pub fn text(self, name: &str) -> Option<&'a str> {
        let mut words = self.0.iter().filter_map(Value::as_str).peekable();
        while let Some(word) = words.next() {
            let Some(option) = word.strip_prefix('-') else { continue };
            let option = option.strip_prefix('-').unwrap_or(option);
            match option.split_once('=') {
                Some((found, value)) if found == name => return Some(value),
                None if option == name => {
                    return Some(words.peek().filter(|next| !next.starts_with('-')).unwrap_or(&""));
                }
                _ => {}
            }
        }
        None
    }

    /// Whether a switch is on; `None` where it is not given.
    pub fn switch(self, name: &str) -> Option<bool> {
        self.text(name).map(|value| !matches!(value, "false" | "False" | "FALSE" | "f" | "F" | "0"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn arguments_are_read_as_on_a_command_line() {
        let given = json!(["--path=/home/a", "-user", "a b", "--on", "--off=false"]);
        let arguments = Arguments::of(&given);
        let texts = ["path", "user", "on", "absent"].map(|name| arguments.text(name));
        assert_eq!(texts, [Some("/home/a"), Some("a b"), Some(""), None]);
        assert_eq!(["on", "off", "absent"].map(|name| arguments.switch(name)), [Some(true), Some(false), None]);
    }
}
