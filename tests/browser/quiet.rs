//! A page asks nobody for anything and complains of nothing.

use crate::chromium::Browser;
use crate::pages::Page;
use crate::tab::{Look, Tab};

#[test]
fn a_page_asks_nobody_and_draws_every_plot() {
    let page = Page::of_everything();
    let tab = Tab::open(&page.file(), Look::DESK);
    tab.draw_all();
    tab.is_quiet();
    println!(
        "in a network namespace of its own: {}",
        Browser::shared().is_apart
    );
}
