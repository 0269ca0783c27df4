//! What stands in a picture, and where.

use super::{Picture, STYLE, Target, in_light_colours, panel};
use crate::document::{Axis, Plot, Point, Series, Shape};
use record::quantity::render;
use record::unit::Unit;

fn axis(is_log: bool) -> Axis {
    Axis { label: "latency".to_owned(), unit: Some(Unit::Ns), is_log, names: Vec::new() }
}

/// A measured point of 90 to 100 ns, and one of a shape whose interval ends at `high`.
fn plot(shape: Shape, high: f64, is_log: bool) -> Plot {
    let series = |name: &str, shape, high: f64| {
        let ends = Some((80.0, high));
        let point = |x: f64| Point { ends, hover: format!("{x} <ns>"), ..Point::plain(x, 90.0) };
        Series::new(name, shape, vec![point(1.0), point(2.0)])
    };
    let series = vec![series("predicted, a", shape, high), series("a", Shape::Line, 100.0)];
    Plot::new("Costs", axis(false), axis(is_log), series)
}

#[test]
fn a_wide_prediction_does_not_flatten_what_was_measured() {
    let cut = |high, is_log| panel::cut_at(&plot(Shape::Band, high, is_log));
    assert_eq!(cut(1e6, false), Some(render(1e6, Unit::Ns)));
    assert_eq!(cut(1e6, true), None, "a logarithmic axis has room");
    assert_eq!(cut(200.0, false), None, "all of it fits");
    let markup = Picture::of_plot(&plot(Shape::Band, 1e6, false), Target::Page).element();
    // The greatest measured value, 100, stands at a hundred of the 130 that are shown.
    assert!(markup.contains("&quot;high&quot;:135"), "{markup}");
}

#[test]
fn a_mark_has_its_place_and_on_the_page_its_text() {
    let page = Picture::of_plot(&plot(Shape::Band, 200.0, false), Target::Page).element();
    let file = Picture::of_plot(&plot(Shape::Band, 200.0, false), Target::File).file("a < b");
    assert!(page.contains("data-say=\"1 &lt;ns&gt;\n2 &lt;ns&gt;\""), "{page}");
    assert!(!file.contains("data-") && file.contains("<title>a &lt; b</title>"), "{file}");
    // Both in the colour of the line that the band was predicted for, which lies above it.
    for picture in [&page, &file] {
        let band = picture.find("class=\"band\"").expect("a band");
        let line = picture.find("class=\"line k0\"").expect("a line");
        assert!(band < line);
        assert_eq!(picture.matches("<g class=\"s1\">").count(), 3, "the legend too: {picture}");
        assert!(picture.contains("band: predicted"));
    }
}

#[test]
fn a_file_has_colours_that_every_program_knows() {
    let style = in_light_colours(STYLE);
    assert!(!style.contains("var("), "{style}");
    assert!(style.contains(".s1 { color: #0b62a8; }"), "{style}");
}

#[test]
fn values_without_a_place_leave_no_trace_of_their_own() {
    let mut odd = plot(Shape::Ranges, f64::INFINITY, true);
    odd.series[1].points.push(Point::plain(f64::NAN, -1.0));
    odd.markers.push(crate::document::Marker {
        x: f64::NAN,
        label: "L1".to_owned(),
        is_measured: true,
    });
    let markup = Picture::of_plot(&odd, Target::File).file("odd");
    assert!(!markup.contains("NaN") && !markup.contains("inf"), "{markup}");
    let empty = Plot::new("Nothing", axis(true), axis(false), Vec::new());
    assert!(Picture::of_plot(&empty, Target::Page).element().contains("class=\"area\""));
}

#[test]
fn many_traces_have_a_panel_for_each_case() {
    let trace = |name: &str| {
        Series::new(name, Shape::Trace, vec![Point::plain(0.0, 1.0), Point::plain(1.0, 2.0)])
    };
    let names = ["add, round 1", "add, round 2", "mul, round 1", "fma, round 1"];
    let plot = Plot::new("Clocks", axis(false), axis(false), names.map(trace).to_vec());
    let panels = super::panels(&plot);
    let panels: Vec<(&str, usize)> = panels.iter().map(|(name, own)| (*name, own.len())).collect();
    assert_eq!(panels, [("add", 2), ("mul", 1), ("fma", 1)]);
    let picture = Picture::of_plot(&plot, Target::Page);
    assert!(picture.is_wide());
    let markup = picture.element();
    assert_eq!(markup.matches("class=\"area\"").count(), 3);
    // All panels have the same axes.
    let first = markup.split("data-y=").nth(1).and_then(|rest| rest.split('>').next());
    let first = first.expect("an axis");
    assert_eq!(markup.matches(&format!("data-y={first}")).count(), 3);
}
