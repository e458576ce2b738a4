/*
 * Draws sequences of calls of libpmemlog from a seed, takes them, and prints what each answered.
 *
 *   pmemlog SEED FIRST COUNT [STEP...]
 *
 * takes the sequences from FIRST on, in the current folder, which must be empty; with steps only those of each sequence.
 * The program is compiled against PMDK's headers and run on two libraries; equal output is the test.
 */
#include "pools.h"
#include "sets.h"
#include <libpmemlog.h>

#define STEPS 8
#define SLOTS 2
#define AREA (3 << 20)

static PMEMlogpool *slots[SLOTS];
static unsigned char *area;

/* Sizes of the parts of sets. */
static const char *const part_sizes[] = {"2M", "3M", "2105344B"};
static const size_t part_lens[] = {2 << 20, 2 << 20, 3 << 20, 2105344, 4096, (2 << 20) - 1};
static const size_t sizes[] = {0, 0, 0, 1, 4096, (2 << 20) - 1, (2 << 20) - 4096, 2 << 20, 2 << 20, 2 << 20, (2 << 20) + 1,
    (2 << 20) + 4097, 3 << 20};

/* The message is the last part of a line: the other library's may go on after it. */
static void tell(int is_failed, int error)
{
    if (is_failed)
        printf(" errno %d message %s", error, pmemlog_errormsg());
}

static void keep(PMEMlogpool *pool, int error)
{
    printf(" = %d", pool != NULL);
    tell(pool == NULL, error);
    if (pool == NULL)
        return;
    for (int slot = 0; slot < SLOTS; slot++) {
        if (slots[slot] == NULL) {
            slots[slot] = pool;
            return;
        }
    }
    pmemlog_close(pool);
}

static void create(void)
{
    const char *path = draw_path();
    size_t len = sizes[below(COUNT(sizes))];
    if (below(30) == 0)
        len = below(2) ? (size_t)-1 : (size_t)1 << 46;
    mode_t mode = draw_mode();
    PMEMlogpool *pool = NULL;
    int error = 0;
    if (strcmp(path, SET) == 0) {
        need_set(part_sizes);
        if (below(10) != 0)
            len = 0;
    }
    printf("create \"%.20s\" %zu %o", path, len, mode);
    CALL(pool = pmemlog_create(path, len, mode); error = errno);
    keep(pool, error);
    /* A create that fails leaves PMDK's headers in files that were there. */
    if (pool == NULL && strcmp(path, SET) == 0 && error == EEXIST)
        remove_parts();
}

static void open_(void)
{
    const char *path = draw_path();
    PMEMlogpool *pool = NULL;
    int error = 0;
    if (strcmp(path, SET) == 0 && has_no_headers)
        return;
    printf("open \"%.20s\"", path);
    CALL(pool = pmemlog_open(path); error = errno);
    keep(pool, error);
}

static void check(void)
{
    const char *path = draw_path();
    int result = 0, error = 0;
    if (strcmp(path, SET) == 0 && has_no_headers)
        return;
    printf("check \"%.20s\"", path);
    CALL(result = pmemlog_check(path); error = errno);
    printf(" = %d", result);
    tell(result < 0, error);
}

/* An open pool; a new one if there is none. */
static PMEMlogpool *pool(void)
{
    int slot = (int)below(SLOTS);
    if (slots[slot] == NULL)
        slots[slot] = slots[1 - slot];
    if (slots[slot] == slots[1 - slot])
        slots[1 - slot] = NULL;
    if (slots[slot] == NULL) {
        const char *name = slot == 0 ? "p0" : "p1";
        slots[slot] = pmemlog_open(name);
        if (slots[slot] == NULL) {
            make_sparse(name, PMEMLOG_MIN_POOL);
            slots[slot] = pmemlog_create(name, 0, 0600);
        }
        if (slots[slot] == NULL)
            exit(3);
    }
    printf("pool %d ", slot);
    return slots[slot];
}

static void close_(void)
{
    int slot = (int)below(SLOTS);
    printf("close %d", slot);
    if (slots[slot] != NULL)
        pmemlog_close(slots[slot]);
    slots[slot] = NULL;
}

static size_t draw_len(void)
{
    static const size_t long_ones[] = {65536, 1 << 20, (2 << 20) - 8192, (2 << 20) - 8191, 3 << 20};
    return below(10) == 0 ? long_ones[below(COUNT(long_ones))] : lengths[below(COUNT(lengths))];
}

static void append(void)
{
    PMEMlogpool *to = pool();
    size_t len = draw_len(), at = below(200);
    if (below(40) == 0)
        len = (size_t)-1 >> below(3);
    int result = 0, error = 0;
    printf("append %zu %zu", at, len);
    CALL(result = pmemlog_append(to, area + at, len); error = errno);
    printf(" = %d tell %lld", result, pmemlog_tell(to));
    tell(result != 0, error);
}

static void appendv(void)
{
    PMEMlogpool *to = pool();
    struct iovec parts[70];
    static const int counts[] = {0, 1, 2, 3, 7, 64, 70};
    int count = counts[below(COUNT(counts))], result = 0, error = 0;
    for (int part = 0; part < count; part++) {
        size_t len = below(40) == 0 ? draw_len() : below(100);
        parts[part].iov_base = area + below(300);
        parts[part].iov_len = len;
        if (below(30) == 0) {
            parts[part].iov_base = NULL;
            parts[part].iov_len = 0;
        }
    }
    if (below(20) == 0)
        count = -(int)below(5);
    printf("appendv %d", count);
    CALL(result = pmemlog_appendv(to, parts, count); error = errno);
    printf(" = %d tell %lld", result, pmemlog_tell(to));
    tell(result != 0, error);
}

static void numbers(void)
{
    PMEMlogpool *of = pool();
    printf("numbers %zu %lld", pmemlog_nbyte(of), pmemlog_tell(of));
}

static void rewind_(void)
{
    PMEMlogpool *of = pool();
    printf("rewind");
    CALL(pmemlog_rewind(of));
    printf(" tell %lld", pmemlog_tell(of));
}

static struct {
    PMEMlogpool *pool;
    uint64_t hash;
    size_t chunks, len, last;
} walked;

static int visit(const void *bytes, size_t len, void *argument)
{
    walked.hash = walked.hash * 31 + hash(bytes, len);
    walked.chunks++;
    walked.len += len;
    walked.last = len;
    /* The calls that read are allowed here. */
    if (walked.chunks == 1)
        walked.hash += (uint64_t)pmemlog_tell(walked.pool) + pmemlog_nbyte(walked.pool);
    return walked.chunks != *(size_t *)argument;
}

static void show_walk(PMEMlogpool *of, size_t chunk, size_t end)
{
    memset(&walked, 0, sizeof(walked));
    walked.pool = of;
    CALL(pmemlog_walk(of, chunk, visit, &end));
    printf(" chunks %zu len %zu last %zu hash %016lx", walked.chunks, walked.len, walked.last, walked.hash);
}

static void walk(void)
{
    PMEMlogpool *of = pool();
    /* With chunks of nearly 2^64 bytes PMDK's offset wraps, and it goes on with other bytes. */
    static const size_t chunks[] = {0, 0, 1000, 4096, 64, 65536, (size_t)1 << 40};
    size_t chunk = chunks[below(COUNT(chunks))], end = below(5);
    printf("walk %zu %zu", chunk, end);
    show_walk(of, chunk, end);
}

static void ctl(void)
{
    settings((ctl_function *)pmemlog_ctl_get, (ctl_function *)pmemlog_ctl_set, (ctl_function *)pmemlog_ctl_exec,
        pmemlog_errormsg);
}

static void versions(void)
{
    unsigned major = (unsigned)below(3), minor = (unsigned)below(4);
    const char *answer = pmemlog_check_version(major, minor);
    printf("versions %u %u message %s", major, minor, answer == NULL ? "none" : answer);
}

static void *fail_elsewhere(void *argument)
{
    (void)argument;
    printf(" first %zu", strlen(pmemlog_errormsg()));
    int result = pmemlog_check("missing/elsewhere"), error = errno;
    printf(" then %d errno %d", result, error);
    return NULL;
}

static void thread(void)
{
    pthread_t other;
    printf("thread");
    PMEMlogpool *none = pmemlog_open("missing/here");
    if (pthread_create(&other, NULL, fail_elsewhere, NULL) == 0)
        pthread_join(other, NULL);
    printf(" here %d message %s", none != NULL, pmemlog_errormsg());
}

/* A child appends and ends without a word; its parent sees the bytes, and appends after them. */
static void fork_(void)
{
    PMEMlogpool *of = pool();
    size_t len = below(300), is_rewound = below(3) == 0;
    int status = -1;
    printf("fork %zu %zu", len, is_rewound);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        if (is_rewound)
            pmemlog_rewind(of);
        _exit(pmemlog_append(of, area + 100, len) == 0 ? 7 : 8);
    }
    waitpid(child, &status, 0);
    printf(" status %d tell %lld", status, pmemlog_tell(of));
    int result = pmemlog_append(of, area, 10);
    printf(" append %d", result);
    show_walk(of, 0, 0);
}

/* A file that is cut while it is open: an append past its end is the program's own signal. */
static void cut(void)
{
    static int result;
    result = 0;
    printf("cut");
    unlink("cut");
    PMEMlogpool *of = pmemlog_create("cut", PMEMLOG_MIN_POOL, 0600);
    if (of == NULL || truncate("cut", 12288) != 0) {
        printf(" errno %d", errno);
        return;
    }
    CALL(result = pmemlog_append(of, area, 100));
    printf(" append %d", result);
    CALL(result = pmemlog_append(of, area, 10000));
    printf(" append %d", result);
    /* Its lock is held for ever: the handle is not used again. */
    unlink("cut");
}

/* Memory of functions that the program sets. */
static void functions(void)
{
    int is_refused = below(2) == 0, error = 0;
    PMEMlogpool *of = NULL;
    printf("functions %d", is_refused);
    unlink("own");
    pmemlog_errormsg();
    pmemlog_set_funcs(own_malloc, own_free, own_realloc, own_strdup);
    made = freed = 0;
    is_refusing = is_refused;
    CALL(of = pmemlog_create("own", PMEMLOG_MIN_POOL, 0600); error = errno);
    is_refusing = 0;
    printf(" = %d errno %d", of != NULL, of == NULL ? error : 0);
    if (of != NULL) {
        printf(" append %d", pmemlog_append(of, area, 77));
        pmemlog_close(of);
    }
    if (!is_refused)
        printf(" used %d freed %d", made > 0, made == freed);
    pmemlog_set_funcs(NULL, NULL, NULL, NULL);
    printf(" file %d", unlink("own"));
}

static void close_all(void)
{
    for (int slot = 0; slot < SLOTS; slot++) {
        if (slots[slot] != NULL)
            pmemlog_close(slots[slot]);
        slots[slot] = NULL;
    }
}

static void file(void)
{
    /* PMDK maps an empty file, and ends by SIGBUS. */
    make_file(sizes + 3, COUNT(sizes) - 3);
}

static void damage_(void)
{
    close_all();
    damage(1);
}

static void set(void)
{
    make_set(part_sizes);
}

static void part(void)
{
    close_all();
    change_part(part_lens, COUNT(part_lens));
}

static void (*const calls[])(void) = {create, create, open_, open_, close_, check, append, append, append, append, appendv,
    appendv, numbers, rewind_, walk, walk, damage_, file, ctl, versions, set, part};
/* Calls that are dear, and so rare. */
static void (*const rare[])(void) = {thread, fork_, cut, functions};

static void show_file(const char *name)
{
    size_t len;
    unsigned char *bytes = show_header(name, &len);
    if (bytes != NULL) {
        printf(" descriptor %016lx data %016lx", hash(bytes + HEADER, 24), hash(bytes + 2 * HEADER, len - 2 * HEADER));
        munmap(bytes, len);
    }
    unlink(name);
}

static void sequence(uint64_t seed, uint64_t number, int chosen, char **steps)
{
    for (uint64_t step = 0; step < STEPS; step++) {
        if (!is_chosen(step, chosen, steps))
            continue;
        begin_step(seed, number, step);
        uint64_t which = below(400);
        printf("%lu.%lu ", number, step);
        if (which < 4 * COUNT(rare))
            rare[which / 4]();
        else
            calls[which % COUNT(calls)]();
        printf("\n");
    }
    close_all();
    printf("%lu end", number);
    show_files();
    static const char *const names[] = {"p0", "p1", "q0", "q1", "q2", "d/000000.pmem"};
    for (size_t name = 0; name < COUNT(names); name++)
        show_file(names[name]);
    remove_set();
    printf("\n");
}

int main(int count, char **arguments)
{
    area = malloc(AREA);
    for (size_t at = 0; at < AREA; at++)
        area[at] = (unsigned char)(at * 7 + at / 256);
    return take_sequences(count, arguments, sequence);
}
