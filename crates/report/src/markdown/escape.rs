//! Text that must stay text, whatever is in it.

/// What a reader does not see and that keeps GitHub from reading on.
const BREAK: &str = "<!-- -->";

/// Text in one line that Markdown reads as text: no markup, no HTML, no entity, no formula; and
/// that GitHub reads as text: `@` mentions no user, `#1` is not an issue, an address is not a link,
/// `:name:` is not a picture.
pub(super) fn escaped(text: &str) -> String {
    let text = text.trim();
    let mut escaped = String::with_capacity(text.len());
    for (at, letter) in text.char_indices() {
        let after = &text[at + letter.len_utf8()..];
        match letter {
            '|' | '*' | '_' | '<' | '>' | '`' | '[' | ']' | '\\' | '~' | '&' | '$' => {
                escaped.push('\\');
                escaped.push(letter);
            }
            _ if leads_on(letter, after, &text[..at]) => {
                escaped.push(letter);
                escaped.push_str(BREAK);
            }
            letter if letter.is_control() => escaped.push(' '),
            letter => escaped.push(letter),
        }
    }
    escaped
}

/// Whether GitHub would make more of a letter with what follows it.
fn leads_on(letter: char, after: &str, before: &str) -> bool {
    match letter {
        '@' => true,
        '#' => after.starts_with(|next: char| next.is_ascii_digit()),
        // An address with its scheme, or one to write to; a picture by name.
        ':' => {
            let schemes = ["mailto", "xmpp"];
            let is_scheme = |scheme: &&str| ends_with(before, scheme);
            after.starts_with("//") || schemes.iter().any(is_scheme) || is_picture(after)
        }
        '.' => ends_with(before, "www"),
        _ => false,
    }
}

fn ends_with(text: &str, end: &str) -> bool {
    let at = text.len().checked_sub(end.len());
    let tail = at.and_then(|at| text.get(at..));
    tail.is_some_and(|tail| tail.eq_ignore_ascii_case(end))
}

/// Whether a colon that this follows begins a picture's name: `smile:`. Pairs of hexadecimal digits
/// are parts of an address on a bus.
fn is_picture(after: &str) -> bool {
    let Some((name, _)) = after.split_once(':') else {
        return false;
    };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_+-".contains(&byte);
    let is_pair = name.len() == 2 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    !name.is_empty() && name.bytes().all(is_name) && !is_pair
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
    for (at, letter) in text.char_indices() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            _ if leads_on(letter, &text[at + letter.len_utf8()..], &text[..at]) => {
                escaped.push(letter);
                escaped.push_str(BREAK);
            }
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

/// Escapes possible HTML elements, except between backticks.
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
