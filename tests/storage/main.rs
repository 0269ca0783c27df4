//! The built binary on storage that fails: file systems that hang, fill, turn read-only or go away,
//! and places where it must not write. `scripts/test` installs what mounts them; as another user
//! than root most of it is skipped.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

mod btrfs;
mod disk;
mod errors;
mod faulty;
mod files;
mod hang;
#[expect(dead_code, reason = "the other binary's tests use all of it")]
#[path = "../harness/plumb.rs"]
mod plumb;
mod refused;
mod runs;
mod space;
