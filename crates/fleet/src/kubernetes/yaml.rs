//! Values as YAML 1.2, in block style. Strings that could be read as anything else are quoted as in
//! JSON, of which YAML is a superset.

use serde_json::Value;

/// Plain words that YAML 1.1 reads as something else.
const RESERVED: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];

/// Documents, each after a line of three hyphens; `head` are lines of comment before them.
pub fn documents(head: &str, documents: &[Value]) -> String {
    let mut text: String = head.lines().map(|line| format!("# {line}\n")).collect();
    for document in documents {
        text.push_str("---\n");
        block(&mut text, document, 0);
    }
    text
}

/// A value whose lines are indented so far.
fn block(text: &mut String, value: &Value, depth: usize) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                text.push_str(&format!("{indent}{}:", word(name)));
                nested(text, member, depth + 1);
            }
        }
        Value::Array(items) => {
            for item in items {
                let mut lines = String::new();
                nested(&mut lines, item, 0);
                // What stands in the first line of an item stands after its hyphen.
                let lines = lines.trim_start_matches([' ', '\n']);
                for (at, line) in lines.lines().enumerate() {
                    let mark = if at == 0 { "- " } else { "  " };
                    text.push_str(&format!("{indent}{mark}{line}\n"));
                }
            }
        }
        _ => text.push_str(&format!("{indent}{}\n", scalar(value))),
    }
}

/// A value after a name: on the same line, or in the next lines.
fn nested(text: &mut String, value: &Value, depth: usize) {
    let is_block = match value {
        Value::Object(members) => !members.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    };
    match is_block {
        true => {
            text.push('\n');
            block(text, value, depth);
        }
        false => text.push_str(&format!(" {}\n", scalar(value))),
    }
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(string) => word(string),
        // Empty objects and lists as well.
        _ => value.to_string(),
    }
}

/// A string, quoted where it is more than a word.
fn word(string: &str) -> String {
    let is_inside = |letter: char| letter.is_ascii_alphanumeric() || "/._-".contains(letter);
    let is_word = string.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '/')
        && string.chars().all(is_inside)
        && !RESERVED.contains(&string.to_ascii_lowercase().as_str());
    match is_word {
        true => string.to_owned(),
        false => Value::from(string).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::documents;
    use serde_json::{Value, json};

    #[test]
    fn what_is_written_reads_back() {
        let value = json!({
            "a": {"b": [1, "two", {"c": [], "d": {}, "e": [["x"], [{"f": "g"}]]}], "empty": ""},
            "words": ["yes", "No", "null", "1", "0x1f", "1e3", "~", "- a", "a: b", "a #b", "#", "a\nb", "é", "\u{1b}", "$(X)", "100m", "=", "-"],
            "kinds": [true, null, -3, 1.5],
            "1": "on",
        });
        let text = documents("first\nsecond", &[value.clone(), json!({"k": "v"})]);
        assert!(text.starts_with("# first\n# second\n---\n"), "{text}");
        let read: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
        assert_eq!(read, [value, json!({"k": "v"})], "{text}");
    }

    #[test]
    fn it_reads_as_people_write_it() {
        let value = json!({"kind": "Job", "list": [{"name": "a", "image": "x:1"}], "none": {}});
        let text = documents("", &[value]);
        assert_eq!(text, "---\nkind: Job\nlist:\n  - image: \"x:1\"\n    name: a\nnone: {}\n");
    }
}
