//! Control groups, versions 1 and 2.
