//! Which edges of the code have run, where the compiler counts them (scripts/fuzz).

/// The edges that ran at some time.
#[derive(Debug, Default)]
pub struct Edges {
    seen: Vec<u64>,
    count: usize,
}

impl Edges {
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether there are more than at the last look. Without counters there are never any.
    pub fn look(&mut self) -> bool {
        let before = self.count;
        let (words, seen) = (counters(), &mut self.seen);
        seen.resize(words.len(), 0);
        for (word, seen) in words.iter().zip(seen) {
            let fresh = word & !*seen;
            if fresh != 0 {
                let bytes =
                    |word: u64| word.to_le_bytes().iter().filter(|byte| **byte != 0).count();
                // A counter that was zero is a new edge; one that has other bits is not.
                let own = whole(*word);
                self.count += bytes(own & !*seen);
                *seen |= own;
            }
        }
        self.count > before
    }
}

/// All bits of each byte that has any.
fn whole(word: u64) -> u64 {
    u64::from_le_bytes(word.to_le_bytes().map(|byte| if byte == 0 { 0 } else { u8::MAX }))
}

#[cfg(not(plumb_coverage))]
fn counters() -> &'static [u64] {
    &[]
}

/// The counters of the whole program, eight to a word; what is before and after whole words is left
/// out.
#[cfg(plumb_coverage)]
fn counters() -> &'static [u64] {
    unsafe extern "C" {
        #[link_name = "__start___sancov_cntrs"]
        static START: u8;
        #[link_name = "__stop___sancov_cntrs"]
        static STOP: u8;
    }
    // SAFETY: the linker's bounds of the section of counters, which lives as long as the program. Only
    // one thread runs what is counted while a fuzz target runs.
    unsafe {
        let (start, stop) = (&raw const START, &raw const STOP);
        let bytes = std::slice::from_raw_parts(start, stop.offset_from_unsigned(start));
        bytes.align_to::<u64>().1
    }
}

/// The compiler calls it before `main` for each unit; the linker knows the same.
#[cfg(plumb_coverage)]
// SAFETY: no other symbol has the name, and it does nothing.
#[unsafe(no_mangle)]
extern "C" fn __sanitizer_cov_8bit_counters_init(_start: *mut u8, _stop: *mut u8) {}
