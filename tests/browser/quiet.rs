//! A page asks nobody for anything and complains of nothing.

use crate::chromium::Browser;
use crate::pages::Page;
use std::fs;
use std::path::PathBuf;

#[test]
fn a_page_asks_nobody_and_draws_every_plot() {
    Page::of_everything().drawn();
}

#[test]
fn the_browser_has_no_network() {
    let browser = Browser::shared();
    println!("in a network namespace of its own: {}", browser.is_apart);
    assert_eq!(browser.is_apart, browser.network() != own_network());
    // Not every user may make one; scripts/test asks for it as root.
    let wanted = std::env::var("PLUMB_BROWSER_APART").is_ok_and(|wanted| !wanted.is_empty());
    assert!(browser.is_apart || !wanted, "unshare gave it no namespace");
}

fn own_network() -> PathBuf {
    fs::read_link("/proc/self/ns/net").unwrap()
}
