//! The disk as a file of a FUSE file system.
//!
//! The invariant: neither this file system nor the kernel's side of it keeps anything back: each write and each fsync of the
//! file is an operation of the disk before it is answered.

use super::disk::{Disk, Record};
use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyWrite, Request, Session, SessionACL, WriteFlags,
};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, SystemTime};

/// The name of the one file.
pub const FILE_NAME: &str = "disk";
const FILE: INodeNo = INodeNo(2);
/// What the kernel knows of the file does not change.
const TTL: Duration = Duration::from_secs(3600);

struct OneFile(Disk);

/// Serves `disk` to the file system that was, or is just being, mounted with the descriptor `fuse`. The thread ends when that is
/// unmounted.
///
/// # Errors
/// While it is not mounted yet, among others: it may be tried again.
pub fn serve(disk: &Disk, fuse: &File) -> io::Result<BackgroundSession> {
    let descriptor = OwnedFd::from(fuse.try_clone()?);
    let files = OneFile(disk.clone());
    Session::from_fd(files, descriptor, SessionACL::Owner, Config::default())?.spawn()
}

impl OneFile {
    fn attributes(&self, inode: INodeNo) -> FileAttr {
        let is_file = inode == FILE;
        let size = if is_file { self.0.len_bytes() } else { 0 };
        FileAttr {
            ino: inode,
            size,
            blocks: size / 512,
            atime: SystemTime::UNIX_EPOCH,
            mtime: SystemTime::UNIX_EPOCH,
            ctime: SystemTime::UNIX_EPOCH,
            crtime: SystemTime::UNIX_EPOCH,
            kind: if is_file {
                FileType::RegularFile
            } else {
                FileType::Directory
            },
            perm: if is_file { 0o600 } else { 0o700 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

impl Filesystem for OneFile {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if parent == INodeNo::ROOT && name == FILE_NAME {
            reply.entry(&TTL, &self.attributes(FILE), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&TTL, &self.attributes(inode));
    }

    fn readdir(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        if offset == 0 {
            let _ = reply.add(FILE, 1, FileType::RegularFile, FILE_NAME);
        }
        reply.ok();
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        // Without a page cache of the kernel's between.
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        reply.data(&self.0.read(offset, size as usize));
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        if offset + data.len() as u64 > self.0.len_bytes() {
            return reply.error(Errno::ENOSPC);
        }
        self.0.operate(Record::Write {
            offset,
            bytes: data.into(),
        });
        reply.written(data.len() as u32);
    }

    /// Called when a descriptor is closed: no barrier.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.0.operate(Record::Flush);
        reply.ok();
    }

    /// A discard or a range of zeros, as a loop device passes it on.
    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        const KEEP_SIZE: i32 = 0x01;
        const PUNCH_HOLE: i32 = 0x02;
        const ZERO_RANGE: i32 = 0x10;
        let fits = offset
            .checked_add(length)
            .is_some_and(|end| end <= self.0.len_bytes());
        if !fits || !(mode == PUNCH_HOLE | KEEP_SIZE || mode & !KEEP_SIZE == ZERO_RANGE) {
            return reply.error(Errno::EOPNOTSUPP);
        }
        self.0.operate(Record::Zero {
            offset,
            len: length,
        });
        reply.ok();
    }
}
