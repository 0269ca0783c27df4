//! What does a copy between two files in memory cost?
//!
//! ## Question
//!
//! How long does each of the kernel's calls take to copy a file into another without a device?
//!
//! ## Method
//!
//! A copy of a file of memfd_create(2), `size` bytes, into another, all pages present; n against 2n
//! in ABBA quartets. `read_write` and `splice` (into and out of a pipe) move 64 KiB at most,
//! `sendfile` (after an lseek) and `copy_file_range` what a call copies. Then both are compared.
//!
//! ## Prediction
//!
//! System calls, the kernel's work per page, and copies: two by a buffer, one by the other calls.
//! The derived prediction takes calls from os.syscall and copies from memory.bandwidth.
//!
//! ## Reading the result
//!
//! `size` over `copy` is the rate. `read_write` less another call is the cost of the buffer.
//!
//! ## Pitfalls
//!
//! File systems on devices may share blocks instead. Huge pages (shmem_enabled) make less work.
//!
//! ## Sources
//!
//! [man] copy_file_range(2), sendfile(2), splice(2), memfd_create(2); [linux] fs/splice.c,
//! mm/shmem.c. Cycles per page are an estimate.

use bench::prelude::*;
use laws::memory::measured::copies;
use laws::os::{entry, says_more};
use laws::rows::Section;
use metal::raw;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

bench::experiment!(MemfdCopy);

/// Bytes of the buffer, and of a pipe.
const PIECE: usize = 64 << 10;

/// System calls of a piece, copies of each byte, and what copies from a place on, of what is left.
pub struct Row(f64, f64, fn(&mut Files, u64, usize) -> io::Result<usize>);

rows! {
    /// the calls that copy
    pub enum Via: Row {
        ReadWrite = "read_write" => Row(2.0, 2.0, |of, at, left| {
            let read = raw::pread64(of.from.as_fd(), &mut of.buffer[..left.min(PIECE)], at)?;
            raw::pwrite64(of.to.as_fd(), &of.buffer[..read], at)
        }),
        Sendfile = "sendfile" => Row(2.0, 1.0, |of, at, left| {
            of.to.seek(SeekFrom::Start(at))?;
            raw::sendfile(of.to.as_fd(), of.from.as_fd(), at, left)
        }),
        Splice = "splice" => Row(2.0, 1.0, |of, at, left| {
            let (output, input) = (of.pipe.0.as_fd(), of.pipe.1.as_fd());
            let moved = raw::splice((of.from.as_fd(), Some(at)), (input, None), left.min(PIECE))?;
            raw::splice((output, None), (of.to.as_fd(), Some(at)), moved)
        }),
        CopyFileRange = "copy_file_range" => Row(1.0, 1.0, |of, at, left| {
            raw::copy_file_range(of.from.as_fd(), of.to.as_fd(), at, left)
        }),
    }
}
case! {
    /// A copy.
    pub struct Copied {
        /// the calls that copy
        via: Via,
        /// bytes of each file
        size: u64 = Domain::bytes(1, 64 << 20),
    }
}

pub struct Files {
    from: File,
    to: File,
    buffer: Vec<u8>,
    pipe: (io::PipeReader, io::PipeWriter),
}

static CARD: Card = Card {
    id: "os.memfd_copy",
    title: "Copies between files in memory",
    metrics: metrics! { "copy" => Ns Lower Os: "one file copied into the other, whole"; },
    params: Copied::PARAMS,
    after: &["clock.rate", "os.syscall", "memory.bandwidth"],
    views: &[ViewCard::line("size", "copy").log()],
    ..Card::PLAIN
};

impl Experiment for MemfdCopy {
    type Case = Copied;
    const CARD: &'static Card = &CARD;
    const MANUAL: &'static str = bench::manual!("memfd_copy.rs");

    fn cases(_: &Site, preset: Preset) -> Vec<Copied> {
        let sizes = &[4 << 10, 1 << 20, 64 << 10, 16 << 20][..[1, 0, 2, 4][preset as usize]];
        let of = |&via| sizes.iter().map(move |&size| Copied { via, size });
        Via::ALL.iter().flat_map(of).collect()
    }

    fn law(facts: Facts, case: &Copied, _: &Case, _: &Metric) -> Option<Prediction> {
        let (bytes, Row(calls, each, _)) = (case.size as f64, case.via.row());
        let count = |name: &str| match name {
            "calls" => calls * (bytes / PIECE as f64).ceil(),
            _ => (bytes / 4096.0).ceil(),
        };
        let time = |name: &str| match name {
            "copies" => copies(facts, each * bytes, 2.0 * bytes),
            _ => entry(facts),
        };
        let section = Section { facts, name: "os.memfd_copy", count: &count, time: &time };
        says_more(facts).then(|| (section.law(&["calls"]) + section.law(&["pages"])).prediction())
    }

    fn measure(series: &Series, bench: &mut Bench) -> Result<()> {
        bench.each_of::<Copied>(series, |bench, case, Copied { via, size }| {
            let content: Vec<u8> = (0..size).map(|at| (at % 251) as u8 + 1).collect();
            let [from, to] = [raw::memfd_create()?, raw::memfd_create()?].map(File::from);
            from.write_all_at(&content, 0)?;
            let mut files = Files { from, to, buffer: vec![0; PIECE], pipe: io::pipe()? };
            bench.time(case, "copy", |n| {
                for _ in 0..n {
                    let mut at = 0;
                    while at < size {
                        let moved = (via.row().2)(&mut files, at, (size - at) as usize)?;
                        ensure!(moved > 0, "a call copied nothing");
                        at += moved as u64;
                    }
                }
                Ok(())
            })?;
            let mut found = vec![0; content.len()];
            files.to.read_exact_at(&mut found, 0)?;
            ensure!(found == content, WrongResult(format!("{} copied other bytes", via.text())));
            Ok(())
        });
        Ok(())
    }
}

#[cfg(test)]
#[test]
fn every_way_copies_sizes_that_are_no_whole_pieces() {
    session::fixtures::smoke_set(&EXPERIMENT, &[("size", "1,70000")]);
}
