//! What Kubernetes accepts as names, images and quantities, checked before it is written.
//!
//! Sources: RFC 1035 and RFC 1123 for labels; "Names" and "Labels and Selectors" of the Kubernetes
//! documentation; `resource.Quantity` of its API reference; the reference grammar of the
//! distribution project for images.

/// Longest DNS label.
const LABEL_MAX: usize = 63;
/// Longest reference to an image without its digest.
const IMAGE_MAX: usize = 255;
/// Units of memory: powers of 1024 and of 1000.
const UNITS: [&str; 9] = ["Ki", "Mi", "Gi", "Ti", "k", "M", "G", "T", ""];

fn is_lower(letter: char) -> bool {
    letter.is_ascii_lowercase() || letter.is_ascii_digit()
}

/// Lower-case letters, digits and hyphens, no hyphen at an end, at most 63 (RFC 1123). Errors: it is
/// no such label.
pub fn label(text: &str) -> Result<String, String> {
    let is_label = (1..=LABEL_MAX).contains(&text.len())
        && text.chars().all(|letter| is_lower(letter) || letter == '-')
        && !text.starts_with('-')
        && !text.ends_with('-');
    is_label.then(|| text.to_owned()).ok_or_else(|| {
        "type lower-case letters, digits and hyphens, at most 63, with no hyphen at an end"
            .to_owned()
    })
}

/// A name for a Service and an Indexed Job: a label that begins with a letter (RFC 1035), with room
/// for the hyphen and the index of so many pods. Errors: it is no such name.
pub fn name(text: &str, pods: u32) -> Result<String, String> {
    let name = label(text)?;
    let room = LABEL_MAX - 1 - pods.saturating_sub(1).to_string().len();
    if !name.starts_with(|letter: char| letter.is_ascii_lowercase()) {
        return Err("the name of a Service begins with a letter: type for example plumb".to_owned());
    }
    match name.len() <= room {
        true => Ok(name),
        false => Err(format!(
            "the pods are named after it and their index, so it has room for {room} characters"
        )),
    }
}

/// A reference to an image: `[HOST[:PORT]/]PATH[:TAG][@sha256:DIGEST]`. Errors: another form.
pub fn image(text: &str) -> Result<String, String> {
    let (named, digest) = match text.split_once('@') {
        Some((named, digest)) => (named, Some(digest)),
        None => (text, None),
    };
    let last = named.rsplit('/').next().unwrap_or(named);
    let (path, tag) = match last.rsplit_once(':') {
        Some((_, tag)) => (&named[..named.len() - tag.len() - 1], Some(tag)),
        None => (named, None),
    };
    let is_digest = digest.is_none_or(|digest| {
        let hex = digest.strip_prefix("sha256:").unwrap_or_default();
        hex.len() == 64 && hex.chars().all(|c| c.is_ascii_digit() || ('a'..='f').contains(&c))
    });
    let is_tag = tag.is_none_or(|tag| {
        let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        (1..=128).contains(&tag.len())
            && tag.starts_with(is_word)
            && tag.chars().all(|letter| is_word(letter) || ".-".contains(letter))
    });
    let mut parts = path.split('/');
    let is_path = parts.clone().count() > 1 && parts.next().is_some_and(is_host)
        || path.split('/').next().is_some_and(is_component);
    let is_image = text.len() <= IMAGE_MAX + 72
        && is_path
        && path.split('/').skip(1).all(is_component)
        && is_tag
        && is_digest;
    is_image.then(|| text.to_owned()).ok_or_else(|| {
        "type an image as [HOST[:PORT]/]PATH[:TAG][@sha256:DIGEST], for example \
         registry.example.com/tools/plumb:0.1.0"
            .to_owned()
    })
}

/// The first part of an image that has several: a host with a dot, a port, or `localhost`.
fn is_host(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (text, None),
    };
    let is_name = host.split('.').all(|part| label(&part.to_ascii_lowercase()).is_ok());
    is_name && port.is_none_or(|port| port.parse::<u16>().is_ok())
}

/// Letters and digits with single separators between them.
fn is_component(text: &str) -> bool {
    let is_inside = |letter: char| is_lower(letter) || "._-".contains(letter);
    !text.is_empty()
        && text.chars().all(is_inside)
        && text.starts_with(is_lower)
        && text.ends_with(is_lower)
        && !text.contains("..")
}

/// An amount of memory: a whole number with a unit of 1024 or 1000. Errors: another form, or less than
/// plumb needs to start (64 MiB).
pub fn memory(text: &str) -> Result<String, String> {
    let digits = text.chars().take_while(char::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let way_out = || "type an amount of memory of at least 64Mi, for example 8Gi".to_owned();
    let number: u64 = number.parse().map_err(|_| way_out())?;
    let place = UNITS.iter().position(|known| *known == unit).ok_or_else(way_out)?;
    let bytes = match place {
        binary @ 0..4 => 1024_f64.powi(binary as i32 + 1),
        8 => 1.0,
        decimal => 1000_f64.powi(decimal as i32 - 3),
    } * number as f64;
    (bytes >= 64.0 * 1024.0 * 1024.0).then(|| text.to_owned()).ok_or_else(way_out)
}

/// An absolute path without `..`, as a volume of a node takes it. Errors: another form.
pub fn path(text: &str) -> Result<String, String> {
    let is_path = text.starts_with('/')
        && text.len() > 1
        && !text.split('/').any(|part| part == "..")
        && !text.chars().any(char::is_control);
    let way_out = "type an absolute path, for example /var/lib/node_exporter";
    is_path.then(|| text.to_owned()).ok_or_else(|| way_out.to_owned())
}

/// A label of nodes, `[PREFIX/]NAME=VALUE`. Errors: another form.
pub fn node_label(text: &str) -> Result<(String, String), String> {
    let is_value = |text: &str| {
        let is_end = |letter: char| letter.is_ascii_alphanumeric();
        text.len() <= LABEL_MAX
            && text.chars().all(|letter| is_end(letter) || "._-".contains(letter))
            && text.starts_with(is_end)
            && text.ends_with(is_end)
    };
    let parts = text.split_once('=').filter(|(key, value)| {
        let (prefix, name) = key.rsplit_once('/').unwrap_or(("x", key));
        prefix.split('.').all(|part| label(part).is_ok()) && is_value(name) && is_value(value)
    });
    let way_out = "type a label of nodes as NAME=VALUE, for example kubernetes.io/arch=amd64";
    parts.map(|(key, value)| (key.to_owned(), value.to_owned())).ok_or_else(|| way_out.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{image, label, memory, name, node_label, path};

    fn check<T>(parse: impl Fn(&str) -> Result<T, String>, good: &[&str], bad: &[&str]) {
        for text in good {
            assert!(parse(text).is_ok(), "{text}");
        }
        for text in bad {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn names_are_labels_of_dns_with_room_for_an_index() {
        let long = "a".repeat(63);
        check(
            label,
            &["plumb", "0a", "a-b", &long],
            &["", "-a", "a-", "A", "a.b", "a_b", &format!("{long}a")],
        );
        let fits = "a".repeat(60);
        check(|text| name(text, 16), &["plumb", &fits], &["0a", &format!("{fits}a")]);
        check(|text| name(text, 1), &[&format!("{fits}a")], &[&long]);
    }

    #[test]
    fn images_are_references() {
        let digest = format!("plumb@sha256:{}", "0a".repeat(32));
        check(
            image,
            &[
                "plumb",
                "plumb:0.1.0",
                "tools/plumb",
                "registry.example.com:5000/a/b:v1",
                &digest,
                "localhost/a__b",
            ],
            &[
                "",
                "Plumb",
                "plumb:",
                "plumb:-a",
                "a//b",
                "plumb@sha256:12",
                "a b",
                "plumb:a:b",
                "a..b/c:1",
                "x\ny",
            ],
        );
    }

    #[test]
    fn memory_is_a_whole_number_with_a_unit() {
        check(
            memory,
            &["64Mi", "8Gi", "1Ti", "100000000", "70M", "2G"],
            &["", "8", "63Mi", "8GB", "1.5Gi", "-1Gi", "Gi", "8gi", "60M", "64Ki"],
        );
    }

    #[test]
    fn paths_and_labels_of_nodes() {
        check(path, &["/var/lib/x"], &["", "/", "var", "/a/../b", "/a\nb"]);
        check(
            node_label,
            &["kubernetes.io/arch=amd64", "rack=R1"],
            &["rack", "=a", "rack=", "a b=c", "x=-"],
        );
    }
}
