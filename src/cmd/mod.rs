//! Room: cmd.
