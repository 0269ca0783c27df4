//! The dip statistic: how far a sample is from every unimodal distribution.

/// The dip of Hartigan and Hartigan (1985): the greatest distance between the empirical
/// distribution function and the nearest unimodal one, in 1/(2n) ..= 1/4. The values must be in
/// ascending order. O(n) after sorting; the algorithm is AS 217 (P. M. Hartigan 1985) with the
/// corrections of Maechler's R package `diptest`.
pub fn dip(sorted: &[f64]) -> f64 {
    let n = sorted.len();
    if n < 4 || sorted[0] == sorted[n - 1] {
        return if n == 0 { 0.0 } else { 0.5 / n as f64 };
    }
    let minorant = minorant_links(sorted);
    let majorant = majorant_links(sorted);
    let (mut low, mut high) = (0, n - 1);
    // Distances are counted in steps of the empirical function; 1 is the least possible.
    let mut dip = 1.0_f64;
    loop {
        // From `high` down to `low`, and from `low` up to `high`.
        let gcm = chain(&minorant, high, low);
        let lcm = chain(&majorant, low, high);
        let (distance, ig, ih) = greatest_distance(sorted, &gcm, &lcm);
        if distance < dip {
            break;
        }
        let below = gcm[ig..].windows(2).map(|pair| distance_below(sorted, pair[1], pair[0]));
        let above = lcm[ih..].windows(2).map(|pair| distance_above(sorted, pair[0], pair[1]));
        dip = below.chain(above).fold(dip, f64::max);
        if (low, high) == (gcm[ig], lcm[ih]) {
            break;
        }
        (low, high) = (gcm[ig], lcm[ih]);
    }
    dip / (2 * n) as f64
}

/// For every index the one before it on the greatest convex minorant of the points up to it.
fn minorant_links(x: &[f64]) -> Vec<usize> {
    let mut links = vec![0; x.len()];
    for j in 1..x.len() {
        let mut link = j - 1;
        while link != 0 {
            let before = links[link];
            if (x[j] - x[link]) * ((link - before) as f64)
                < (x[link] - x[before]) * ((j - link) as f64)
            {
                break;
            }
            link = before;
        }
        links[j] = link;
    }
    links
}

/// For every index the one after it on the least concave majorant of the points from it.
fn majorant_links(x: &[f64]) -> Vec<usize> {
    let last = x.len() - 1;
    let mut links = vec![last; x.len()];
    for k in (0..last).rev() {
        let mut link = k + 1;
        while link != last {
            let after = links[link];
            if (x[link] - x[k]) * ((after - link) as f64)
                < (x[after] - x[link]) * ((link - k) as f64)
            {
                break;
            }
            link = after;
        }
        links[k] = link;
    }
    links
}

/// The indices met when following `links` from one end to the other, both included.
fn chain(links: &[usize], from: usize, to: usize) -> Vec<usize> {
    let mut chain = vec![from];
    let mut at = from;
    while at != to {
        at = links[at];
        chain.push(at);
    }
    chain
}

/// The greatest distance between minorant and majorant, and where in each chain it is.
fn greatest_distance(x: &[f64], gcm: &[usize], lcm: &[usize]) -> (f64, usize, usize) {
    let (mut ig, mut ih) = (gcm.len() - 1, lcm.len() - 1);
    if gcm.len() == 2 && lcm.len() == 2 {
        return (1.0, ig, ih);
    }
    let (mut ix, mut iv) = (gcm.len() - 2, 1);
    let mut greatest = 0.0;
    loop {
        let (g, l) = (gcm[ix], lcm[iv]);
        if g > l {
            let before = gcm[ix + 1];
            let slope = (g - before) as f64 / (x[g] - x[before]);
            let distance = (l + 1 - before) as f64 - (x[l] - x[before]) * slope;
            iv += 1;
            if distance >= greatest {
                (greatest, ig, ih) = (distance, ix + 1, iv - 1);
            }
        } else {
            let before = lcm[iv - 1];
            let slope = (l - before) as f64 / (x[l] - x[before]);
            let distance = (x[g] - x[before]) * slope - (g as f64 - before as f64 - 1.0);
            if distance >= greatest {
                (greatest, ig, ih) = (distance, ix, iv);
            }
            ix = ix.saturating_sub(1);
        }
        iv = iv.min(lcm.len() - 1);
        if gcm[ix] == lcm[iv] {
            return (greatest, ig, ih);
        }
    }
}

/// Greatest rise of the empirical function above the chord from `begin` to `end`.
fn distance_below(x: &[f64], begin: usize, end: usize) -> f64 {
    if end - begin <= 1 || x[end] == x[begin] {
        return 1.0;
    }
    let slope = (end - begin) as f64 / (x[end] - x[begin]);
    (begin..=end).map(|j| (j - begin + 1) as f64 - (x[j] - x[begin]) * slope).fold(1.0, f64::max)
}

/// Greatest fall of the empirical function below the chord from `begin` to `end`.
fn distance_above(x: &[f64], begin: usize, end: usize) -> f64 {
    if end - begin <= 1 || x[end] == x[begin] {
        return 1.0;
    }
    let slope = (end - begin) as f64 / (x[end] - x[begin]);
    (begin..=end)
        .map(|j| (x[j] - x[begin]) * slope - ((j as f64) - (begin as f64) - 1.0))
        .fold(1.0, f64::max)
}

/// Upper 5 % points of the dip of `n` uniform values, as (n, sqrt(n) dip): after the table
/// `qDiptab` of Maechler's `diptest` (a million samples a row). Uniform values are the unimodal
/// ones with the greatest dip, so other unimodal shapes exceed these points more rarely.
const CRITICAL: [(f64, f64); 21] = [
    (4.0, 0.4145),
    (5.0, 0.4168),
    (6.0, 0.4036),
    (7.0, 0.4231),
    (8.0, 0.4355),
    (9.0, 0.4398),
    (10.0, 0.4415),
    (15.0, 0.4600),
    (20.0, 0.4702),
    (30.0, 0.4829),
    (50.0, 0.4969),
    (100.0, 0.5113),
    (200.0, 0.5210),
    (500.0, 0.5306),
    (1000.0, 0.5355),
    (2000.0, 0.5384),
    (5000.0, 0.5410),
    (10_000.0, 0.5424),
    (20_000.0, 0.5435),
    (40_000.0, 0.5448),
    (72_000.0, 0.5452),
];

/// The dip that `n` values of a unimodal distribution exceed with a probability of at most 5 %;
/// interpolated in n on the scale sqrt(n) dip, on which it is nearly constant. `None` below four
/// values, where every sample is as unimodal as the next.
pub fn critical_dip(n: usize) -> Option<f64> {
    let n = n as f64;
    let (first, last) = (CRITICAL[0], CRITICAL[CRITICAL.len() - 1]);
    if n < first.0 {
        return None;
    }
    let scaled = CRITICAL.windows(2).find(|pair| n <= pair[1].0).map_or(last.1, |pair| {
        let ((n0, d0), (n1, d1)) = (pair[0], pair[1]);
        d0 + (d1 - d0) * (n - n0) / (n1 - n0)
    });
    Some(scaled / n.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::{Draw, share_of};
    use crate::quantile::sorted;

    fn check(values: &[f64], expect: f64) {
        let found = dip(&sorted(values));
        assert!((found - expect).abs() < 1e-12, "{values:?}: {found} {expect}");
    }

    #[test]
    fn agrees_with_the_diptest_package() {
        check(&[1.0, 2.0, 3.0, 10.0, 11.0, 12.0], 0.194_444_444_444_444_45);
        check(&[1.0, 1.1, 1.2, 1.3, 5.0, 5.1, 9.0], 0.139_097_744_360_902_25);
        check(&[0.3, 1.7, 1.9, 2.2, 2.25, 4.4, 8.0, 8.1, 8.3], 0.155_647_382_920_110_16);
        check(&[1.0, 1.0, 1.0, 2.0, 2.0, 5.0, 5.0, 5.0, 5.0, 6.0], 0.1875);
    }

    #[test]
    fn agrees_on_chaotic_sequences() {
        for (r, n, expect) in [
            (3.9, 25, 0.076_596_913_693_015_12),
            (3.9, 200, 0.043_918_178_583_207_03),
            (3.99, 25, 0.114_301_954_563_999_29),
            (3.99, 200, 0.062_446_764_715_138_45),
        ] {
            let mut x = 0.4321;
            let values: Vec<f64> = (0..n)
                .map(|_| {
                    x = r * x * (1.0 - x);
                    x
                })
                .collect();
            let found = dip(&sorted(&values));
            assert!((found - expect).abs() < 1e-9, "{r} {n}: {found} {expect}");
        }
    }

    #[test]
    fn uniform_values_exceed_the_critical_dip_one_time_in_twenty() {
        let mut draw = Draw::new(11);
        for n in [6, 13, 40, 150] {
            let share = share_of(2_000, || {
                dip(&sorted(&draw.values(n, Draw::uniform))) > critical_dip(n).unwrap()
            });
            assert!((0.035..0.065).contains(&share), "{n}: {share}");
        }
    }

    #[test]
    fn equal_values_have_the_least_dip() {
        check(&[2.0; 10], 0.05);
        assert_eq!(critical_dip(3), None);
    }
}
