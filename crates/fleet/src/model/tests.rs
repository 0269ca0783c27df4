//! Tests of the model.
