//! Lists of CPUs as the kernel writes them: `0-3,8,10-12`.

/// Linux numbers no more CPUs (NR_CPUS_RANGE_END, arch/x86/Kconfig), and fewer nodes.
pub(crate) const CPUS_MAX: usize = 1 << 13;
/// The greatest number of a list that is typed.
const NUMBER_MAX: usize = 1 << 20;

/// Parses a CPU list into ascending numbers without repeats. `0-7:2/4` (the kernel's stride form)
/// is understood; pieces that are no list are left out, as are those with CPUs from 1,048,576 on.
pub fn parse_cpus(text: &str) -> Vec<usize> {
    parse_list(text, NUMBER_MAX)
}

/// The same of numbers below `limit`.
pub(crate) fn parse_list(text: &str, limit: usize) -> Vec<usize> {
    let pieces = text.trim().split(',');
    let mut numbers: Vec<usize> =
        pieces.filter_map(|piece| parse_piece(piece, limit)).flatten().collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

fn parse_piece(piece: &str, limit: usize) -> Option<Vec<usize>> {
    let number = |text: &str| text.trim().parse::<usize>().ok();
    let (range, stride) = piece.split_once(':').unwrap_or((piece, "1/1"));
    let (low, high) = range.split_once('-').unwrap_or((range, range));
    let (low, high) = (number(low)?, number(high)?);
    let (used, group) = stride.split_once('/')?;
    let (used, group) = (number(used)?, number(group).filter(|group| *group > 0)?);
    let is_range = low <= high && high < limit;
    is_range.then(|| (low..=high).filter(|cpu| (cpu - low) % group < used).collect())
}

/// Writes ascending CPU numbers as the kernel does: `0-3,8`.
pub fn format_cpus(cpus: &[usize]) -> String {
    let mut text = String::new();
    let mut rest = cpus;
    while let Some((&first, _)) = rest.split_first() {
        let run =
            rest.iter().enumerate().take_while(|&(n, cpu)| cpu.wrapping_sub(first) == n).count();
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(&first.to_string());
        if run > 1 {
            text.push_str(&format!("-{}", rest[run - 1]));
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
        for (text, cpus) in [
            ("", &[][..]),
            ("\n", &[]),
            ("(null)", &[]),
            ("5\n", &[5]),
            ("0-3,8", &[0, 1, 2, 3, 8]),
            ("8,0-1,1", &[0, 1, 8]),
            ("0-7:2/4", &[0, 1, 4, 5]),
            ("0-7:2/0", &[]),
            ("3-1", &[]),
            ("0-99999999999", &[]),
            ("3,18446744073709551615", &[3]),
        ] {
            assert_eq!(parse_cpus(text), cpus, "{text}");
        }
        assert_eq!(parse_cpus("0-2047").len(), 2048);
        assert_eq!(parse_list("0-8191,8192-73265", CPUS_MAX).len(), 8192);
        for text in ["", "0", "0-3,8,10-11", "1023-1025,4096"] {
            assert_eq!(format_cpus(&parse_cpus(text)), text);
        }
        let last = usize::MAX;
        assert_eq!(format_cpus(&[3, last - 1, last]), format!("3,{}-{last}", last - 1));
    }
}
