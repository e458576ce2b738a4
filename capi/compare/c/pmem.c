/*
 * Draws sequences of calls of libpmem from a seed, takes them, and prints what each answered.
 *
 *   pmem SEED FIRST COUNT [STEP...]
 *
 * takes the sequences from FIRST on, in the current folder, which must be empty; with steps only those of each sequence.
 * The program is compiled against PMDK's headers and run on two libraries; equal output is the test.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <libpmem.h>
#include "sequences.h"

#define STEPS 5
#define SLOTS 4
#define AREA (64 * 1024)

/* Mappings of the sequence, and memory that the library did not map. */
static struct {
    char *start;
    size_t len;
} slots[SLOTS];
static char *area;

static const size_t file_lengths[] = {0, 1, 64, 4095, 4096, 4097, 10000, 16384, 40000, 65536, 65536, 100000, (2 << 20) + 5};

/* The message is the last part of a line: the other library's may go on after it. */
static void tell(long result, int error)
{
    printf(" = %ld errno %d", result, error);
    if (error != 0 || result < 0)
        printf(" message %s", pmem_errormsg());
}

/* A place for a flush or a copy with room for `len` bytes, or a bad one. */
static char *place(size_t len, int *is_bad)
{
    *is_bad = 0;
    uint64_t which = below(40), slot = below(SLOTS), offset = next();
    if (which == 0) {
        *is_bad = 1;
        return NULL;
    }
    char *start = area;
    size_t room = AREA;
    if (slots[slot].start != NULL && slots[slot].len >= len + 128 && which < 30) {
        start = slots[slot].start;
        room = slots[slot].len;
    }
    return start + offset % (room - len);
}

static const char *name_of(const char *at)
{
    static char text[64];
    if (at == NULL)
        return "null";
    if (at >= area && at < area + AREA) {
        snprintf(text, sizeof(text), "area+%zu", (size_t)(at - area));
        return text;
    }
    for (int slot = 0; slot < SLOTS; slot++) {
        if (slots[slot].start != NULL && at >= slots[slot].start && at <= slots[slot].start + slots[slot].len) {
            snprintf(text, sizeof(text), "slot%d+%zu", slot, (size_t)(at - slots[slot].start));
            return text;
        }
    }
    return "elsewhere";
}

static void show_hash(const char *at, size_t len)
{
    CALL(printf(" hash %016lx", hash((const unsigned char *)at, len)));
}

static void map_file(void)
{
    static char too_long[5000];
    memset(too_long, 'n', sizeof(too_long) - 1);
    static const char *const good[] = {"f0", "f1", "f2"};
    const char *const bad[] = {"", ".", "missing/f", "f0/f", "/dev/null", "/dev/zero", "loop", too_long, "fifo", NULL};
    int is_bad = below(10) == 0;
    const char *path = is_bad ? bad[below(COUNT(bad))] : good[below(COUNT(good))];
    static const int usual[] = {0, PMEM_FILE_CREATE, PMEM_FILE_CREATE | PMEM_FILE_SPARSE,
        PMEM_FILE_CREATE | PMEM_FILE_EXCL, PMEM_FILE_CREATE | PMEM_FILE_TMPFILE,
        PMEM_FILE_CREATE | PMEM_FILE_TMPFILE | PMEM_FILE_EXCL | PMEM_FILE_SPARSE};
    int flags = below(8) == 0 ? (int)below(40) : usual[below(COUNT(usual))];
    size_t len = file_lengths[below(COUNT(file_lengths))];
    if ((flags & PMEM_FILE_CREATE) == 0 && below(8) != 0)
        len = 0;
    if (below(30) == 0)
        len = below(2) ? (size_t)-1 : (size_t)1 << 46;
    if (!is_bad && (flags & PMEM_FILE_TMPFILE) && below(8) != 0)
        path = ".";
    static const mode_t modes[] = {0600, 0644, 0, 0777};
    mode_t mode = modes[below(COUNT(modes))];
    int outs = (int)below(4), slot = (int)below(SLOTS);
    size_t mapped = 12345;
    int is_pmem = 77;
    char *start = NULL;
    printf("map_file \"%.20s\" %zu %x %o", path == NULL ? "(null)" : path, len, flags, mode);
    CALL(start = pmem_map_file(path, len, flags, mode, outs & 1 ? &mapped : NULL, outs & 2 ? &is_pmem : NULL));
    int error = errno;
    printf(" mapped %zu is_pmem %d", mapped, is_pmem);
    if (start == NULL) {
        tell(0, error);
        return;
    }
    struct stat stat_;
    if ((outs & 1) == 0)
        mapped = len != 0 ? len : stat(path, &stat_) == 0 ? (size_t)stat_.st_size : 0;
    printf(" aligned %d", (uintptr_t)start % (2 << 20) == 0);
    /* A huge sparse mapping is not kept, since its content can't be compared. */
    if (slots[slot].start != NULL || mapped > (64 << 20)) {
        CALL(printf(" unmap %d", pmem_unmap(start, mapped)));
        return;
    }
    slots[slot].start = start;
    slots[slot].len = mapped;
    printf(" slot %d is_pmem %d", slot, pmem_is_pmem(start, mapped));
}

static void unmap(void)
{
    int slot = (int)below(SLOTS), how = (int)below(6), result = 0;
    printf("unmap %d %d", slot, how);
    char *start = slots[slot].start;
    size_t len = slots[slot].len;
    if (start == NULL) {
        CALL(result = pmem_unmap((void *)4097, 4096));
    } else if (how == 0) {
        CALL(result = pmem_unmap(start + 1, 4096));
    } else if (how == 1) {
        CALL(result = pmem_unmap(start, 0));
    } else if (how == 2) {
        CALL(result = pmem_unmap(start, (size_t)-1));
    } else if (how == 3 && len > 8192) {
        CALL(result = pmem_unmap(start, 4096));
        slots[slot].start += 4096;
        slots[slot].len -= 4096;
    } else {
        CALL(result = pmem_unmap(start, len));
        slots[slot].start = NULL;
    }
    tell(result, result == 0 ? 0 : errno);
}

static void flush(void)
{
    size_t len = lengths[below(COUNT(lengths))];
    int is_bad, how = (int)below(5), result = 0;
    char *at = place(len, &is_bad);
    if (is_bad && len == 0)
        len = 8;
    printf("flush %d %s %zu", how, name_of(at), len);
    if (!is_bad)
        CALL(at[0]++);
    switch (how) {
    case 0:
        CALL(pmem_persist(at, len));
        break;
    case 1:
        CALL(pmem_flush(at, len));
        pmem_drain();
        break;
    case 2:
        CALL(pmem_deep_flush(at, len));
        break;
    case 3:
        CALL(result = pmem_deep_persist(at, len));
        tell(result, result == 0 ? 0 : errno);
        break;
    default:
        CALL(result = pmem_deep_drain(at, len));
        tell(result, result == 0 ? 0 : errno);
    }
}

static void msync_(void)
{
    size_t len = lengths[below(COUNT(lengths))];
    int is_bad, result = 0;
    char *at = place(len, &is_bad);
    if (below(8) == 0)
        len = (size_t)-8192;
    printf("msync %s %zu", name_of(at), len);
    CALL(result = pmem_msync(at, len));
    tell(result, result == 0 ? 0 : errno);
}

static unsigned draw_flags(void)
{
    static const unsigned known[] = {0, PMEM_F_MEM_NODRAIN, PMEM_F_MEM_NONTEMPORAL, PMEM_F_MEM_TEMPORAL, PMEM_F_MEM_WC,
        PMEM_F_MEM_WB, PMEM_F_MEM_NOFLUSH, PMEM_F_MEM_NODRAIN | PMEM_F_MEM_WC, PMEM_F_MEM_NODRAIN | PMEM_F_MEM_NOFLUSH};
    return below(8) == 0 ? (unsigned)below(256) : known[below(COUNT(known))];
}

static void copy(void)
{
    size_t len = lengths[below(COUNT(lengths))];
    int bad_into, bad_from, how = (int)below(6);
    char *into = place(len, &bad_into), *from = place(len, &bad_from);
    if (!bad_into && !bad_from && below(3) == 0) {
        /* Ranges that overlap, in both directions. */
        size_t shift = below(200);
        from = below(2) && (size_t)(into - area) + shift + len < AREA && into >= area && into < area + AREA
            ? into + shift : into;
    }
    unsigned flags = draw_flags();
    char *result = NULL;
    printf("copy %d %s", how, name_of(into));
    printf(" %s %zu %x", name_of(from), len, flags);
    switch (how) {
    case 0:
        CALL(result = pmem_memcpy(into, from, len, flags));
        break;
    case 1:
        CALL(result = pmem_memmove(into, from, len, flags));
        break;
    case 2:
        CALL(result = pmem_memcpy_persist(into, from, len));
        break;
    case 3:
        CALL(result = pmem_memmove_persist(into, from, len));
        break;
    case 4:
        CALL(result = pmem_memcpy_nodrain(into, from, len));
        break;
    default:
        CALL(result = pmem_memmove_nodrain(into, from, len));
    }
    pmem_drain();
    printf(" same %d", result == into);
    if (!bad_into)
        show_hash(into, len);
}

static void fill(void)
{
    size_t len = lengths[below(COUNT(lengths))];
    int is_bad, how = (int)below(3), byte = (int)below(1000) - 300;
    char *into = place(len, &is_bad), *result = NULL;
    unsigned flags = draw_flags();
    printf("fill %d %s %d %zu %x", how, name_of(into), byte, len, flags);
    switch (how) {
    case 0:
        CALL(result = pmem_memset(into, byte, len, flags));
        break;
    case 1:
        CALL(result = pmem_memset_persist(into, byte, len));
        break;
    default:
        CALL(result = pmem_memset_nodrain(into, byte, len));
    }
    pmem_drain();
    printf(" same %d", result == into);
    if (!is_bad)
        show_hash(into, len);
}

static void is_pmem(void)
{
    size_t len = lengths[below(COUNT(lengths))];
    int is_bad, result = 0;
    char *at = place(len, &is_bad);
    if (below(10) == 0)
        len = (size_t)-1;
    printf("is_pmem %s %zu", name_of(at), len);
    CALL(result = pmem_is_pmem(at, len));
    tell(result, errno);
}

static void versions(void)
{
    unsigned major = (unsigned)below(3), minor = (unsigned)below(4);
    const char *answer = pmem_check_version(major, minor);
    printf("versions %u %u hw_drain %d auto_flush %d check message %s", major, minor, pmem_has_hw_drain(),
        pmem_has_auto_flush(), answer == NULL ? "none" : answer);
}

static void *fail_elsewhere(void *argument)
{
    (void)argument;
    printf(" first %zu", strlen(pmem_errormsg()));
    void *start = pmem_map_file("missing/elsewhere", 0, 0, 0, NULL, NULL);
    int error = errno;
    printf(" then %d errno %d", start != NULL, error);
    return NULL;
}

static void thread(void)
{
    pthread_t other;
    printf("thread");
    void *start = pmem_map_file("missing/here", 0, 0, 0, NULL, NULL);
    if (pthread_create(&other, NULL, fail_elsewhere, NULL) == 0)
        pthread_join(other, NULL);
    printf(" here %d message %s", start != NULL, pmem_errormsg());
}

/* A child stores to the mappings and ends without a word; its parent sees the stores. */
static void fork_(void)
{
    int slot = (int)below(SLOTS), status = -1;
    char byte = (char)next();
    printf("fork %d", slot);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int answers = pmem_is_pmem(area, 64);
        if (slots[slot].start != NULL && slots[slot].len != 0) {
            CALL(pmem_memset_persist(slots[slot].start, byte, slots[slot].len < 300 ? slots[slot].len : 300));
            answers += 2 * pmem_is_pmem(slots[slot].start, slots[slot].len);
        }
        size_t mapped;
        void *start = pmem_map_file("f0", 0, 0, 0, &mapped, NULL);
        answers += 4 * (start != NULL && pmem_unmap(start, mapped) == 0);
        _exit(answers);
    }
    waitpid(child, &status, 0);
    printf(" status %d", status);
    if (slots[slot].start != NULL && slots[slot].len != 0)
        CALL(printf(" byte %d", slots[slot].start[0]));
}

/* A file that is cut while it is mapped: a store past its end is the program's own signal. */
static void cut(void)
{
    int slot = (int)below(SLOTS);
    size_t mapped;
    printf("cut");
    char *start = pmem_map_file("cut", 16384, PMEM_FILE_CREATE, 0600, &mapped, NULL);
    if (start == NULL) {
        printf(" errno %d", errno);
        return;
    }
    if (truncate("cut", 4096) != 0)
        printf(" truncate");
    switch (slot) {
    case 0:
        CALL(pmem_memset_persist(start + 8192, 1, 512));
        break;
    case 1:
        CALL(pmem_memcpy_persist(start + 8192, area, 64));
        break;
    case 2:
        CALL(pmem_memcpy(area, start + 8192, 16, PMEM_F_MEM_NOFLUSH));
        break;
    default:
        CALL(printf(" msync %d", pmem_msync(start, mapped)));
    }
    CALL(pmem_memset_persist(start, 7, 300));
    show_hash(start, 4096);
    CALL(printf(" unmap %d", pmem_unmap(start, mapped)));
    unlink("cut");
}

static void (*const calls[])(void) = {map_file, map_file, map_file, unmap, flush, flush, msync_, copy, copy, copy, fill, fill,
    is_pmem, versions, thread, cut, fork_};

static void show_file(const char *name)
{
    int file = open(name, O_RDONLY);
    if (file < 0)
        return;
    struct stat stat_;
    fstat(file, &stat_);
    size_t len = (size_t)stat_.st_size;
    printf(" %s %zu mode %o", name, len, stat_.st_mode);
    if (len > 0 && len <= (64 << 20)) {
        unsigned char *bytes = mmap(NULL, len, PROT_READ, MAP_SHARED, file, 0);
        if (bytes != MAP_FAILED) {
            printf(" hash %016lx", hash(bytes, len < 65536 ? len : 65536));
            munmap(bytes, len);
        }
    }
    close(file);
    unlink(name);
}

static void sequence(uint64_t seed, uint64_t number, int chosen, char **steps)
{
    for (size_t at = 0; at < AREA; at++)
        area[at] = (char)(at * 7 + at / 256);
    for (uint64_t step = 0; step < STEPS; step++) {
        if (!is_chosen(step, chosen, steps))
            continue;
        begin_step(seed, number, step);
        uint64_t which = below(600);
        /* Forks and threads are dear, so they are rare. */
        size_t call = which < 8 ? 14 : which < 16 ? 16 : which < 36 ? 15 : which % 14;
        printf("%lu.%lu ", number, step);
        calls[call]();
        printf("\n");
    }
    for (int slot = 0; slot < SLOTS; slot++) {
        if (slots[slot].start != NULL)
            pmem_unmap(slots[slot].start, slots[slot].len);
        slots[slot].start = NULL;
    }
    printf("%lu end area %016lx", number, hash((unsigned char *)area, AREA));
    show_file("f0");
    show_file("f1");
    show_file("f2");
    printf("\n");
}

int main(int count, char **arguments)
{
    if (count < 4)
        return 2;
    static char out[1 << 16];
    setvbuf(stdout, out, _IOFBF, sizeof(out));
    uint64_t seed = strtoul(arguments[1], NULL, 10), first = strtoul(arguments[2], NULL, 10);
    uint64_t end = first + strtoul(arguments[3], NULL, 10);
    area = mmap(NULL, AREA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    catch_faults();
    umask(022);
    if (symlink("loop", "loop") != 0 || mkfifo("fifo", 0600) != 0)
        return 2;
    for (uint64_t number = first; number < end; number++)
        sequence(seed, number, count - 4, arguments + 4);
    return 0;
}
