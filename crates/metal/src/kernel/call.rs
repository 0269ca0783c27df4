//! Procedure calls.

use crate::arch::{self, Loop};

/// The most arguments that a [`CallKind::Direct`] may have.
pub const MAX_ARGUMENTS: usize = 12;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArgumentType {
    I32,
    I64,
    F32,
    F64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Frame {
    /// Uses them where they arrive, as optimised code does.
    Registers,
    /// Sets up a frame, stores the arguments that came in registers there and
    /// reads them back, as code compiled without optimisation does.
    Spilled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CallKind {
    /// A call of a known address.
    Direct {
        /// 0 to [`MAX_ARGUMENTS`]. The first 6 integers (8 on aarch64) or 8
        /// floating values travel in registers, the others on the stack.
        arguments: usize,
        argument: ArgumentType,
        frame: Frame,
    },
    /// One i64 argument; the address is in a register. Compare with direct, 1, I64, registers.
    Indirect,
    /// One i64 argument; the call goes to a linkage stub, which jumps to an
    /// address that it loads from memory. Compare as `Indirect`.
    Plt,
    /// One structure of three words by value: 24 bytes copied to the stack.
    Struct,
}

/// Calls a procedure `n` times and adds up what it returns. Each call sets up its arguments
/// (argument k has the value k), and the procedure returns their sum, or 1 if it has none. Returns
/// [`call_sum`]`(kind, n)`; `None` if there are more than [`MAX_ARGUMENTS`].
pub fn call(kind: CallKind, n: u64) -> Option<u64> {
    let calls = loop_of(kind)?;
    // SAFETY: the loop calls its own callee and keeps the calling convention.
    Some(unsafe { calls(n) })
}

/// What [`call`] must return: `n` times the bit pattern of what the procedure returns, modulo 2^64.
pub fn call_sum(kind: CallKind, n: u64) -> u64 {
    let returned = match kind {
        CallKind::Direct { arguments, argument, .. } => {
            let sum = (1..=arguments).sum::<usize>().max(1);
            match argument {
                ArgumentType::I32 | ArgumentType::I64 => sum as u64,
                ArgumentType::F32 => u64::from((sum as f32).to_bits()),
                ArgumentType::F64 => (sum as f64).to_bits(),
            }
        }
        CallKind::Indirect | CallKind::Plt => 1,
        CallKind::Struct => 1 + 2 + 3,
    };
    returned.wrapping_mul(n)
}

/// The instance of a generic loop for a number of arguments.
macro_rules! instance {
    ($loop:ident, $arguments:expr, $spilled:literal, [$($count:literal)*]) => {
        match $arguments {
            $($count => Some(arch::$loop::<$count, $spilled> as Loop),)*
            _ => None,
        }
    };
    ($loop:ident, $arguments:expr, $frame:expr) => {
        match $frame {
            Frame::Registers => {
                instance!($loop, $arguments, false, [0 1 2 3 4 5 6 7 8 9 10 11 12])
            }
            Frame::Spilled => instance!($loop, $arguments, true, [0 1 2 3 4 5 6 7 8 9 10 11 12]),
        }
    };
}

/// The loop for a kind of call; `None` above [`MAX_ARGUMENTS`].
pub(crate) fn loop_of(kind: CallKind) -> Option<Loop> {
    match kind {
        CallKind::Direct { arguments, argument, frame } => match argument {
            ArgumentType::I32 => instance!(calls_i32, arguments, frame),
            ArgumentType::I64 => instance!(calls_i64, arguments, frame),
            ArgumentType::F32 => instance!(calls_f32, arguments, frame),
            ArgumentType::F64 => instance!(calls_f64, arguments, frame),
        },
        CallKind::Indirect => Some(arch::calls_indirect),
        CallKind::Plt => Some(arch::calls_linkage),
        CallKind::Struct => Some(arch::calls_structure),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_argument_of_every_call_arrives() {
        for kind in CallKind::every() {
            for n in [0, 1, 7, 8, 9, 16, 1003] {
                assert_eq!(call(kind, n), Some(call_sum(kind, n)), "{kind:?}, n = {n}");
            }
        }
    }

    #[test]
    fn too_many_arguments_are_refused() {
        let kind = CallKind::Direct {
            arguments: MAX_ARGUMENTS + 1,
            argument: ArgumentType::I32,
            frame: Frame::Registers,
        };
        assert_eq!(call(kind, 1), None);
    }
}
