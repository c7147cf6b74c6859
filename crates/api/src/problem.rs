//! What is wrong with an input, in one line that says where.

use std::fmt;

/// Something in an object or a file that cannot be read or used. The rest of the input still counts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Problem {
    /// The file, with line and column where they are known (`cluster.yaml:3:7`).
    pub file: Option<String>,
    /// The object, as `Kind/namespace/name`.
    pub object: Option<String>,
    /// The field, as a path such as `spec.containers[0].image`.
    pub field: Option<String>,
    /// What stands there, as JSON.
    pub value: Option<String>,
    /// What is wrong and what was expected.
    pub message: String,
}

impl Problem {
    /// A problem that says only what is wrong.
    pub fn new(message: impl Into<String>) -> Self {
        Problem { message: message.into(), ..Problem::default() }
    }

    /// Says in which file it is.
    pub fn in_file(mut self, file: impl Into<String>) -> Self {
        self.file = Some(file.into());
        self
    }

    /// Says in which object it is.
    pub fn of_object(mut self, object: impl fmt::Display) -> Self {
        self.object = Some(object.to_string());
        self
    }

    /// Says in which field it is.
    pub fn at_field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// Says what stands there.
    pub fn with_value(mut self, value: &serde_json::Value) -> Self {
        self.value = Some(value.to_string());
        self
    }
}

/// The longest part of a problem that is shown; a whole object in an error line helps nobody.
const PART_CHARS_MAX: usize = 200;

/// Writes `part` on one line: control characters escaped, the end cut off where it is too long.
fn write_part(f: &mut fmt::Formatter<'_>, part: &str) -> fmt::Result {
    use fmt::Write;
    for (i, c) in part.chars().enumerate() {
        if i == PART_CHARS_MAX {
            return f.write_str("…");
        }
        match c {
            '\n' => f.write_str("\\n")?,
            c if c.is_control() => write!(f, "{}", c.escape_default())?,
            c => f.write_char(c)?,
        }
    }
    Ok(())
}

impl fmt::Display for Problem {
    /// One line: `file: object: field: value: message`, without the parts that are not known.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Problem { file, object, field, value, message } = self;
        for part in [file, object, field, value].into_iter().flatten() {
            write_part(f, part)?;
            f.write_str(": ")?;
        }
        // A message is made here and not given by a user, but may quote what a user wrote.
        f.write_str(&message.replace(['\n', '\r'], " "))
    }
}

impl std::error::Error for Problem {}

impl From<crate::cursor::Note> for Problem {
    fn from(note: crate::cursor::Note) -> Self {
        let crate::cursor::Note { field, value, message } = note;
        Problem { file: None, object: None, field: Some(field).filter(|f| !f.is_empty()), value, message }
    }
}
