//! What verify mode found, in words.
//!
//! The invariant: nothing is written anywhere but where the program asks ([`perdure_report`]) or the user names a file (`PERDURE_REPORT`),
//! and nothing at all if no store was missed.

use crate::blocks::handle;
use crate::errors::{Outcome, guarded};
use crate::files::PerdureFile;
use crate::handle::Perdure;
use heap::Missed;
use region::{DATA_START, LINE_BYTES};
use std::ffi::{CStr, c_char, c_void};
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;

/// Whether somebody wants to know so much that finding it out may cost something.
pub(crate) fn is_wanted() -> bool {
    std::env::var_os("PERDURE_REPORT").is_some()
}

/// Which code it was, as `addr2line -e FILE ADDRESS` takes it; and the function, if the file tells.
fn code_at(instruction: u64) -> String {
    // The instruction behind the one that stored.
    let address = instruction - 1;
    let mut found = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    let place = std::ptr::with_exposed_provenance::<c_void>(address as usize);
    // SAFETY: fills the structure, of whatever address; zeros are good, too.
    let (code, found) = unsafe {
        let code = libc::dladdr(place, found.as_mut_ptr());
        (code, found.assume_init())
    };
    if code == 0 || found.dli_fname.is_null() || found.dli_fbase.is_null() {
        return format!("{address:#x}, in no file");
    }
    // SAFETY: the loader's: a text, and the first bytes of a file that it has mapped, in which its kind is at 16.
    let (file, kind) = unsafe {
        let kind = found.dli_fbase.cast::<u16>().add(8).read();
        (CStr::from_ptr(found.dli_fname).to_string_lossy(), kind)
    };
    // A file that lies anywhere has addresses from 0 on.
    let base = match u16::from_le(kind) {
        ET_EXEC => 0,
        _ => found.dli_fbase.addr() as u64,
    };
    let mut text = format!("{file} {:#x}", address - base);
    if !found.dli_sname.is_null() {
        // SAFETY: the loader's text.
        let name = unsafe { CStr::from_ptr(found.dli_sname) };
        let _ = write!(text, " ({})", name.to_string_lossy());
    }
    text
}

/// The kind of an ELF file that lies where it says.
const ET_EXEC: u16 = 2;

/// The first sentence, and then `describe` for each place that is known, with the code that stores there; "" if there is nothing to tell.
fn words(path: &Path, missed: &Missed, describe: &mut dyn FnMut(&mut String, u64)) -> String {
    let mut text = String::new();
    if missed.lines == 0 {
        return text;
    }
    let what = match missed.lines {
        1 => "1 line".into(),
        n => format!("{n} lines"),
    };
    // To a string: cannot fail.
    let _ = writeln!(
        text,
        "\"{}\": {what} of {LINE_BYTES} bytes stored to without a mark; committed all the same",
        path.display()
    );
    for &offset in &missed.offsets {
        text.push_str("    ");
        describe(&mut text, offset);
        text.push('\n');
        let of_line = missed.instructions.iter();
        for &(_, instruction) in
            of_line.filter(|(line, _)| line / LINE_BYTES == offset / LINE_BYTES)
        {
            let _ = writeln!(text, "        stored to by {}", code_at(instruction));
        }
    }
    let known = missed.offsets.len() as u64;
    if known < missed.lines {
        let _ = writeln!(text, "    and {} more", missed.lines - known);
    }
    text
}

impl Perdure {
    fn report(&self) -> Outcome<String> {
        let heap = self.heap();
        let missed = heap.missed();
        let mut sorted = missed.offsets.clone();
        sorted.sort_unstable();
        sorted.dedup();
        let blocks = heap.blocks_around(&sorted)?;
        Ok(words(&self.path, &missed, &mut |text, offset| {
            let block = sorted.binary_search(&offset).ok().and_then(|i| blocks[i]);
            let _ = write!(
                text,
                "{:#x}, position {offset}: ",
                self.start as u64 + offset
            );
            let _ = match block {
                Some((start, bytes)) => write!(
                    text,
                    "byte {} of the block of {bytes} bytes at {:#x}",
                    offset - start,
                    self.start as u64 + start
                ),
                None => write!(text, "in no block that is allocated now"),
            };
        }))
    }

    /// At the end: to the file that the user named, if there is anything to tell.
    pub(crate) fn append_report(&self) {
        let Some(file) = std::env::var_os("PERDURE_REPORT") else {
            return;
        };
        let text = self.report().unwrap_or_else(|failure| {
            format!("\"{}\": {}\n", self.path.display(), failure.message)
        });
        append(file.as_ref(), &text);
    }
}

impl PerdureFile {
    pub(crate) fn append_report(&self) {
        let Some(file) = std::env::var_os("PERDURE_REPORT") else {
            return;
        };
        let missed = self.region().missed();
        let text = words(&self.path, &missed, &mut |text, offset| {
            let position = offset - DATA_START;
            let _ = write!(
                text,
                "{:#x}, position {position} of the file",
                self.start as u64 + position
            );
        });
        append(file.as_ref(), &text);
    }
}

/// In one write, so that several processes may have the same file. A file that cannot be written is no reason not to close a heap.
fn append(file: &Path, text: &str) {
    if text.is_empty() {
        return;
    }
    let open = OpenOptions::new().append(true).create(true).open(file);
    let _ = open.and_then(|mut file| file.write_all(text.as_bytes()));
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdure_report(
    heap: *mut Perdure,
    text: *mut c_char,
    size: usize,
) -> usize {
    let told = guarded(|| {
        // SAFETY: as the caller owes.
        let words = unsafe { handle(heap) }?.report()?;
        if size > 0 && !text.is_null() {
            let kept = words.len().min(size - 1);
            // SAFETY: there is room for `size` bytes, as the caller owes: fewer are written, and a zero.
            unsafe {
                std::ptr::copy_nonoverlapping(words.as_ptr().cast::<c_void>(), text.cast(), kept);
                text.add(kept).write(0);
            }
        }
        Ok(words.len())
    });
    told.unwrap_or(0)
}
