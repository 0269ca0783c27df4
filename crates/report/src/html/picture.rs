//! The elements that the page's script draws plots and matrices in.

use crate::document::{Grid, Plot, Shape};
use crate::svg::{self, Picture, Target};
use analysis::names::around;
use maud::{Markup, html};
use serde_json::json;

/// Where the figures of most pictures stand as text.
const IN_TABLES: &str = "Its figures are in the tables of this section.";

#[derive(Default)]
pub struct Pictures(Vec<String>);

impl Pictures {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn json(&self) -> String {
        json!(self.0).to_string()
    }

    pub fn plot(&mut self, plot: &Plot) -> Markup {
        let lines = match plot.series.len() {
            1 => "one series".to_owned(),
            many => format!("{many} series"),
        };
        let texts = Texts {
            title: &plot.title,
            what: format!("{}{}, {lines}", around("", &plot.y.label, " over "), plot.x.label),
            also: also(plot),
            aside: svg::cut_at(plot).map(|high| format!("The prediction extends to {high}.")),
        };
        self.add(Picture::of_plot(plot, Target::Page), &texts)
    }

    pub fn grid(&mut self, grid: &Grid) -> Markup {
        let (rows, columns) = (&grid.rows, &grid.columns);
        let size = format!("{} by {}", rows.1.len(), columns.1.len());
        let axes = format!("{} by {} and {}", grid.label, rows.0, columns.0);
        let texts = Texts {
            title: &grid.title,
            what: format!("{axes}, {size} cells"),
            also: IN_TABLES,
            aside: None,
        };
        self.add(Picture::of_grid(grid, Target::Page), &texts)
    }

    fn add(&mut self, picture: Picture, texts: &Texts<'_>) -> Markup {
        // What is not drawn yet keeps its room, so that the page does not jump.
        let room = format!("aspect-ratio: {:.0} / {:.0}", picture.width, picture.height);
        let markup = html! {
            figure.plot.wide[picture.is_wide()] {
                figcaption { span.title { (texts.title) } }
                div.canvas role="img" style=(room) aria-label=(format!("{}: {}. {}", texts.title, texts.what, texts.also)) {
                    noscript { "The plot needs JavaScript. " (texts.also) }
                }
                @if let Some(aside) = &texts.aside { p.aside { (aside) } }
            }
        };
        self.0.push(picture.element());
        markup
    }
}

/// The texts of a plot, visible and for screen readers.
struct Texts<'plot> {
    title: &'plot str,
    what: String,
    /// Where its figures stand as text.
    also: &'static str,
    /// What the picture does not show.
    aside: Option<String>,
}

fn also(plot: &Plot) -> &'static str {
    let has = |shape: Shape| plot.series.iter().any(|series| series.shape == shape);
    if has(Shape::Spans) || has(Shape::Trace) {
        "The tables of this section summarise it; the run's record has every reading."
    } else if has(Shape::Ranges) && !has(Shape::Bars) {
        "The summary of all figures lists each figure with its prediction."
    } else {
        IN_TABLES
    }
}
