use super::{Found, at_home, is_told, mean};

#[test]
fn the_mean_is_over_kernels_of_the_mean_over_cpus() {
    let found = Found {
        alone: vec![vec![8.0, 12.0], vec![9.0, 11.0], vec![20.0, 24.0], vec![21.0, 23.0]],
        ..Found::default()
    };
    assert_eq!(found.bandwidth(), Some(16.0));
    assert_eq!(found.cpu_range(), Some((14.5, 17.5)));
    assert_eq!(mean(&[]), None);
    assert_eq!(Found::default().bandwidth(), None);
    let gap = Found { alone: vec![vec![8.0, 12.0], vec![]], ..Found::default() };
    assert_eq!(gap.bandwidth(), None, "a kernel without a CPU is no mean");
}

#[test]
fn threads_elsewhere_are_an_error() {
    at_home(&[4, 5], [(4, 1), (5, 1)].into_iter(), 1).expect("all at home");
    for ran in [[(4, 1), (6, 1)], [(4, 0), (5, 1)]] {
        at_home(&[4, 5], ran.into_iter(), 1).expect_err("one is elsewhere");
    }
}

#[test]
fn what_the_kernel_does_not_answer_is_no_figure() {
    is_told(3, &[]).expect("all was answered");
    let refused = ["asking for the node of a page is not possible here: EPERM".to_owned()];
    is_told(3, &refused).expect_err("unknown");
}
