//! The remedy of an errno, where a call has no better one.

/// Returns the words of a remedy that end the message of a failed system call.
pub fn remedy_of(errno: i32) -> &'static str {
    match errno {
        libc::ENOENT => "the file, or a folder of its path, is missing: look for it, or create it first",
        libc::ENOTDIR => "the path goes through a file: name a folder there",
        libc::EISDIR => "it is a folder: name a file in it",
        libc::ELOOP => "a link in the path leads back to itself: remove that link",
        libc::ENAMETOOLONG => "choose a shorter path",
        libc::EEXIST => "choose another name, or remove what is there",
        libc::EACCES | libc::EPERM => "give the program's user that permission",
        libc::EROFS => "mount the file system for writing",
        libc::EBADF => "pass a descriptor that is open for this",
        libc::EFAULT => "pass the address of memory that the program has",
        libc::EINVAL => "pass arguments in their range, and a file that can do it",
        libc::EOPNOTSUPP => "the file, or its file system, can't do it: use another one",
        libc::ENOMEM => "the process has too little memory, or too few addresses: see `ulimit -v`",
        libc::ENOSPC | libc::EDQUOT => "free space on the file system",
        libc::EFBIG => "choose a smaller size, or raise the limit: see `ulimit -f`",
        libc::EMFILE | libc::ENFILE => "close files, or raise the limit: see `ulimit -n`",
        libc::EAGAIN => "a limit of the process or of the system is reached: see `ulimit -l`",
        libc::EBUSY | libc::ETXTBSY => "another process has it: wait until that ends",
        libc::EINTR => "a signal interrupted it: make the call again",
        libc::ENODEV | libc::ENXIO => {
            "there is no such device, or its file system maps no files: use another one"
        }
        libc::EIO => "look for errors of the device in the kernel's log",
        _ => "the manual page of the system call tells the reason",
    }
}
