/*
 * Takes a library to where a system call fails, where mappings touch each other, or where a signal handler interrupts it,
 * and prints what the program sees. The first argument names the case.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <libpmem2.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define PAGE 4096
#define PAGES 64

static struct pmem2_source *source, *memory;
static struct pmem2_config *config;
static struct pmem2_map *map;
static pmem2_persist_fn persist;
static char *start;

/* Calls of the trapped number, the one of them that fails, and its error. The others do nothing. */
static volatile int calls, failing, error;

static void answer(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info;
    mcontext_t *registers = &((ucontext_t *)context)->uc_mcontext;
    long result = calls++ == failing ? -error : 0;
#if defined(__x86_64__)
    registers->gregs[REG_RAX] = result;
#else
    registers->regs[0] = (unsigned long)result;
#endif
}

/* Answers each call of this number from now on. */
static void trap(unsigned number, int which, int how)
{
    struct sigaction action = {.sa_sigaction = answer, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigaction(SIGSYS, &action, NULL);
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {4, code};
    calls = 0;
    failing = which;
    error = how;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
        perror("seccomp");
}

extern void *__libc_malloc(size_t);
static volatile long allocations;
static volatile int has_no_memory;

/* Takes the place of the C library's function, for the library, too. */
void *malloc(size_t len)
{
    allocations++;
    if (has_no_memory) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_malloc(len);
}

static void tell(const char *call, int result)
{
    printf("%s = %d errno %d\n", call, result, errno);
    errno = 0;
}

#define TELL(call) (errno = 0, tell(#call, call))

static void touching_mappings(void)
{
    struct pmem2_map *empty, *other, *second;
    struct pmem2_vm_reservation *reservation;
    TELL(pmem2_map_from_existing(&empty, source, start, 0, PMEM2_GRANULARITY_PAGE));
    TELL(pmem2_map_from_existing(&other, source, start + PAGE, 0, PMEM2_GRANULARITY_PAGE));
    TELL(pmem2_map_from_existing(&other, source, start + PAGES * PAGE - 10, 100, PMEM2_GRANULARITY_PAGE));
    TELL(pmem2_vm_reservation_new(&reservation, NULL, 128 * PAGE));
    TELL(pmem2_config_set_vm_reservation(config, reservation, 0));
    TELL(pmem2_map_new(&other, config, source));
    TELL(pmem2_map_from_existing(&empty, source, pmem2_map_get_address(other), 0, PMEM2_GRANULARITY_PAGE));
    TELL(pmem2_map_new(&second, config, source));
    TELL(pmem2_vm_reservation_delete(&reservation));
    trap(SYS_msync, -1, 0);
    for (int page = 0; page < 3; page++) {
        calls = 0;
        persist(start + page * PAGE, 8);
        printf("calls of msync %d\n", calls);
    }
}

static volatile long handled;

static void persist_in_handler(int signal)
{
    (void)signal;
    handled++;
    persist(start, 8);
}

/* Runs the call, and a handler that persists 8 bytes, until the handler has run so often. */
static void interrupt(void (*call)(void))
{
    struct sigaction action = {.sa_handler = persist_in_handler};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval every = {{0, 100}, {0, 100}}, none = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &every, NULL);
    while (handled < 1500)
        call();
    setitimer(ITIMER_REAL, &none, NULL);
    printf("each call returned\n");
}

/* No mapping has these bytes, so the calls are the library's work alone. */
static void persist_nothing(void)
{
    for (int times = 0; times < 100; times++)
        persist(start, 8);
}

static void no_memory(void)
{
    struct pmem2_config *other;
    pmem2_errormsg();
    has_no_memory = 1;
    errno = 0;
    int result = pmem2_config_new(&other), found = errno;
    has_no_memory = 0;
    printf("%d %d: %.6s\n", result, found, pmem2_errormsg());
}

static void count_allocations(void)
{
    allocations = 0;
    persist(start + 5, 3 * PAGE);
    persist(start - PAGE, PAGE);
    printf("allocations %ld\n", allocations);
}

static void taken_place(void)
{
    struct pmem2_vm_reservation *reservation;
    struct pmem2_map *existing, *other;
    TELL(pmem2_vm_reservation_new(&reservation, NULL, 128 * PAGE));
    char *place = pmem2_vm_reservation_get_address(reservation);
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, pair[2];
    if (mmap(place + PAGE, PAGE, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED || pipe(pair) != 0)
        perror("mmap");
    strcpy(place + PAGE, "the program's");
    TELL(pmem2_map_from_existing(&existing, memory, place + PAGE, PAGE, PMEM2_GRANULARITY_BYTE));
    TELL(pmem2_config_set_vm_reservation(config, reservation, 0));
    TELL(pmem2_map_new(&other, config, source));
    printf("bytes left %zd\n", write(pair[1], place + PAGE, 13));
}

/* The second munmap fails. */
static void shrink(void)
{
    struct pmem2_vm_reservation *reservation;
    TELL(pmem2_vm_reservation_new(&reservation, NULL, 1024 * PAGE));
    char *first = pmem2_vm_reservation_get_address(reservation);
    trap(SYS_munmap, 1, ENOMEM);
    TELL(pmem2_vm_reservation_shrink(reservation, 0, 512 * PAGE));
    printf("size %zu at %td\n", pmem2_vm_reservation_get_size(reservation),
           (char *)pmem2_vm_reservation_get_address(reservation) - first);
}

/* A library that hangs is killed. */
static void limit_time(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
    struct itimerspec limit = {.it_value = {100, 0}};
    timer_t timer;
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 || timer_settime(timer, 0, &limit, NULL) != 0)
        perror("timer");
}

int main(int count, char **arguments)
{
    const char *name = count > 1 ? arguments[1] : "";
    limit_time();
    setvbuf(stdout, NULL, _IONBF, 0);
    int file = open("file", O_RDWR | O_CREAT, 0600);
    if (ftruncate(file, PAGES * PAGE) != 0 || pmem2_source_from_fd(&source, file) != 0
        || pmem2_source_from_anon(&memory, PAGE) != 0 || pmem2_config_new(&config) != 0
        || pmem2_config_set_required_store_granularity(config, PMEM2_GRANULARITY_PAGE) != 0
        || pmem2_map_new(&map, config, source) != 0)
        return 2;
    start = pmem2_map_get_address(map);
    persist = pmem2_get_persist_fn(map);
    if (strcmp(name, "touching mappings") == 0) {
        touching_mappings();
    } else if (strcmp(name, "EINTR") == 0) {
        trap(SYS_msync, 0, EINTR);
        persist(start, 8);
        printf("returned after %d\n", calls);
    } else if (strcmp(name, "ENOMEM") == 0) {
        trap(SYS_msync, 0, ENOMEM);
        persist(start, 8);
        printf("returned\n");
    } else if (strcmp(name, "EIO") == 0) {
        trap(SYS_msync, 0, EIO);
        persist(start, 8);
        printf("returned\n");
    } else if (strcmp(name, "unmapped") == 0) {
        munmap(start, PAGE);
        persist(start, 8);
        printf("returned\n");
    } else if (strcmp(name, "interrupted persist") == 0) {
        start -= 1 << 20;
        interrupt(persist_nothing);
    } else if (strcmp(name, "allocations") == 0) {
        count_allocations();
    } else if (strcmp(name, "no memory") == 0) {
        no_memory();
    } else if (strcmp(name, "taken place") == 0) {
        taken_place();
    } else if (strcmp(name, "shrink") == 0) {
        shrink();
    } else {
        return 2;
    }
    return 0;
}
