//! Straight lines through figures.

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    /// Rise for each unit of x.
    pub slope: f64,
    /// Share of the variance that the line explains, R²; `None` where there is no variance.
    pub linearity: Option<f64>,
}

/// The line through points; `None` through fewer than two places.
pub fn line(points: &[(f64, f64)]) -> Option<Line> {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let (mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0);
    for (at, value) in points {
        xx += (at - x) * (at - x);
        xy += (at - x) * (value - y);
        yy += (value - y) * (value - y);
    }
    (xx > 0.0).then(|| Line { slope: xy / xx, linearity: (yy > 0.0).then(|| xy * xy / (xx * yy)) })
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn a_line_has_its_slope_and_how_much_it_explains() {
        for (values, slope, linearity) in [
            (&[1.0, 3.0, 5.0, 7.0][..], 2.0, Some(1.0)),
            (&[1.0, 1.0, 1.0, 4.0], 0.9, Some(0.6)),
            (&[3.0, 3.0], 0.0, None),
        ] {
            let points: Vec<(f64, f64)> =
                (0..).map(f64::from).zip(values.iter().copied()).collect();
            let found = line(&points).expect("a line");
            assert!((found.slope - slope).abs() < 1e-12, "{found:?}");
            assert_eq!(found.linearity.is_some(), linearity.is_some());
            let apart = found.linearity.zip(linearity).map_or(0.0, |(found, told)| found - told);
            assert!(apart.abs() < 1e-12, "{found:?}");
        }
        let apart = line(&[(0.0, 5.0), (1.0, 7.0), (4.0, 13.0)]).expect("a line");
        assert!((apart.slope - 2.0).abs() < 1e-12, "{apart:?}");
        assert_eq!(line(&[(2.0, 1.0), (2.0, 5.0), (2.0, 6.0)]), None, "one place");
        assert_eq!(line(&[]), None);
    }
}
