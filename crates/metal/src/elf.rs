//! Executable files of the smallest kind, written at run time: programs that exit with a status and
//! do nothing else, so that an exec of one costs what an exec costs. Pure: bytes in, bytes out.
//!
//! Layout after the System V ABI (gabi, "Object Files" and "Dynamic Linking") and its supplements
//! for x86-64 and AArch64; 64 bits, little-endian.

use std::io;

/// Bytes of the file header, of a program header, of a dynamic entry and of a symbol.
const HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;
const DYNAMIC_ENTRY: usize = 16;
const SYMBOL: usize = 24;

const ET_EXEC: u16 = 2;
const ET_DYN: u16 = 3;

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;
const PT_PHDR: u32 = 6;
const PT_GNU_STACK: u32 = 0x6474_e551;

const EXECUTE: u32 = 1;
const WRITE: u32 = 2;
const READ: u32 = 4;

const DT_NULL: u64 = 0;
const DT_NEEDED: u64 = 1;
const DT_HASH: u64 = 4;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_STRSZ: u64 = 10;
const DT_SYMENT: u64 = 11;

/// Alignment of segments: the largest base page that either architecture has.
const SEGMENT: usize = 0x1_0000;
/// Where the static program is loaded; above every kernel's lowest address for mappings.
const STATIC_BASE: usize = 0x40_0000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Machine {
    X86_64,
    Aarch64,
}

impl Machine {
    pub const HERE: Machine =
        if cfg!(target_arch = "aarch64") { Machine::Aarch64 } else { Machine::X86_64 };

    /// Its number in a file header.
    fn number(self) -> u16 {
        match self {
            Machine::X86_64 => 62,
            Machine::Aarch64 => 183,
        }
    }

    /// `exit_group(status)` by the system call instruction, and a trap, should it return.
    fn exit(self, status: u8) -> Vec<u8> {
        match self {
            Machine::X86_64 => {
                // mov edi, status; mov eax, 231; syscall; ud2
                let mut code = vec![0xbf, status, 0, 0, 0];
                code.extend([0xb8, 231, 0, 0, 0, 0x0f, 0x05, 0x0f, 0x0b]);
                code
            }
            Machine::Aarch64 => {
                let movz = |register: u32, value: u32| 0xd280_0000 | value << 5 | register;
                // mov x0, status; mov x8, 94; svc 0; brk 0
                let code = [movz(0, u32::from(status)), movz(8, 94), 0xd400_0001, 0xd420_0000];
                code.into_iter().flat_map(u32::to_le_bytes).collect()
            }
        }
    }
}

/// What a dynamic program asks for: the interpreter that loads it, and the libraries that this must
/// find and map first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linkage {
    /// Path of the interpreter (`ld.so`).
    pub interpreter: String,
    pub needed: Vec<String>,
}

/// A static program: the kernel maps one page of it and jumps to its few instructions, which exit
/// with `status`.
pub fn static_program(machine: Machine, status: u8) -> Vec<u8> {
    let code = machine.exit(status);
    let start = HEADER + 2 * PROGRAM_HEADER;
    let bytes = start + code.len();
    let load = segment(PT_LOAD, READ | EXECUTE, 0, STATIC_BASE, bytes, SEGMENT);
    let mut file = header(machine, ET_EXEC, STATIC_BASE + start, 2);
    file.extend(load.bytes());
    file.extend(STACK.bytes());
    file.extend(code);
    file
}

/// A dynamic program, position-independent as distributions build them: the kernel maps it and its
/// interpreter, which maps the libraries and relocates them; then the same few instructions exit
/// with `status`. They run no destructor of the libraries.
pub fn dynamic_program(machine: Machine, linkage: &Linkage, status: u8) -> Vec<u8> {
    const SEGMENTS: usize = 6;
    let table = HEADER + SEGMENTS * PROGRAM_HEADER;
    let mut body = Vec::new();
    let mut place = |bytes: Vec<u8>, align: usize| {
        body.resize((table + body.len()).next_multiple_of(align) - table, 0);
        let at = table + body.len();
        body.extend(bytes);
        at
    };
    let interpreter = [linkage.interpreter.as_bytes(), &[0]].concat();
    let interpreter_bytes = interpreter.len();
    let (strings, names) = string_table(&linkage.needed);
    let strings_bytes = strings.len();

    let interpreter_at = place(interpreter, 1);
    let strings_at = place(strings, 8);
    // One symbol, the null symbol, in a table of one bucket.
    let symbols_at = place(vec![0; SYMBOL], 8);
    let hash = [1_u32, 1, 0, 0].into_iter().flat_map(u32::to_le_bytes);
    let hash_at = place(hash.collect(), 8);
    let code = machine.exit(status);
    let code_at = place(code, 16);
    let read_only_bytes = table + body.len();

    // The interpreter writes addresses into the dynamic section, so that has a segment of its own.
    let dynamic_at = read_only_bytes.next_multiple_of(8);
    let mut entries: Vec<(u64, u64)> = names.iter().map(|name| (DT_NEEDED, *name)).collect();
    entries.extend([
        (DT_HASH, hash_at as u64),
        (DT_STRTAB, strings_at as u64),
        (DT_SYMTAB, symbols_at as u64),
        (DT_STRSZ, strings_bytes as u64),
        (DT_SYMENT, SYMBOL as u64),
        (DT_NULL, 0),
    ]);
    let (code_flags, data_flags) = (READ | EXECUTE, READ | WRITE);
    let dynamic_bytes = entries.len() * DYNAMIC_ENTRY;
    let dynamic_address = SEGMENT + dynamic_at;
    let segments: [Segment; SEGMENTS] = [
        segment(PT_PHDR, READ, HEADER, HEADER, table - HEADER, 8),
        segment(PT_INTERP, READ, interpreter_at, interpreter_at, interpreter_bytes, 1),
        segment(PT_LOAD, code_flags, 0, 0, read_only_bytes, SEGMENT),
        segment(PT_LOAD, data_flags, dynamic_at, dynamic_address, dynamic_bytes, SEGMENT),
        segment(PT_DYNAMIC, data_flags, dynamic_at, dynamic_address, dynamic_bytes, 8),
        STACK,
    ];
    let mut file = header(machine, ET_DYN, code_at, SEGMENTS as u16);
    file.extend(segments.iter().flat_map(Segment::bytes));
    file.extend(body);
    file.resize(dynamic_at, 0);
    for (tag, value) in entries {
        file.extend(tag.to_le_bytes());
        file.extend(value.to_le_bytes());
    }
    file
}

/// The linkage of a program file, as far as its C library goes: its interpreter, and of the
/// libraries that it needs the one whose name begins with `libc.`. `None` for a static program.
/// Errors: `file` is no program of this kind (64 bits, little-endian), or is cut off.
pub fn linkage(file: &[u8]) -> io::Result<Option<Linkage>> {
    if file.get(..6) != Some(b"\x7fELF\x02\x01") {
        return Err(malformed());
    }
    let table = word(file, 32, 8)?;
    let (entry_bytes, count) = (word(file, 54, 2)?, word(file, 56, 2)?);
    let (mut loads, mut interpreter, mut dynamic) = (Vec::new(), None, None);
    for index in 0..count {
        let header = table.checked_add(index * entry_bytes).and_then(|at| file.get(at..));
        let header = header.ok_or_else(malformed)?;
        let (offset, address) = (word(header, 8, 8)?, word(header, 16, 8)?);
        let bytes = word(header, 32, 8)?;
        match word(header, 0, 4)? as u32 {
            PT_LOAD => loads.push((offset, address, bytes)),
            PT_INTERP => interpreter = Some(text(file, offset)?),
            PT_DYNAMIC => dynamic = Some((offset, bytes)),
            _ => {}
        }
    }
    let (Some(interpreter), Some((offset, bytes))) = (interpreter, dynamic) else {
        return Ok(None);
    };
    let (mut names, mut strings) = (Vec::new(), None);
    for at in (offset..offset.saturating_add(bytes)).step_by(DYNAMIC_ENTRY) {
        let entry = file.get(at..).ok_or_else(malformed)?;
        let (tag, value) = (word(entry, 0, 8)? as u64, word(entry, 8, 8)?);
        match tag {
            DT_NULL => break,
            DT_NEEDED => names.push(value),
            DT_STRTAB => strings = Some(value),
            _ => {}
        }
    }
    let strings = strings.ok_or_else(malformed)?;
    let holds = |&&(_, address, bytes): &&(usize, usize, usize)| {
        (address..address.saturating_add(bytes)).contains(&strings)
    };
    let &(offset, address, _) = loads.iter().find(holds).ok_or_else(malformed)?;
    let name = |name| text(file, (strings - address).saturating_add(offset).saturating_add(name));
    let needed = names.into_iter().map(name).collect::<io::Result<Vec<String>>>()?;
    Ok(Some(Linkage {
        interpreter,
        needed: needed.into_iter().filter(|name| name.starts_with("libc.")).collect(),
    }))
}

#[derive(Clone, Copy)]
struct Segment {
    kind: u32,
    flags: u32,
    offset: usize,
    address: usize,
    bytes: usize,
    align: usize,
}

/// A stack that is not executable; without it the kernel makes all readable memory executable.
const STACK: Segment = segment(PT_GNU_STACK, READ | WRITE, 0, 0, 0, 16);

const fn segment(
    kind: u32,
    flags: u32,
    offset: usize,
    address: usize,
    bytes: usize,
    align: usize,
) -> Segment {
    Segment { kind, flags, offset, address, bytes, align }
}

impl Segment {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = [self.kind, self.flags].map(u32::to_le_bytes).concat();
        // File offset, virtual and physical address, size in the file and in memory.
        for word in [self.offset, self.address, self.address, self.bytes, self.bytes, self.align] {
            bytes.extend((word as u64).to_le_bytes());
        }
        bytes
    }
}

/// The file header of a program whose program headers follow it.
fn header(machine: Machine, kind: u16, entry: usize, segments: u16) -> Vec<u8> {
    let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
    bytes.resize(16, 0);
    bytes.extend(kind.to_le_bytes());
    bytes.extend(machine.number().to_le_bytes());
    bytes.extend(1_u32.to_le_bytes());
    for word in [entry, HEADER, 0] {
        bytes.extend((word as u64).to_le_bytes());
    }
    bytes.extend(0_u32.to_le_bytes());
    for half in [HEADER as u16, PROGRAM_HEADER as u16, segments, 0, 0, 0] {
        bytes.extend(half.to_le_bytes());
    }
    bytes
}

/// Names after an empty one, and where each begins.
fn string_table(names: &[String]) -> (Vec<u8>, Vec<u64>) {
    let mut table = vec![0];
    let mut places = Vec::new();
    for name in names {
        places.push(table.len() as u64);
        table.extend(name.as_bytes());
        table.push(0);
    }
    (table, places)
}

/// A number of `bytes` bytes.
fn word(file: &[u8], at: usize, bytes: usize) -> io::Result<usize> {
    let end = at.checked_add(bytes).ok_or_else(malformed)?;
    let bytes = file.get(at..end).ok_or_else(malformed)?;
    let value = bytes.iter().rev().fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
    usize::try_from(value).map_err(|_| malformed())
}

/// The text up to the next zero byte.
fn text(file: &[u8], at: usize) -> io::Result<String> {
    let rest = file.get(at..).ok_or_else(malformed)?;
    let end = rest.iter().position(|byte| *byte == 0);
    let bytes = &rest[..end.ok_or_else(malformed)?];
    String::from_utf8(bytes.to_vec()).map_err(|_| malformed())
}

fn malformed() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "it is no 64-bit little-endian program file, or it is cut off",
    )
}

#[cfg(test)]
mod tests {
    use super::{
        HEADER, Linkage, Machine, PROGRAM_HEADER, PT_INTERP, PT_LOAD, SEGMENT, dynamic_program,
        linkage, static_program, word,
    };

    fn usual() -> Linkage {
        Linkage {
            interpreter: "/lib64/ld-linux-x86-64.so.2".to_owned(),
            needed: vec!["libc.so.6".to_owned()],
        }
    }

    /// Kind, flags, offset, address, bytes and alignment of each segment.
    fn segments(file: &[u8]) -> Vec<[usize; 6]> {
        let read = |at, bytes| word(file, at, bytes).expect("is there");
        (0..read(56, 2))
            .map(|index| {
                let at = HEADER + index * PROGRAM_HEADER;
                let words = [8, 16, 32, 48].map(|offset| read(at + offset, 8));
                [read(at, 4), read(at + 4, 4), words[0], words[1], words[2], words[3]]
            })
            .collect()
    }

    #[test]
    fn headers_say_what_the_machine_demands() {
        for (machine, number) in [(Machine::X86_64, 62), (Machine::Aarch64, 183)] {
            for (file, kind) in
                [(static_program(machine, 42), 2), (dynamic_program(machine, &usual(), 42), 3)]
            {
                assert_eq!(&file[..8], b"\x7fELF\x02\x01\x01\0");
                assert_eq!(word(&file, 16, 2).ok(), Some(kind));
                assert_eq!(word(&file, 18, 2).ok(), Some(number));
                // The entry lies in an executable segment, and the file holds every segment.
                let entry = word(&file, 24, 8).expect("is there");
                let mut executable = 0;
                for [kind, flags, offset, address, bytes, align] in segments(&file) {
                    assert!(offset + bytes <= file.len());
                    assert_eq!(offset % align, address % align, "a segment can be mapped");
                    // Nothing is writable and executable.
                    assert_ne!(flags & 3, 3);
                    if kind == PT_LOAD as usize && flags & 1 == 1 {
                        executable += 1;
                        assert!((address..address + bytes).contains(&entry));
                    }
                }
                assert_eq!(executable, 1);
            }
        }
    }

    #[test]
    fn a_dynamic_program_tells_its_linkage_and_a_static_one_has_none() {
        let both = Linkage {
            interpreter: "/lib/ld-musl-aarch64.so.1".to_owned(),
            needed: vec!["libc.musl-aarch64.so.1".to_owned(), "libc.other".to_owned()],
        };
        for wanted in [usual(), both] {
            let file = dynamic_program(Machine::Aarch64, &wanted, 1);
            assert_eq!(linkage(&file).expect("is a program"), Some(wanted.clone()));
            let at = segments(&file)
                .into_iter()
                .find(|segment| segment[0] == PT_INTERP as usize)
                .expect("has an interpreter");
            assert_eq!(at[4], wanted.interpreter.len() + 1);
        }
        let none = linkage(&static_program(Machine::X86_64, 1)).expect("is a program");
        assert_eq!(none, None);
    }

    #[test]
    fn segments_of_a_dynamic_program_share_no_page() {
        let file = dynamic_program(Machine::X86_64, &usual(), 42);
        let loads: Vec<_> = segments(&file)
            .into_iter()
            .filter(|segment| segment[0] == PT_LOAD as usize)
            .map(|segment| (segment[3] / SEGMENT, (segment[3] + segment[4]) / SEGMENT))
            .collect();
        assert_eq!(loads, [(0, 0), (1, 1)]);
    }

    #[test]
    fn what_is_no_program_is_refused_wherever_it_is_cut() {
        let file = dynamic_program(Machine::X86_64, &usual(), 42);
        linkage(b"#!/bin/sh\n").expect_err("a script");
        for length in 0..file.len() {
            linkage(&file[..length]).expect_err("cut off");
        }
        // Headers nowhere; an interpreter, a dynamic section or strings nowhere.
        for at in (32..64 + 6 * 56).step_by(8) {
            let mut wild = file.clone();
            wild[at..at + 8].fill(0xff);
            let _ = linkage(&wild);
        }
        let mut wild = file;
        wild[32..40].fill(0xff);
        linkage(&wild).expect_err("headers nowhere");
    }

    #[test]
    fn this_program_tells_its_own_linkage() {
        let own = std::fs::read("/proc/self/exe").expect("is readable");
        let told = linkage(&own).expect("is a program");
        // A static build has none.
        if let Some(told) = told {
            assert!(told.interpreter.starts_with('/'), "{told:?}");
            assert_eq!(told.needed.len(), 1, "{told:?}");
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_instructions_of_x86_64_exit_with_the_status() {
        use iced_x86::{Decoder, DecoderOptions, Formatter, IntelFormatter};
        let code = Machine::X86_64.exit(42);
        let decoder = Decoder::new(64, &code, DecoderOptions::NONE);
        let shown = decoder.into_iter().map(|instruction| {
            let mut text = String::new();
            IntelFormatter::new().format(&instruction, &mut text);
            text
        });
        let texts: Vec<String> = shown.collect();
        assert_eq!(texts, ["mov edi,2Ah", "mov eax,0E7h", "syscall", "ud2"]);
    }

    #[test]
    fn the_instructions_of_aarch64_are_as_an_assembler_writes_them() {
        // `mov x0, #42; mov x8, #94; svc #0; brk #0` by GNU as.
        let expected = [0xd280_0540_u32, 0xd280_0bc8, 0xd400_0001, 0xd420_0000];
        let expected: Vec<u8> = expected.into_iter().flat_map(u32::to_le_bytes).collect();
        assert_eq!(Machine::Aarch64.exit(42), expected);
    }
}
