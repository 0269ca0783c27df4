//! A node between rank 0 and its own children: passes on what is for others, repeats its reports
//! until rank 0 has written them, and executes each order once. A pure state machine; `Link` names a
//! connection to a child.

use crate::tree::Routes;
use crate::wire::{Addressed, Down, Hello, Message, Numbered, Order, Report, Up, batches};
use std::collections::{BTreeMap, VecDeque};

/// Names a connection to a child.
pub type Link = u64;

/// What a node is to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// Say it to the parent.
    Up(Up),
    /// Say it to a child.
    Down(Link, Down),
    /// End the connection to a child.
    Close(Link),
    /// Execute an order, in place of what runs.
    Start(u64, Order),
    /// The sweep is over for this node, and why where it is before its end.
    Leave(Option<String>),
}

/// A node's place in the tree.
#[derive(Debug)]
pub struct Relay {
    rank: u32,
    /// Whether there is a parent now.
    attached: bool,
    /// Which process of rank 0 gave the orders.
    generation: Option<u64>,
    /// Highest number of an order.
    seen: u64,
    /// Number of the last report.
    reported: u64,
    /// Reports that rank 0 has not written yet.
    unwritten: VecDeque<Numbered>,
    /// Reports of the children, since the last look.
    passing: Vec<Numbered>,
    children: BTreeMap<Link, u32>,
    routes: Routes<Link>,
    acts: VecDeque<Act>,
}

impl Relay {
    /// A node that is connected to none.
    pub fn new(rank: u32) -> Relay {
        Relay {
            rank,
            attached: false,
            generation: None,
            seen: 0,
            reported: 0,
            unwritten: VecDeque::new(),
            passing: Vec::new(),
            children: BTreeMap::new(),
            routes: Routes::new(),
            acts: VecDeque::new(),
        }
    }

    /// What there is to do now.
    pub fn take(&mut self) -> Option<Act> {
        if self.attached {
            let passing = std::mem::take(&mut self.passing);
            self.acts.extend(batches(passing).into_iter().map(Act::Up));
        }
        self.acts.pop_front()
    }

    /// This node is connected to `parent`, in the sweep of this process of rank 0.
    pub fn attached(&mut self, parent: u32, generation: u64) {
        if self.generation.replace(generation) != Some(generation) {
            // Another process of rank 0: it knows nothing of what the one before ordered.
            self.seen = 0;
            self.reported = 0;
            self.unwritten.clear();
        }
        self.attached = true;
        if parent != 0 {
            self.acts.push_back(Act::Up(Up::Attached { rank: self.rank, to: parent }));
        }
        let again: Vec<Numbered> = self.unwritten.iter().cloned().collect();
        self.acts.extend(batches(again).into_iter().map(Act::Up));
    }

    /// The connection to the parent ended: the children look for another way, too.
    pub fn detached(&mut self) {
        self.attached = false;
        self.passing.clear();
        self.acts.retain(|act| !matches!(act, Act::Up(_)));
        for link in std::mem::take(&mut self.children).into_keys() {
            self.acts.push_back(Act::Close(link));
        }
        self.routes = Routes::new();
    }

    /// A child connects, which rank 0 has sent here.
    pub fn child(&mut self, link: Link, hello: &Hello, sweep: &str) {
        let Some(generation) = self.generation.filter(|_| self.attached) else {
            return self.acts.push_back(Act::Close(link));
        };
        let old = self.children.iter().find(|(_, rank)| **rank == hello.rank).map(|(old, _)| *old);
        if let Some(old) = old {
            // It comes back before its end was noticed.
            self.children.remove(&old);
            self.acts.push_back(Act::Close(old));
        }
        self.children.insert(link, hello.rank);
        let sweep = sweep.to_owned();
        self.acts.push_back(Act::Down(link, Down::Welcome { sweep, generation }));
    }

    /// A connection to a child ended.
    pub fn child_closed(&mut self, link: Link) {
        self.routes.forget(link);
        if let Some(rank) = self.children.remove(&link)
            && self.attached
        {
            self.acts.push_back(Act::Up(Up::Detached { rank, from: self.rank }));
        }
    }

    /// A child says something. Whatever is not for rank 0 is dropped.
    pub fn child_says(&mut self, link: Link, up: Up) {
        match up {
            Up::Attached { rank, .. } => {
                self.routes.learn(rank, link);
                self.acts.push_back(Act::Up(up));
            }
            Up::Detached { .. } => self.acts.push_back(Act::Up(up)),
            Up::Reports(reports) => self.passing.extend(reports),
            Up::Hello(_) | Up::Pong { .. } => {}
        }
    }

    /// The parent says something.
    pub fn parent_says(&mut self, down: Down) {
        let Down::Orders(orders) = down else { return };
        let mut passing: BTreeMap<Link, Vec<Addressed>> = BTreeMap::new();
        for addressed in orders {
            match (addressed.to == self.rank, self.routes.to(addressed.to)) {
                (true, _) => self.heed(addressed.message),
                (false, Some(link)) => passing.entry(link).or_default().push(addressed),
                // It has lost its way: rank 0 repeats it when the node is back.
                (false, None) => {}
            }
        }
        let passing = passing.into_iter().map(|(link, all)| Act::Down(link, Down::Orders(all)));
        self.acts.extend(passing);
    }

    fn heed(&mut self, message: Message) {
        match message {
            Message::Written { number } => {
                self.unwritten.retain(|report| report.number > number);
            }
            Message::Order { id, .. } if id <= self.seen => {}
            Message::Order { id, order } => {
                self.seen = id;
                self.acts.push_back(match order {
                    Order::Leave { why } => Act::Leave(why),
                    order => Act::Start(id, order),
                });
            }
        }
    }

    /// This node has something to report.
    pub fn report(&mut self, report: Report) {
        self.reported += 1;
        let numbered = Numbered { from: self.rank, number: self.reported, report };
        self.unwritten.push_back(numbered.clone());
        if self.attached {
            self.acts.push_back(Act::Up(Up::Reports(vec![numbered])));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Act, Relay};
    use crate::wire::{Addressed, Down, Message, Order, Report, Up};

    fn acts(relay: &mut Relay) -> Vec<Act> {
        std::iter::from_fn(|| relay.take()).collect()
    }

    fn order(to: u32, id: u64) -> Down {
        let message = Message::Order { id, order: Order::Gather };
        Down::Orders(vec![Addressed { to, message }])
    }

    #[test]
    fn an_order_is_executed_once_and_a_report_repeated_until_it_is_written() {
        let mut node = Relay::new(3);
        node.attached(0, 7);
        node.parent_says(order(3, 1));
        node.parent_says(order(3, 1));
        assert_eq!(acts(&mut node), [Act::Start(1, Order::Gather)]);
        node.report(Report::Gathered { order: 1 });
        let [Act::Up(Up::Reports(first))] = &acts(&mut node)[..] else { panic!("one report") };
        node.detached();
        node.attached(0, 7);
        assert_eq!(acts(&mut node), [Act::Up(Up::Reports(first.clone()))]);
        let written = Message::Written { number: 1 };
        node.parent_says(Down::Orders(vec![Addressed { to: 3, message: written }]));
        node.detached();
        node.attached(0, 7);
        assert_eq!(acts(&mut node), []);
        // Another process of rank 0 counts anew.
        node.attached(0, 8);
        node.parent_says(order(3, 1));
        assert_eq!(acts(&mut node), [Act::Start(1, Order::Gather)]);
    }

    #[test]
    fn what_is_for_others_goes_to_the_child_that_reaches_them() {
        let mut node = Relay::new(1);
        node.attached(0, 7);
        node.child_says(4, Up::Attached { rank: 17, to: 1 });
        node.child_says(5, Up::Attached { rank: 273, to: 18 });
        acts(&mut node);
        node.parent_says(order(273, 9));
        node.parent_says(order(99, 10));
        let [Act::Down(5, Down::Orders(orders))] = &acts(&mut node)[..] else { panic!("one") };
        assert_eq!(orders[0].to, 273);
        node.child_closed(5);
        node.parent_says(order(273, 9));
        assert_eq!(acts(&mut node), []);
    }
}
