//! The walk over the stack of what a signal interrupted.
//!
//! A signal comes anywhere, also in assembly whose unwind tables are wrong or missing, so that what the
//! tables say may be any address.
//!
//! 1. The interrupted stack is read by the system (`process_vm_readv`), which says so when nothing is at an
//!    address. Where it refuses the call, a walk ends at the address that was interrupted.
//! 2. Tables are those of the objects that were loaded when a recording began; a walk ends at an address
//!    outside of them.
//! 3. A walk allocates nothing and waits for nothing: one at a time has the tables, and others get none.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use framehop::{ExplicitModuleSectionInfo, Module, MustNotAllocateDuringUnwind, UnwindRegsNative, Unwinder};

#[cfg(target_arch = "aarch64")]
type Native = framehop::aarch64::UnwinderAarch64<&'static [u8], MustNotAllocateDuringUnwind>;
#[cfg(target_arch = "x86_64")]
type Native = framehop::x86_64::UnwinderX86_64<&'static [u8], MustNotAllocateDuringUnwind>;

/// The most bytes of a stack that a walk looks at.
const LARGEST_STACK: u64 = 16 << 20;

/// What walks need, for one at a time.
pub(crate) struct Walker {
    is_taken: AtomicBool,
    tables: UnsafeCell<Option<Tables>>,
}

// SAFETY: the tables are touched by whoever has set `is_taken`, who is one at a time.
unsafe impl Sync for Walker {}

/// The unwind tables of what is loaded.
struct Tables {
    unwinder: Native,
    cache: <Native as Unwinder>::Cache,
    code: Vec<Range<u64>>,
}

impl Walker {
    pub(crate) const fn new() -> Self {
        Self { is_taken: AtomicBool::new(false), tables: UnsafeCell::new(None) }
    }

    /// Reads where the tables of all loaded objects are. Not for a signal handler.
    pub(crate) fn load(&self) {
        let tables = Tables::of(&loaded());
        // A walk takes microseconds, and a signal that comes to this thread from here on walks nothing.
        while self.is_taken.swap(true, Ordering::Acquire) {
            std::thread::yield_now();
        }
        // SAFETY: `is_taken` was set here.
        let before = unsafe { (*self.tables.get()).replace(tables) };
        self.is_taken.store(false, Ordering::Release);
        drop(before);
    }

    /// Writes the addresses of the interrupted stack into `out`, the innermost first; the result is their
    /// number. Each is the one after an instruction, as return addresses are. `None`: another walk is under
    /// way.
    pub(crate) fn walk(&self, interrupted: &libc::ucontext_t, out: &mut [usize]) -> Option<usize> {
        if self.is_taken.swap(true, Ordering::Acquire) {
            return None;
        }
        // SAFETY: `is_taken` was set here.
        let noted = unsafe { &mut *self.tables.get() }.as_mut().map_or(0, |tables| {
            let (address, stack, registers) = registers(interrupted);
            tables.walk(address, stack, registers, out)
        });
        self.is_taken.store(false, Ordering::Release);
        Some(noted)
    }
}

impl Tables {
    fn of(objects: &[Loaded]) -> Self {
        let mut unwinder = Native::new();
        for object in objects {
            unwinder.add_module(object.module());
        }
        let code = objects.iter().flat_map(|object| object.code.iter().cloned()).collect();
        Self { unwinder, cache: <Native as Unwinder>::Cache::new_in(), code }
    }

    fn walk(&mut self, address: u64, stack: u64, registers: UnwindRegsNative, out: &mut [usize]) -> usize {
        let mut read = |at: u64| {
            let is_of_stack = at >= stack && at - stack < LARGEST_STACK && at.is_multiple_of(8);
            if is_of_stack { word_at(at) } else { Err(()) }
        };
        let mut frames = self.unwinder.iter_frames(address, registers, &mut self.cache, &mut read);
        let mut noted = 0;
        for slot in out {
            let Ok(Some(frame)) = frames.next() else { break };
            let is_known = self.code.iter().any(|code| code.contains(&frame.address_for_lookup()));
            // The address that was interrupted counts, whatever is there.
            if !is_known && noted > 0 {
                break;
            }
            *slot = usize::try_from(frame.address_for_lookup().wrapping_add(1)).unwrap_or_default();
            noted += 1;
            if !is_known {
                break;
            }
        }
        noted
    }
}

/// The address that was interrupted, the end of its stack, and the registers that a walk begins with.
#[cfg(target_arch = "x86_64")]
fn registers(interrupted: &libc::ucontext_t) -> (u64, u64, UnwindRegsNative) {
    let register = |number: c_int| {
        let number = usize::try_from(number).unwrap_or_default();
        interrupted.uc_mcontext.gregs.get(number).copied().unwrap_or_default().cast_unsigned()
    };
    let (address, stack) = (register(libc::REG_RIP), register(libc::REG_RSP));
    (address, stack, UnwindRegsNative::new(address, stack, register(libc::REG_RBP)))
}

/// The address that was interrupted, the end of its stack, and the registers that a walk begins with.
#[cfg(target_arch = "aarch64")]
fn registers(interrupted: &libc::ucontext_t) -> (u64, u64, UnwindRegsNative) {
    let machine = &interrupted.uc_mcontext;
    let register = |number: usize| machine.regs.get(number).copied().unwrap_or_default();
    (machine.pc, machine.sp, UnwindRegsNative::new(register(30), machine.sp, register(29)))
}

/// The word at an address of this process; an error if nothing is there.
fn word_at(address: u64) -> Result<u64, ()> {
    let mut word = 0u64;
    let length = size_of::<u64>();
    let local = libc::iovec { iov_base: (&raw mut word).cast(), iov_len: length };
    let remote = libc::iovec { iov_base: address as *mut c_void, iov_len: length };
    // SAFETY: the system writes into `word` alone, and looks itself whether there is memory at the address.
    let read =
        unsafe { libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0) };
    if usize::try_from(read) == Ok(length) { Ok(word) } else { Err(()) }
}

/// A loaded object: the program or a library.
struct Loaded {
    base: u64,
    /// All of its memory.
    range: Range<u64>,
    code: Vec<Range<u64>>,
    /// The index of its unwind table, and the table.
    tables: Option<[Table; 2]>,
}

/// A table in memory.
#[derive(Clone, Copy)]
struct Table {
    address: u64,
    bytes: &'static [u8],
}

impl Table {
    /// Relative to where an object is loaded.
    fn range(self, base: u64) -> Range<u64> {
        let begin = self.address.wrapping_sub(base);
        begin..begin + self.bytes.len() as u64
    }
}

impl Loaded {
    fn module(&self) -> Module<&'static [u8]> {
        let mut sections = ExplicitModuleSectionInfo::default();
        if let Some([index, table]) = self.tables {
            sections.eh_frame_hdr_svma = Some(index.range(self.base));
            sections.eh_frame_hdr = Some(index.bytes);
            sections.eh_frame_svma = Some(table.range(self.base));
            sections.eh_frame = Some(table.bytes);
        }
        Module::new(String::new(), self.range.clone(), self.base, sections)
    }
}

/// What is loaded now.
fn loaded() -> Vec<Loaded> {
    let mut objects: Vec<Loaded> = Vec::new();
    // SAFETY: `note` has the type that is called, and gets the vector, which nobody else has meanwhile.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut objects).cast()) };
    objects
}

/// Notes one loaded object in a vector.
unsafe extern "C" fn note(info: *mut libc::dl_phdr_info, _: usize, objects: *mut c_void) -> c_int {
    // SAFETY: the system calls it with a valid object, and with the vector of `loaded`.
    let (info, objects) = unsafe { (&*info, &mut *objects.cast::<Vec<Loaded>>()) };
    if info.dlpi_phdr.is_null() {
        return 0;
    }
    // SAFETY: the object has that many headers.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let base = info.dlpi_addr;
    let range = |header: &libc::Elf64_Phdr| {
        let begin = base.wrapping_add(header.p_vaddr);
        begin..begin.saturating_add(header.p_memsz)
    };
    let segments = || headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
    let Some(begin) = segments().map(|header| range(header).start).min() else { return 0 };
    let end = segments().map(|header| range(header).end).max().unwrap_or(begin);
    let code = segments().filter(|header| header.p_flags & libc::PF_X != 0).map(range).collect();
    let index = headers.iter().find(|header| header.p_type == libc::PT_GNU_EH_FRAME).map(range);
    let tables = index.and_then(|index| {
        let index = Table { address: index.start, bytes: memory(&index)? };
        let at = table_of(index)?;
        // Its length stands nowhere; it ends within its segment.
        let segment = segments().map(range).find(|segment| segment.contains(&at))?;
        Some([index, Table { address: at, bytes: memory(&(at..segment.end))? }])
    });
    objects.push(Loaded { base, range: begin..end, code, tables });
    0
}

/// A part of a segment of a loaded object.
fn memory(range: &Range<u64>) -> Option<&'static [u8]> {
    let length = usize::try_from(range.end.checked_sub(range.start)?).ok()?;
    // SAFETY: the range is of a segment that the loader has mapped and that is only read. The program and
    // its libraries stay until it ends.
    (length > 0).then(|| unsafe { std::slice::from_raw_parts(range.start as *const u8, length) })
}

/// The address of the table that an index of `.eh_frame_hdr` belongs to, when it is written as linkers
/// write it: four bytes, relative to their own address.
fn table_of(index: Table) -> Option<u64> {
    const VERSION: u8 = 1;
    const RELATIVE_TO_ITSELF_4: u8 = 0x1b;
    const AT: usize = 4;
    let [VERSION, RELATIVE_TO_ITSELF_4, ..] = index.bytes else { return None };
    let offset = index.bytes.get(AT..AT + 4)?.try_into().ok().map(i32::from_le_bytes)?;
    index.address.checked_add(AT as u64)?.checked_add_signed(offset.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables() -> Tables {
        Tables::of(&loaded())
    }

    #[test]
    fn objects_have_their_tables() {
        let objects = loaded();
        let here = objects_have_their_tables as fn() as usize as u64;
        let program = objects.iter().find(|object| object.range.contains(&here)).unwrap();
        assert!(program.code.iter().any(|code| code.contains(&here)));
        assert!(program.tables.is_some());
    }

    /// Addresses that mean nothing end a walk.
    #[test]
    fn any_registers_end_a_walk() {
        let mut tables = tables();
        let code = tables.code.clone();
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let local = 0u64;
        let here = (&raw const local) as u64;
        for round in 0..200_000usize {
            let section = &code[round % code.len()];
            let address = match random() % 4 {
                0 => random(),
                _ => section.start + random() % (section.end - section.start),
            };
            let mut place = || match random() % 6 {
                0 => 0,
                1 => u64::MAX - random() % 64,
                2 => random(),
                3 => section.start + random() % (section.end - section.start),
                _ => here.wrapping_add((random() % 4096).wrapping_sub(1024)) & !7,
            };
            let (stack, frame) = (place(), place());
            let registers = UnwindRegsNative::new(address, stack, frame);
            let mut out = [0; crate::DEEPEST];
            let noted = tables.walk(address, stack, registers, &mut out);
            assert!((1..=out.len()).contains(&noted));
            assert_eq!(out[0] as u64, address.wrapping_add(1));
        }
    }

    #[test]
    fn words_are_read_where_there_is_memory() {
        let word = 42u64;
        assert_eq!(word_at((&raw const word) as u64), Ok(42));
        for nowhere in [0, 8, 0xffff_ffff_ffff_fff8, 0xdead_beef_0000] {
            assert_eq!(word_at(nowhere), Err(()));
        }
    }
}
