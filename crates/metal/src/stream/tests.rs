use super::{Access, Kernel, Op, Stores, Stream, Width};
use crate::memory::{Mapping, Pages};

fn supported() -> Vec<Kernel> {
    let mut kernels = vec![];
    for op in Op::ALL {
        for stores in Stores::ALL {
            for access in Access::ALL {
                for width in Width::ALL {
                    let kernel = Kernel {
                        op,
                        stores,
                        access,
                        width,
                    };
                    kernels.extend(kernel.is_supported().then_some(kernel));
                }
            }
        }
    }
    kernels
}

fn stream(kernel: Kernel, footprint_bytes: usize) -> Stream {
    let bytes = Stream::mapping_bytes(kernel, footprint_bytes);
    let mapping = Mapping::new(bytes, Pages::Base).unwrap();
    Stream::new(kernel, mapping, footprint_bytes).unwrap()
}

#[test]
fn every_kernel_leaves_the_known_answer_wherever_it_stops() {
    let kernels = supported();
    assert!(kernels.len() >= 60, "{}", kernels.len());
    for kernel in kernels {
        for lines in [8, 40, 8 * 37, 8 * 131] {
            let mut stream = stream(kernel, lines * 64 * kernel.op.arrays());
            assert!(stream.is_right(), "{kernel:?}, {lines} lines, at first");
            for step in [1, 5000, 64, 30_000] {
                let moved = stream.step(step);
                assert!(moved > 0);
                assert!(stream.is_right(), "{kernel:?}, {lines} lines, {step}");
            }
            stream.pass();
            assert_eq!((stream.at, stream.sweep), (0, 0));
            assert_eq!(stream.pass(), stream.pass_bytes());
            assert!(stream.is_right(), "{kernel:?}, {lines} lines");
        }
    }
}
