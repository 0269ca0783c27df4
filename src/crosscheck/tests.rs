//! Laws that every rival keeps.
