//! A disk as a file: a FUSE file system that holds one file.

use crate::Disk;
use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

/// Name of the file.
const NAME: &str = "pool";
const FILE: INodeNo = INodeNo(2);
/// Time for which the kernel may cache names and lengths. They never change.
const CACHE_TIME: Duration = Duration::from_secs(1 << 20);

/// A mounted file system whose one file lies on a [`Disk`]. Unmounted when dropped.
#[derive(Debug)]
pub struct Volume {
    // Unmounted before the folder under it is removed.
    _session: BackgroundSession,
    folder: TempDir,
    disk: Arc<Disk>,
}

impl Volume {
    /// Mounts `disk` on a new folder inside of `parent`.
    ///
    /// # Errors
    /// The error of the mount: NotFound where the kernel has no FUSE, PermissionDenied where FUSE may not be used.
    pub fn mount(disk: Disk, parent: &Path) -> io::Result<Volume> {
        let disk = Arc::new(disk);
        let folder = tempfile::tempdir_in(parent)?;
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("lode-powercut".into()), MountOption::NoExec];
        let session = fuser::spawn_mount(OneFile { disk: Arc::clone(&disk) }, folder.path(), &config)?;
        Ok(Volume { _session: session, folder, disk })
    }

    /// Returns the path of the file.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join(NAME)
    }

    /// Returns the disk that holds the file's content.
    pub fn disk(&self) -> &Disk {
        &self.disk
    }
}

/// The file system.
#[derive(Debug)]
struct OneFile {
    disk: Arc<Disk>,
}

impl OneFile {
    fn attributes(&self, inode: INodeNo) -> Option<FileAttr> {
        let (kind, perm, size) = match inode {
            INodeNo::ROOT => (FileType::Directory, 0o755, 0),
            FILE => (FileType::RegularFile, 0o644, self.disk.size()),
            _ => return None,
        };
        Some(FileAttr {
            ino: inode,
            size,
            blocks: size.div_ceil(512),
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid: rustix::process::getuid().as_raw(),
            gid: rustix::process::getgid().as_raw(),
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }

    fn reply_attributes(&self, inode: INodeNo, reply: ReplyAttr) {
        match self.attributes(inode) {
            Some(attributes) => reply.attr(&CACHE_TIME, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }
}

impl Filesystem for OneFile {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // With this, the kernel keeps written bytes in its page cache, as it does for a file system on a disk. A write
        // with RWF_DSYNC then ends with FSYNC.
        config
            .add_capabilities(InitFlags::FUSE_WRITEBACK_CACHE)
            .map_err(|_| io::Error::from(io::ErrorKind::Unsupported))
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.attributes(FILE).filter(|_| name == NAME) {
            Some(attributes) => reply.entry(&CACHE_TIME, &attributes, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.reply_attributes(inode, reply);
    }

    /// Accepts the times, which the kernel keeps. The length is fixed.
    fn setattr(
        &self,
        _: &Request,
        inode: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        match size {
            Some(size) if size != self.disk.size() => reply.error(Errno::ENOSPC),
            _ => self.reply_attributes(inode, reply),
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        // A second open, such as that of /proc/self/fd, leaves the page cache alone.
        reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        at: u64,
        len: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        reply.data(&self.disk.read(at, len as usize));
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        at: u64,
        bytes: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.disk.write(at, bytes) {
            Ok(()) => reply.written(bytes.len() as u32),
            Err(_) => reply.error(Errno::EIO),
        }
    }

    /// Makes nothing durable: the kernel sends this at each close of a handle.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        match self.disk.persist() {
            Ok(()) => reply.ok(),
            Err(_) => reply.error(Errno::EIO),
        }
    }
}
