//! Room: predict.
