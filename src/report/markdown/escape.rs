//! Text that must stay text, whatever is in it.

/// Text in one line that Markdown reads as text: no markup, no HTML, no entity, no formula; and that
/// GitHub reads as text: `@` calls nobody, `#1` is no issue.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut letters = text.trim().chars().peekable();
    while let Some(letter) = letters.next() {
        let next = letters.peek().copied();
        match letter {
            '|' | '*' | '_' | '<' | '>' | '`' | '[' | ']' | '\\' | '~' | '&' | '$' => {
                escaped.push('\\');
                escaped.push(letter);
            }
            '@' => escaped.push_str("@<!-- -->"),
            '#' if next.is_some_and(|next| next.is_ascii_digit()) => {
                escaped.push_str("#<!-- -->");
            }
            letter if letter.is_control() => escaped.push(' '),
            letter => escaped.push(letter),
        }
    }
    escaped
}

/// Text that begins a line, where more letters have a meaning.
pub(super) fn paragraph(text: &str) -> String {
    let text = escaped(text);
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let after = text[digits..].chars().next();
    match after {
        Some('#' | '+' | '-' | '=') if digits == 0 => format!("\\{text}"),
        Some('.' | ')') if digits > 0 => format!("{}\\{}", &text[..digits], &text[digits..]),
        _ => text,
    }
}

/// Text inside an element of HTML, where Markdown is not read.
pub(super) fn html(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '@' => escaped.push_str("@<!-- -->"),
            // An empty line would end the element's block.
            letter if letter.is_control() => escaped.push(' '),
            letter => escaped.push(letter),
        }
    }
    escaped
}

/// A manual: its own headings go below the section's, and what looks like HTML in it is text.
pub(super) fn manual(text: &str) -> String {
    let mut is_fenced = false;
    text.lines()
        .map(|line| {
            if line.trim_start().starts_with("```") {
                is_fenced = !is_fenced;
            }
            match line.starts_with('#') {
                _ if is_fenced || line.starts_with("    ") => format!("{line}\n"),
                true => {
                    let heading = line.trim_start_matches('#').trim();
                    format!("#### {}\n", outside_code(heading))
                }
                false => format!("{}\n", outside_code(line)),
            }
        })
        .collect()
}

/// Escapes what could be an element, except between backticks, where it is none.
fn outside_code(line: &str) -> String {
    let mut is_code = false;
    line.chars()
        .map(|letter| {
            is_code ^= letter == '`';
            match letter {
                '<' if !is_code => "\\<".to_owned(),
                letter => letter.to_string(),
            }
        })
        .collect()
}
