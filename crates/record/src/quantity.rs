//! Quantities as people write and read them. Only rendering scales; files hold base units.

use crate::unit::Unit;

/// Parses a size or count in base units: `4096`, `4KiB`, `1.5MiB`, `2GB`. Binary prefixes are
/// powers of 1024, decimal ones of 1000; a bare `K`, `M` or `G` is refused as ambiguous. Errors:
/// what is wrong with the text, and what to type.
pub fn parse_integer(text: &str) -> Result<u64, String> {
    let (number, suffix) = split(text)?;
    let factor = match suffix {
        "" | "B" => 1.0,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        "TiB" => 1024.0_f64.powi(4),
        "kB" | "KB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "TB" => 1e12,
        _ => {
            return Err(format!(
                "`{text}` has no known suffix: type for example 4096, 4KiB or 4kB"
            ));
        }
    };
    let value = number * factor;
    if value < 0.0 || value.fract() != 0.0 || value > 9.0e15 {
        return Err(format!("`{text}` is not a whole number of bytes or counts"));
    }
    Ok(value as u64)
}

/// The sizes within a text that have a decimal prefix and another meaning with a binary one:
/// `32KB`, with what they are in bytes and the same number with the binary prefix.
pub fn decimal_sizes(text: &str) -> Vec<(&str, u64, String)> {
    let is_end = |letter: char| !(letter.is_ascii_alphanumeric() || letter == '.' || letter == '/');
    let sizes = text.split(is_end).flat_map(|word| word.split(".."));
    let decimal = |word| {
        let (_, suffix) = split(word).ok()?;
        let binary = ["kB", "KB", "MB", "GB", "TB"].into_iter().find(|known| *known == suffix)?;
        let number = &word[..word.len() - suffix.len()];
        let prefix = binary[..1].to_uppercase();
        Some((word, parse_integer(word).ok()?, format!("{number}{prefix}iB")))
    };
    sizes.filter_map(decimal).collect()
}

fn split(text: &str) -> Result<(f64, &str), String> {
    let text = text.trim();
    let end =
        text.find(|letter: char| !(letter.is_ascii_digit() || letter == '.')).unwrap_or(text.len());
    let number: f64 =
        text[..end].parse().map_err(|_| format!("`{text}` does not start with a number"))?;
    Ok((number, text[end..].trim_start()))
}

/// A value for people: scaled, with its unit: `91.2 ns`, `1.25 GB/s`, `64 KiB`, `3.20 GHz`.
pub fn render(value: f64, unit: Unit) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    let (factor, name) = scale(value, unit);
    format!("{} {name}", digits(value / factor)).trim_end().to_owned()
}

/// Bytes with binary prefixes, exact where they are whole: `512 B`, `64 KiB`, `1.5 MiB`.
pub fn render_bytes(value: f64) -> String {
    render(value, Unit::B)
}

/// The scales of a unit, the greatest first: how many base units one scaled unit has, and its name
/// (empty for ratios and counts).
pub fn steps(unit: Unit) -> &'static [(f64, &'static str)] {
    const KI: f64 = 1024.0;
    match unit {
        Unit::Ns => &[(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")],
        Unit::NsPerOp => &[(1e6, "ms/op"), (1e3, "µs/op"), (1.0, "ns/op")],
        Unit::B => &[(KI * KI * KI, "GiB"), (KI * KI, "MiB"), (KI, "KiB"), (1.0, "B")],
        Unit::BPerS => &[(1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1.0, "B/s")],
        Unit::OpPerS => &[(1e9, "Gop/s"), (1e6, "Mop/s"), (1e3, "kop/s"), (1.0, "op/s")],
        Unit::FlopPerS => &[(1e12, "Tflop/s"), (1e9, "Gflop/s"), (1e6, "Mflop/s"), (1.0, "flop/s")],
        Unit::Hz => &[(1e9, "GHz"), (1e6, "MHz"), (1e3, "kHz"), (1.0, "Hz")],
        Unit::Ratio | Unit::Count => &[(1.0, "")],
        Unit::Percent => &[(0.01, "%")],
        Unit::Cycle => &[(1.0, "cycles")],
        Unit::NsPerB => &[(1.0, "ns/B")],
    }
}

/// The scale in which people read a value of this size, of [`steps`].
pub fn scale(value: f64, unit: Unit) -> (f64, &'static str) {
    let steps = steps(unit);
    steps
        .iter()
        .find(|(factor, _)| value.abs() >= *factor)
        .or(steps.last())
        .copied()
        .unwrap_or((1.0, ""))
}

/// A value as people type it (`200 ns`, `0.5 us`, `1.2 GB/s`), in base units; `None` unless it is a
/// number with one of the unit's names, or without one where the unit has none.
pub fn in_unit(text: &str, unit: Unit) -> Option<f64> {
    let (number, name) = split(text).ok()?;
    let name = name.replace("us", "µs");
    let step = steps(unit).iter().find(|(_, step)| *step == name);
    let value = number * step?.0;
    value.is_finite().then_some(value)
}

/// Three to four significant digits, two below one; without an exponent in the usual range.
pub fn digits(value: f64) -> String {
    let size = value.abs();
    if (value.fract() == 0.0 && size < 1e6) || size >= 100.0 {
        format!("{value:.0}")
    } else if size >= 10.0 {
        format!("{value:.1}")
    } else if size >= 0.1 {
        format!("{value:.2}")
    } else if size >= 1e-4 {
        let places = 1 - size.log10().floor() as i32;
        format!("{value:.*}", usize::try_from(places).unwrap_or(0))
    } else {
        format!("{value:.2e}")
    }
}

#[cfg(test)]
mod tests {
    use super::{decimal_sizes, parse_integer, render};
    use crate::unit::Unit;

    #[test]
    fn a_typed_value_needs_a_name_of_its_unit() {
        for (text, unit, value) in [
            ("200 ns", Unit::Ns, Some(200.0)),
            (" 0.5us ", Unit::Ns, Some(500.0)),
            ("2 µs/op", Unit::NsPerOp, Some(2000.0)),
            ("1.5 GB/s", Unit::BPerS, Some(1.5e9)),
            ("0.25", Unit::Ratio, Some(0.25)),
            ("200", Unit::Ns, None),
            ("200 MB", Unit::Ns, None),
            ("fast", Unit::Ns, None),
        ] {
            assert_eq!(super::in_unit(text, unit), value, "{text}");
        }
    }

    #[test]
    fn decimal_sizes_are_named() {
        let found = decimal_sizes("memory.latency.footprint=32KB..1MB,4KiB");
        let expected =
            [("32KB", 32_000, "32KiB".to_owned()), ("1MB", 1_000_000, "1MiB".to_owned())];
        assert_eq!(found, expected);
        assert!(decimal_sizes("host.disk.read=550MB/s").is_empty());
    }

    #[test]
    fn integers() {
        for (text, value) in
            [("512", 512), ("4KiB", 4096), ("1.5MiB", 1_572_864), ("2kB", 2000), ("1 GiB", 1 << 30)]
        {
            assert_eq!(parse_integer(text), Ok(value), "{text}");
        }
        for text in ["", "x", "4K", "-1", "0.3", "1e3", "99999999TiB"] {
            assert!(parse_integer(text).is_err(), "{text}");
        }
    }

    #[test]
    fn rendering() {
        for (value, unit, text) in [
            (91.24, Unit::Ns, "91.2 ns"),
            (1234.0, Unit::Ns, "1.23 µs"),
            (0.5, Unit::Ns, "0.50 ns"),
            (65536.0, Unit::B, "64 KiB"),
            (3.2e9, Unit::Hz, "3.20 GHz"),
            (-4.0, Unit::Ns, "-4 ns"),
            (0.0149, Unit::Ratio, "0.015"),
            (-0.007_91, Unit::Ratio, "-0.0079"),
            (2.16e-4, Unit::Ratio, "0.00022"),
            (2.16e-5, Unit::Ratio, "2.16e-5"),
            (0.0083, Unit::Percent, "0.83 %"),
            (1.0, Unit::Percent, "100 %"),
            (0.0, Unit::Percent, "0 %"),
            (f64::NAN, Unit::Ns, "-"),
        ] {
            assert_eq!(render(value, unit), text);
        }
    }
}
