//! Laws of the network family.
