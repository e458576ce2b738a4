/*
 * Takes calls one instruction at a time, and notes the order of those that make stores durable:
 *
 *   w2      two lines written back, by CLWB, CLFLUSHOPT or CLFLUSH
 *   n128    128 bytes stored past the cache
 *   f       a fence
 *   m       a call of msync(2)
 *   s       a call of fsync(2) or fdatasync(2)
 *
 * The trap flag of the CPU raises SIGTRAP after each instruction, so the program counts what the library really executes.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static char trace[4096];
static size_t trace_len;
static char kind;
static unsigned long amount;
/* The sums of a call: of write-backs, bytes past the cache, fences and system calls. */
static unsigned long sums[128];

static void end_run(void)
{
    if (kind != 0 && trace_len < sizeof(trace) - 32)
        trace_len += (size_t)snprintf(trace + trace_len, 32, kind == 'f' ? " f" : " %c%lu", kind, amount);
    kind = 0;
    amount = 0;
}

static void add(char of, unsigned long more)
{
    if (kind != of || of == 'f')
        end_run();
    kind = of;
    amount += more;
    sums[(int)of] += more;
}

/* Looks at the instruction that comes next. Intel SDM vol. 2: prefixes, VEX, EVEX, then the opcode. */
static void on_step(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info;
    const unsigned char *at = (const unsigned char *)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    if (at[0] == 0x62 && at[4] == 0xe7) {
        add('n', 16u << (at[3] >> 5 & 3));
        return;
    }
    if (at[0] == 0xc5 && at[2] == 0xe7) {
        add('n', at[1] & 4 ? 32 : 16);
        return;
    }
    if (at[0] == 0xc4 && at[3] == 0xe7) {
        add('n', at[2] & 4 ? 32 : 16);
        return;
    }
    if (at[0] == 0x0f && at[1] == 0x05) {
        long call = (long)((ucontext_t *)context)->uc_mcontext.gregs[REG_RAX];
        if (call == SYS_msync)
            add('m', 1);
        else if (call == SYS_fsync || call == SYS_fdatasync)
            add('s', 1);
        return;
    }
    int has_66 = at[0] == 0x66;
    at += has_66;
    int is_wide = (at[0] & 0xf8) == 0x48;
    at += (at[0] & 0xf0) == 0x40;
    if (at[0] != 0x0f)
        return;
    int extension = at[2] >> 3 & 7, is_memory = at[2] >> 6 != 3;
    if (at[1] == 0xe7 && has_66)
        add('n', 16);
    else if (at[1] == 0xc3)
        add('n', is_wide ? 8 : 4);
    else if (at[1] == 0xae && is_memory && (extension == 7 || (has_66 && extension == 6)))
        add('w', 1);
    else if (at[1] == 0xae && !is_memory && extension >= 6)
        add('f', 1);
}

#define STEP(call)                                                                                                     \
    do {                                                                                                               \
        trace_len = 0;                                                                                                 \
        trace[0] = 0;                                                                                                  \
        memset(sums, 0, sizeof(sums));                                                                                 \
        __asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");                                     \
        call;                                                                                                          \
        __asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" ::: "memory", "cc");                                   \
        end_run();                                                                                                     \
    } while (0)

/* Returns 0 if the steps are noted from now on. */
static int note_steps(void)
{
    struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
    return sigaction(SIGTRAP, &action, NULL);
}
