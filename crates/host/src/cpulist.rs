//! Lists of CPUs as the kernel writes them: `0-3,8,10-12`.

/// Parses a CPU list into ascending numbers without repeats. `0-7:2/4` (the kernel's stride form)
/// is understood; pieces that are no list are left out, as are ranges of more than a million CPUs.
pub fn parse_cpus(text: &str) -> Vec<usize> {
    let mut cpus: Vec<usize> = text.trim().split(',').flat_map(parse_piece).collect();
    cpus.sort_unstable();
    cpus.dedup();
    cpus
}

fn parse_piece(piece: &str) -> Vec<usize> {
    const LIMIT: usize = 1 << 20;
    let piece = piece.trim();
    let (range, stride) = match piece.split_once(':') {
        Some((range, stride)) => (range, Some(stride)),
        None => (piece, None),
    };
    let bounds = match range.split_once('-') {
        Some((low, high)) => (low.trim().parse(), high.trim().parse()),
        None => (range.parse(), range.parse()),
    };
    let (Ok(low), Ok(high)): (Result<usize, _>, Result<usize, _>) = bounds else {
        return Vec::new();
    };
    if high < low || high - low >= LIMIT {
        return Vec::new();
    }
    let Some(stride) = stride else {
        return (low..=high).collect();
    };
    let numbers =
        stride.split_once('/').map(|(used, group)| (used.parse::<usize>(), group.parse::<usize>()));
    match numbers {
        Some((Ok(used), Ok(group))) if group > 0 => {
            (low..=high).filter(|cpu| (cpu - low) % group < used).collect()
        }
        _ => Vec::new(),
    }
}

/// Writes ascending CPU numbers as the kernel does: `0-3,8`.
pub fn format_cpus(cpus: &[usize]) -> String {
    let mut text = String::new();
    let mut rest = cpus;
    while let Some((&first, _)) = rest.split_first() {
        let run = rest.iter().enumerate().take_while(|&(n, &cpu)| cpu == first + n).count();
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(&first.to_string());
        if run > 1 {
            text.push_str(&format!("-{}", first + run - 1));
        }
        rest = &rest[run..];
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_parse_and_print() {
        let check = |text: &str, cpus: &[usize]| {
            assert_eq!(parse_cpus(text), cpus, "{text}");
        };
        check("", &[]);
        check("\n", &[]);
        check("(null)", &[]);
        check("5\n", &[5]);
        check("0-3,8", &[0, 1, 2, 3, 8]);
        check("8,0-1,1", &[0, 1, 8]);
        check("0-7:2/4", &[0, 1, 4, 5]);
        check("0-7:2/0", &[]);
        check("3-1", &[]);
        check("0-99999999999", &[]);
        assert_eq!(parse_cpus("0-2047").len(), 2048);
        for text in ["", "0", "0-3,8,10-11", "1023-1025,4096"] {
            assert_eq!(format_cpus(&parse_cpus(text)), text);
        }
    }
}
