//! Typed access to the working copy. Every offset is checked against the end, whoever it came from: an offset read
//! out of a damaged or hostile file gives an error, never a stray access.

use crate::error::Error;
use crate::layout::DATA_START;
use crate::{Region, Result};

/// Integers that are stored little-endian at any offset.
///
/// # Safety
/// Implementors are plain integers: every bit pattern is a value.
pub unsafe trait Plain: Copy {
    /// To and from the byte order of the format (its own inverse).
    fn le(self) -> Self;
}

macro_rules! plain {
    ($($t:ty),*) => {$(
        // SAFETY: an integer.
        unsafe impl Plain for $t {
            #[inline(always)]
            fn le(self) -> Self {
                self.to_le()
            }
        }
    )*};
}
plain!(u8, u16, u32, u64, u128);

impl Region {
    /// The integer at `offset`.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Damaged`] when it does not lie below the end.
    #[inline(always)]
    pub fn get<T: Plain>(&self, offset: u64) -> Result<T> {
        if offset > self.end - size_of::<T>() as u64 {
            return Err(self.stray(offset));
        }
        // SAFETY: in bounds of [0, end) (checked; end is at least DATA_START, so the difference does not wrap), which
        // is readable memory (invariant of Map); unaligned is allowed, any bit pattern is a T (Plain).
        Ok(unsafe {
            self.map
                .base()
                .add(offset as usize)
                .cast::<T>()
                .read_unaligned()
        }
        .le())
    }

    /// Stores an integer at `offset`, as part of the next commit.
    ///
    /// # Errors
    /// As [`Region::get`], and below [`DATA_START`].
    #[inline(always)]
    pub fn put<T: Plain>(&mut self, offset: u64, value: T) -> Result<()> {
        // Superblocks are not the users' to store to: a frame with such a run would be refused when it is read again.
        let room = (self.end - DATA_START).saturating_sub(size_of::<T>() as u64 - 1);
        if offset.wrapping_sub(DATA_START) >= room {
            return Err(self.stray(offset));
        }
        if self.cards.mark(offset, size_of::<T>() as u64) {
            self.relieve();
        }
        // SAFETY: in bounds of [DATA_START, end) (checked), else as in `get`; exclusive through &mut self.
        unsafe {
            self.map
                .base()
                .add(offset as usize)
                .cast::<T>()
                .write_unaligned(value.le())
        };
        Ok(())
    }

    /// The `len` bytes at `offset`.
    ///
    /// # Errors
    /// As [`Region::get`].
    #[inline]
    pub fn bytes(&self, offset: u64, len: u64) -> Result<&[u8]> {
        match offset.checked_add(len) {
            Some(end) if end <= self.end => Ok(self.map.slice(offset, end)),
            _ => Err(self.stray(offset)),
        }
    }

    /// The `len` bytes at `offset`, to be overwritten as part of the next commit.
    ///
    /// # Errors
    /// As [`Region::put`].
    #[inline]
    pub fn bytes_mut(&mut self, offset: u64, len: u64) -> Result<&mut [u8]> {
        match offset.checked_add(len) {
            Some(end) if end <= self.end && (offset >= DATA_START || len == 0) => {
                if len > 0 && self.cards.mark(offset, len) {
                    self.relieve();
                }
                Ok(self.map.slice_mut(offset, end))
            }
            _ => Err(self.stray(offset)),
        }
    }

    /// Copies `len` bytes from one place to another, which do not overlap.
    ///
    /// # Errors
    /// As [`Region::put`], and when they do overlap.
    pub fn copy_within(&mut self, from: u64, to: u64, len: u64) -> Result<()> {
        if from.abs_diff(to) < len {
            return Err(self.damaged(from, "two blocks that overlap"));
        }
        let source = self.bytes(from, len)?.as_ptr();
        let target = self.bytes_mut(to, len)?.as_mut_ptr();
        // SAFETY: both were just checked to lie in the region, and do not overlap (checked above).
        unsafe { std::ptr::copy_nonoverlapping(source, target, len as usize) };
        Ok(())
    }

    /// Asks the processor to fetch the line at `offset`. No effect on meaning; any offset is allowed.
    #[inline(always)]
    pub fn prefetch(&self, offset: u64) {
        #[cfg(target_arch = "x86_64")]
        if offset < self.end {
            // SAFETY: a hint; the address is inside the mapping.
            unsafe {
                std::arch::x86_64::_mm_prefetch(
                    self.map.base().add(offset as usize).cast::<i8>(),
                    std::arch::x86_64::_MM_HINT_T0,
                );
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn stray(&self, offset: u64) -> Error {
        Error::damaged(
            self.path_text(),
            offset,
            format!(
                "an offset outside the heap's data ({DATA_START} to {} bytes)",
                self.end
            ),
        )
    }

    /// An error that says that what stands at `offset` cannot be true.
    #[cold]
    #[inline(never)]
    pub fn damaged(&self, offset: u64, what: impl Into<String>) -> Error {
        Error::damaged(self.path_text(), offset, what)
    }
}
