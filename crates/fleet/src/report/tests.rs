use super::View;
use super::names::Titles;
use crate::fixture::Fleet;
use crate::read::read;
#[test]
fn the_reader_reads_what_is_drawn() {
    let sweep = read(&Fleet::planted().record()[..]).unwrap();
    let view = View::of(&sweep, Titles::default());
    assert!(super::build(&view, true).title.contains("23 of 24"));
}
