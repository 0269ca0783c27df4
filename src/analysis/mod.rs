//! Room: analysis.
