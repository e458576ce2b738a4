/*
 * Kills a program at a moment that does not depend on the speed of the machine.
 *
 *   kill_at CALLS STEPS PROGRAM [ARGUMENT...]
 *
 * runs the program until so many calls of the kernel that change files or names have returned, then so many instructions, and
 * sends SIGKILL. A program that ends before that is not killed. The last line of the output is `killed` or `ended STATUS`, and
 * how many such calls have returned, and of them those of msync(2), and of fsync(2) and fdatasync(2). Status 3: the kernel traces
 * no program here.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* The status of a program that can't be traced. */
#define UNTRACED 3

/* Calls that have returned: of all that change something, of msync(2), and of those that sync a file. */
static unsigned long returned, mappings, files;

/* Calls that change a file or a name, whatever their arguments. */
static const long changing[] = {
    SYS_ftruncate, SYS_fallocate, SYS_fsync, SYS_fdatasync, SYS_sync_file_range, SYS_copy_file_range, SYS_pwrite64, SYS_pwritev,
    SYS_renameat, SYS_renameat2, SYS_linkat, SYS_unlinkat, SYS_symlinkat, SYS_mkdirat, SYS_fchmod, SYS_fchmodat, SYS_fchown,
    SYS_msync,
#ifdef SYS_rename
    SYS_rename, SYS_link, SYS_unlink, SYS_symlink, SYS_mkdir, SYS_rmdir, SYS_chmod, SYS_creat,
#endif
};

/* Returns true for a call that changes something which is there after the process. */
static int is_change(const struct __ptrace_syscall_info *info)
{
    const __uint64_t *arguments = info->entry.args;
    long number = (long)info->entry.nr;
    if (number == SYS_openat)
        return (arguments[2] & O_CREAT) != 0;
    if (number == SYS_write || number == SYS_writev)
        return arguments[0] > 2;
    if (number == SYS_mmap)
        return (arguments[3] & MAP_SHARED) != 0 && (arguments[2] & PROT_WRITE) != 0;
    for (size_t index = 0; index < sizeof(changing) / sizeof(changing[0]); index++) {
        if (number == changing[index])
            return 1;
    }
    return 0;
}

static int report(int status)
{
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        printf("\nkilled");
    else
        printf("\nended %d", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    printf(" %lu %lu %lu\n", returned, mappings, files);
    return 0;
}

/* Steps on, and kills. */
static int finish(pid_t child, unsigned long steps)
{
    int status = 0;
    for (unsigned long step = 0; step < steps; step++) {
        if (ptrace(PTRACE_SINGLESTEP, child, 0, 0) != 0 || waitpid(child, &status, 0) != child)
            return 4;
        if (!WIFSTOPPED(status))
            return report(status);
    }
    kill(child, SIGKILL);
    if (waitpid(child, &status, 0) != child)
        return 4;
    return report(status);
}

static int follow(pid_t child, unsigned long calls, unsigned long steps)
{
    int status, signal = 0;
    /* The call that changes something and has not returned. */
    long changing_call = -1;
    while (ptrace(PTRACE_SYSCALL, child, 0, signal) == 0 && waitpid(child, &status, 0) == child) {
        signal = 0;
        if (!WIFSTOPPED(status))
            return report(status);
        if (WSTOPSIG(status) != (SIGTRAP | 0x80)) {
            signal = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
            continue;
        }
        struct __ptrace_syscall_info info;
        if (ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof(info), &info) <= 0)
            return UNTRACED;
        if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
            changing_call = is_change(&info) ? (long)info.entry.nr : -1;
        } else if (changing_call >= 0) {
            mappings += changing_call == SYS_msync;
            files += changing_call == SYS_fsync || changing_call == SYS_fdatasync;
            changing_call = -1;
            if (++returned == calls)
                return finish(child, steps);
        }
    }
    return 4;
}

int main(int count, char **arguments)
{
    if (count < 4)
        return 2;
    pid_t child = fork();
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, 0, 0) != 0)
            _exit(UNTRACED);
        raise(SIGSTOP);
        execvp(arguments[3], arguments + 3);
        _exit(5);
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFSTOPPED(status))
        return UNTRACED;
    if (ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL | PTRACE_O_TRACEEXEC) != 0)
        return UNTRACED;
    /* A program that hangs is a failure, too: it ends with this one. */
    alarm(600);
    return follow(child, strtoul(arguments[1], NULL, 10), strtoul(arguments[2], NULL, 10));
}
