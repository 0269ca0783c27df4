//! Texts without what steers whoever shows them. A record comes from other people too: a model name
//! may hold what clears a terminal's screen, sets its title, or turns the direction of a line.

/// Whether a character steers what shows it: control characters, ends of lines, characters that
/// change the direction of a text, and invisible operators.
pub fn steers(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}')
        || matches!(letter, '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
}

/// The text in one line, with a space for each character that steers.
pub fn line(text: &str) -> String {
    text.chars().map(|letter| if steers(letter) { ' ' } else { letter }).collect()
}

/// The same of a text of several lines, whose ends stay.
pub fn lines(text: &str) -> String {
    let shown = |letter| if letter != '\n' && steers(letter) { ' ' } else { letter };
    text.chars().map(shown).collect()
}

/// JSON with escapes for what steers in its texts. It means the same: outside of texts JSON knows
/// no such characters but ends of lines, which stay.
pub fn json(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter != '\n' && steers(letter) {
            true => shown.push_str(&format!("\\u{:04x}", u32::from(letter))),
            false => shown.push(letter),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::{json, line, lines, steers};

    const HOSTILE: &str = "a\u{1b}[2J\u{7}b\r\n\tc\u{9b}31m\u{202e}d\u{2066}\u{2061}\u{7f}";

    #[test]
    fn texts_steer_nothing() {
        assert_eq!(line(HOSTILE), "a [2J b   c 31m d   ");
        assert_eq!(lines(HOSTILE), "a [2J b \n c 31m d   ");
        assert_eq!(line("Ünïcode ☃ 名前 µ – ±"), "Ünïcode ☃ 名前 µ – ±");
    }

    #[test]
    fn json_means_the_same() {
        let value = serde_json::json!({ HOSTILE: [HOSTILE, 1.5] });
        let text = json(&format!("{value:#}"));
        assert!(!text.chars().any(|letter| letter != '\n' && steers(letter)));
        let read: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(read, value);
    }
}
