//! Manuals: the part of Markdown that they use (headings, paragraphs, lists, fenced code, inline
//! code and emphasis), as HTML.

use maud::{Markup, PreEscaped, html};

/// How deep the headings of a manual stand.
#[derive(Clone, Copy)]
pub enum Level {
    /// Below a section's heading.
    Third,
    /// Below a heading within a section.
    Fourth,
}

pub fn render(text: &str, level: Level) -> Markup {
    let mut parts: Vec<Markup> = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let line = line.trim_end();
        if line.trim_start().starts_with("```") {
            let code: Vec<&str> =
                lines.by_ref().take_while(|line| !line.trim_start().starts_with("```")).collect();
            parts.push(html! { pre { code { (code.join("\n")) } } });
        } else if line.starts_with('#') {
            let heading = inline(line.trim_start_matches('#').trim());
            parts.push(match level {
                Level::Third => html! { h3 { (heading) } },
                Level::Fourth => html! { h4 { (heading) } },
            });
        } else if is_item(line) {
            let mut items = vec![item(line)];
            while let Some(next) = lines
                .next_if(|next| is_item(next) || (next.starts_with(' ') && !next.trim().is_empty()))
            {
                match items.last_mut() {
                    Some(last) if !is_item(next) => {
                        last.push(' ');
                        last.push_str(next.trim());
                    }
                    _ => items.push(item(next)),
                }
            }
            parts.push(html! { ul { @for item in &items { li { (inline(item)) } } } });
        } else if !line.trim().is_empty() {
            let mut paragraph = line.trim().to_owned();
            while let Some(next) = lines.next_if(|next| continues(next)) {
                paragraph.push(' ');
                paragraph.push_str(next.trim());
            }
            parts.push(html! { p { (inline(&paragraph)) } });
        }
    }
    html! { @for part in parts { (part) } }
}

fn is_item(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("- ") || line.starts_with("* ")
}

fn item(line: &str) -> String {
    line.trim_start()[2..].trim().to_owned()
}

fn continues(line: &str) -> bool {
    !line.trim().is_empty()
        && !line.starts_with('#')
        && !is_item(line)
        && !line.trim_start().starts_with("```")
}

/// Inline code and bold; the text itself is escaped by maud.
fn inline(text: &str) -> Markup {
    let mut parts: Vec<Markup> = Vec::new();
    for (at, piece) in text.split('`').enumerate() {
        if at % 2 == 1 {
            parts.push(html! { code { (piece) } });
            continue;
        }
        for (at, piece) in piece.split("**").enumerate() {
            match at % 2 {
                1 => parts.push(html! { strong { (piece) } }),
                _ => parts.push(html! { (piece) }),
            }
        }
    }
    let text: String = parts.into_iter().map(PreEscaped::into_string).collect();
    PreEscaped(text)
}

#[cfg(test)]
mod tests {
    use super::{Level, render};

    #[test]
    fn what_manuals_use() {
        for (text, markup) in [
            (
                "## Method\n\nTimed `n` <b>\nagainst **2n**.",
                "<h4>Method</h4><p>Timed <code>n</code> &lt;b&gt; against <strong>2n</strong>.</p>",
            ),
            ("- one\n  more\n- two", "<ul><li>one more</li><li>two</li></ul>"),
            ("```\na < b\n```\nend", "<pre><code>a &lt; b</code></pre><p>end</p>"),
        ] {
            assert_eq!(render(text, Level::Fourth).into_string(), markup, "{text}");
        }
    }
}
