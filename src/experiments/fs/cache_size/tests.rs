//! Laws of the sweep: what it offers where, and what it finds.
