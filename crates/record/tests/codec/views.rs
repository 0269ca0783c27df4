//! Views of any kind.

use super::{by_name, text};
use proptest::prelude::{Just, Strategy, any, prop, prop_oneof};
use record::unit::Unit;
use record::view::{Cases, Placed, View};

/// Any view.
pub fn view() -> impl Strategy<Value = View> {
    prop_oneof![
        Just(View::Table),
        (text(), text(), prop::collection::vec(text(), 0..3), any::<bool>(), any::<bool>())
            .prop_map(|(over, metric, beside, log_x, log_y)| View::Line {
                over,
                metric,
                marks: beside.clone(),
                beside,
                log_x,
                log_y,
                at: log_y.then(|| Placed { name: "thread_count".to_owned(), unit: Unit::Count }),
                cases: Cases::default(),
            }),
        (text(), text(), text(), shown_cases()).prop_map(|(rows, columns, metric, cases)| {
            View::Matrix { rows, columns, metric, cases }
        }),
        (text(), prop::collection::vec(text(), 0..3))
            .prop_map(|(trace, beside)| View::Timeline { trace, beside }),
        (text(), text(), prop::collection::vec(text(), 0..3))
            .prop_map(|(timeline, table, beside)| View::Spans { timeline, table, beside }),
        (text(), text(), any::<bool>(), shown_cases()).prop_map(|(along, x, log_x, cases)| {
            View::Curve { y: x.clone(), along, x, log_x, log_y: !log_x, cases }
        }),
        (text(), shown_cases()).prop_map(|(metric, cases)| View::Bars { metric, cases }),
    ]
}

fn shown_cases() -> impl Strategy<Value = Cases> {
    let each = prop::collection::vec(text(), 0..3);
    (by_name(prop::collection::vec(text(), 0..2)), each)
        .prop_map(|(only, each)| Cases { only, each })
}
