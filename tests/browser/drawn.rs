//! The page of everything with all its plots: they are drawn once for all that is asked of them.

use crate::pages::Page;
use crate::plots::{
    every_figure_of_a_view_is_in_a_plot, every_plot_has_marks, plots_send_nothing_away,
};
use crate::print::plots_are_on_paper_and_whole;
use crate::reading::everything_has_a_name;

#[test]
fn everything_that_is_drawn_is_right_whole_heard_and_quiet() {
    let tab = Page::of_everything().drawn();
    every_plot_has_marks(&tab);
    every_figure_of_a_view_is_in_a_plot(&tab);
    plots_send_nothing_away(&tab);
    plots_are_on_paper_and_whole(&tab);
    everything_has_a_name(&tab);
}
