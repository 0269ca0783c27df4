//! Both ends against each other, and against hostile ones.
