/* The traps of traps.h. */
#define _GNU_SOURCE
#include "traps.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#define INT3 0xcc
#define INSTRUCTION_MAX 15
/* Places of the table, a power of two, and traps at most, so that a search ends soon. */
#define PLACES ((size_t)1 << 16)
#define TRAPS_MAX (PLACES / 2)

/* The code that runs in place of an instruction: a copy of it, and a jump to the address after the jump. */
struct copy {
    unsigned char code[INSTRUCTION_MAX + 6 + sizeof(uint64_t)];
};

/* A store past the cache or the write-back of a line, for which a later fence waits; or such a fence. */
enum trap_kind { TRAP_STORE, TRAP_FENCE };

struct trap {
    uintptr_t address;
    enum trap_kind kind;
    struct copy *copy;
};

/* A place is free if its address is 0. */
static struct trap traps[PLACES];
static struct copy *copies;
static size_t copy_count;
static uint64_t fences, waiting_fences, counted;
/* A handler may not allocate a variable of the thread. */
static __thread int is_waiting __attribute__((tls_model("initial-exec")));

/* Returns the place of the trap at `address`, or the free one that it would have. */
static struct trap *place_of(uintptr_t address)
{
    size_t place = (address * 0x9e3779b97f4a7c15u) >> 48;
    while (traps[place % PLACES].address != 0 && traps[place % PLACES].address != address)
        place++;
    return &traps[place % PLACES];
}

static void pass(int signal_number, siginfo_t *information, void *context)
{
    (void)information;
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    const struct trap *trap = place_of((uintptr_t)registers[REG_RIP] - 1);
    if (trap->address == 0) {
        /* A trap of another maker ends the process, as it would without this handler. */
        signal(signal_number, SIG_DFL);
        raise(signal_number);
        return;
    }
    if (trap->kind == TRAP_STORE) {
        is_waiting = 1;
    } else {
        __atomic_fetch_add(&fences, 1, __ATOMIC_RELAXED);
        __atomic_fetch_add(&waiting_fences, is_waiting, __ATOMIC_RELAXED);
        is_waiting = 0;
    }
    registers[REG_RIP] = (greg_t)(uintptr_t)trap->copy;
}

/* Makes the table's memory and the handler, once. */
static const char *prepare(void)
{
    struct sigaction action = {.sa_sigaction = pass, .sa_flags = SA_SIGINFO | SA_RESTART};
    if (copies != NULL)
        return NULL;
    void *memory = mmap(NULL, TRAPS_MAX * sizeof(struct copy), PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return "no memory for code";
    if (sigaction(SIGTRAP, &action, NULL) != 0)
        return "no handler of SIGTRAP";
    copies = memory;
    return NULL;
}

/* Returns NULL, or the reason why there is no trap. */
static const char *set(enum trap_kind kind, uintptr_t address, size_t len)
{
    const char *reason = prepare();
    struct trap *trap = place_of(address);
    unsigned char *instruction = (unsigned char *)address;
    if (reason != NULL || trap->address == address)
        return reason;
    if (copy_count == TRAPS_MAX || len == 0 || len > INSTRUCTION_MAX)
        return "too many traps, or no instruction";
    unsigned char *code = copies[copy_count].code;
    uint64_t next = address + len;
    memcpy(code, instruction, len);
    /* jmp *0(%rip) */
    memcpy(code + len, "\xff\x25\0\0\0", 6);
    memcpy(code + len + 6, &next, sizeof(next));
    *trap = (struct trap){address, kind, &copies[copy_count++]};
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *start = (void *)(address / page * page);
    /* The page may hold the code of mprotect itself. */
    if (mprotect(start, page, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
        return "the code can't be written";
    *instruction = INT3;
    return mprotect(start, page, PROT_READ | PROT_EXEC) != 0 ? "the code can't be protected again" : NULL;
}

uint64_t trap_counted(void)
{
    return counted;
}

void trap_run(const char *work, size_t count, uint64_t stamp)
{
    const char *reason = NULL;
    if (strcmp(work, "traps-store") == 0)
        reason = set(TRAP_STORE, stamp, count);
    else if (strcmp(work, "traps-fence") == 0)
        reason = set(TRAP_FENCE, stamp, count);
    else if (strcmp(work, "traps-fences") == 0)
        counted = __atomic_load_n(&fences, __ATOMIC_RELAXED);
    else if (strcmp(work, "traps-waiting") == 0)
        counted = __atomic_load_n(&waiting_fences, __ATOMIC_RELAXED);
    else
        reason = "no such work";
    if (reason != NULL) {
        fprintf(stderr, "%s: %s\n", work, reason);
        exit(1);
    }
}
