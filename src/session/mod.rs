//! Room: session.
