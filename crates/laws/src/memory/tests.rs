use super::{Level, level_latency, level_size};
use crate::Facts;
use bench::experiment::fixtures::bare_site;

#[test]
fn levels_that_nobody_describes_are_unknown() {
    let site = bare_site();
    assert!(level_size(&site, Level::L2).is_err());
    assert!(level_size(&site, Level::Memory).is_err());
    assert!(level_latency(Facts::prior(&site), Level::L4).is_err());
}
