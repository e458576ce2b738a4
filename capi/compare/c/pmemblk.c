/*
 * Draws sequences of calls of libpmemblk from a seed, takes them, and prints what each answered.
 *
 *   pmemblk SEED FIRST COUNT [STEP...]
 *
 * takes the sequences from FIRST on, in the current folder, which must be empty; with steps only those of each sequence.
 * The program is compiled against PMDK's headers and run on two libraries; equal output is the test.
 */
#include "pools.h"
#include "sets.h"
#include <libpmemblk.h>

#define STEPS 8
#define SLOTS 2
#define BLOCK_MAX 70000
/* Blocks that are written and read. */
#define BLOCKS 12

static PMEMblkpool *slots[SLOTS];
static unsigned char *area, *into;

/* Sizes of the parts of sets. */
static const char *const part_sizes[] = {"17M", "2M", "2105344B"};
static const size_t part_lens[] = {17 << 20, 17 << 20, 2 << 20, 2 << 20, 2105344, 4096};
static const size_t sizes[] = {0, 1, 4096, 2 << 20, PMEMBLK_MIN_POOL - 4096, PMEMBLK_MIN_POOL, PMEMBLK_MIN_POOL,
    PMEMBLK_MIN_POOL, PMEMBLK_MIN_POOL + 1, 20 << 20};
static const size_t block_sizes[] = {512, 512, 512, 4096, 4096, 520, 513, 1000, 65536, 65537};

/* The message is the last part of a line: the other library's may go on after it. */
static void tell(int is_failed, int error)
{
    if (is_failed)
        printf(" errno %d message %s", error, pmemblk_errormsg());
}

static void keep(PMEMblkpool *pool, int error)
{
    printf(" = %d", pool != NULL);
    tell(pool == NULL, error);
    if (pool == NULL)
        return;
    printf(" bsize %zu nblock %zu", pmemblk_bsize(pool), pmemblk_nblock(pool));
    for (int slot = 0; slot < SLOTS; slot++) {
        if (slots[slot] == NULL) {
            slots[slot] = pool;
            return;
        }
    }
    pmemblk_close(pool);
}

static size_t draw_block_size(void)
{
    static const size_t bad[] = {0, 1, 511, 100, 1 << 20, 1 << 30, UINT32_MAX, (size_t)UINT32_MAX + 1, (size_t)-1};
    return below(8) == 0 ? bad[below(COUNT(bad))] : block_sizes[below(COUNT(block_sizes))];
}

static void create(void)
{
    const char *path = draw_path();
    size_t len = sizes[below(COUNT(sizes))], size = draw_block_size();
    /* A size of 0 takes the file that is there: that is cheap. */
    if (below(4) != 0)
        len = 0;
    if (below(30) == 0)
        len = below(2) ? (size_t)-1 : (size_t)1 << 46;
    mode_t mode = draw_mode();
    PMEMblkpool *pool = NULL;
    int error = 0;
    if (strcmp(path, SET) == 0)
        need_set(part_sizes);
    printf("create \"%.20s\" %zu %zu %o", path, size, len, mode);
    CALL(pool = pmemblk_create(path, size, len, mode); error = errno);
    keep(pool, error);
    /* A create that fails leaves PMDK's header in a file that was there, and ours leaves the file alone. */
    if (pool == NULL && len == 0 && strncmp(pmemblk_errormsg(), "pool initialization failed", 26) == 0)
        strcmp(path, SET) == 0 ? remove_parts() : (void)unlink(path);
    if (pool == NULL && strcmp(path, SET) == 0 && error == EEXIST)
        remove_parts();
}

static void open_(void)
{
    const char *path = draw_path();
    size_t size = below(3) == 0 ? draw_block_size() : 0;
    PMEMblkpool *pool = NULL;
    int error = 0;
    if (strcmp(path, SET) == 0 && has_no_headers)
        return;
    printf("open \"%.20s\" %zu", path, size);
    CALL(pool = pmemblk_open(path, size); error = errno);
    keep(pool, error);
}

static void check(void)
{
    const char *path = draw_path();
    size_t size = below(3) == 0 ? draw_block_size() : 0;
    int result = 0, error = 0;
    if (strcmp(path, SET) == 0 && has_no_headers)
        return;
    printf("check \"%.20s\" %zu", path, size);
    CALL(result = pmemblk_check(path, size); error = errno);
    printf(" = %d", result);
    tell(result < 0, error);
}

/* An open pool; a new one if there is none. */
static PMEMblkpool *pool(void)
{
    int slot = (int)below(SLOTS);
    /* The largest ones find no room for 256 spare blocks in a small pool. */
    size_t size = block_sizes[below(COUNT(block_sizes) - 2)];
    if (slots[slot] == NULL) {
        slots[slot] = slots[1 - slot];
        slots[1 - slot] = NULL;
    }
    if (slots[slot] == NULL) {
        const char *name = slot == 0 ? "p0" : "p1";
        slots[slot] = pmemblk_open(name, 0);
        if (slots[slot] == NULL) {
            make_sparse(name, PMEMBLK_MIN_POOL);
            slots[slot] = pmemblk_create(name, size, 0, 0600);
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
        pmemblk_close(slots[slot]);
    slots[slot] = NULL;
}

static long long draw_block(PMEMblkpool *of)
{
    long long count = (long long)pmemblk_nblock(of);
    const long long bad[] = {-1, count, count + 1, 1LL << 32, INT64_MAX, INT64_MIN};
    if (below(12) == 0)
        return bad[below(COUNT(bad))];
    long long block = (long long)below(BLOCKS);
    return block < BLOCKS / 2 ? block : count - 1 - block;
}

static void answer(int result, int error)
{
    printf(" = %d", result);
    tell(result != 0, error);
}

static void write_(void)
{
    PMEMblkpool *to = pool();
    long long block = draw_block(to);
    size_t at = below(1000);
    int result = 0, error = 0;
    printf("write %lld %zu", block, at);
    CALL(result = pmemblk_write(to, area + at, block); error = errno);
    answer(result, error);
}

static void show_block(PMEMblkpool *of, long long block, int is_last)
{
    static int result, error;
    result = error = 0;
    memset(into, 0x55, BLOCK_MAX);
    CALL(result = pmemblk_read(of, into, block); error = errno);
    if (is_last)
        answer(result, error);
    else
        printf(" = %d errno %d", result, result == 0 ? 0 : error);
    if (result == 0)
        printf(" hash %016lx", hash(into, BLOCK_MAX));
}

static void read_(void)
{
    PMEMblkpool *of = pool();
    long long block = draw_block(of);
    printf("read %lld", block);
    show_block(of, block, 1);
}

static void set_zero(void)
{
    PMEMblkpool *of = pool();
    long long block = draw_block(of);
    int result = 0, error = 0;
    printf("set_zero %lld", block);
    CALL(result = pmemblk_set_zero(of, block); error = errno);
    answer(result, error);
}

static void set_error(void)
{
    PMEMblkpool *of = pool();
    long long block = draw_block(of);
    int result = 0, error = 0;
    printf("set_error %lld", block);
    CALL(result = pmemblk_set_error(of, block); error = errno);
    answer(result, error);
}

static void ctl(void)
{
    settings((ctl_function *)pmemblk_ctl_get, (ctl_function *)pmemblk_ctl_set, (ctl_function *)pmemblk_ctl_exec,
        pmemblk_errormsg);
}

static void versions(void)
{
    unsigned major = (unsigned)below(3), minor = (unsigned)below(4);
    const char *answer = pmemblk_check_version(major, minor);
    printf("versions %u %u message %s", major, minor, answer == NULL ? "none" : answer);
}

static void *fail_elsewhere(void *argument)
{
    (void)argument;
    printf(" first %zu", strlen(pmemblk_errormsg()));
    int result = pmemblk_check("missing/elsewhere", 0), error = errno;
    printf(" then %d errno %d", result, error);
    return NULL;
}

static void thread(void)
{
    pthread_t other;
    printf("thread");
    PMEMblkpool *none = pmemblk_open("missing/here", 0);
    if (pthread_create(&other, NULL, fail_elsewhere, NULL) == 0)
        pthread_join(other, NULL);
    printf(" here %d message %s", none != NULL, pmemblk_errormsg());
}

/* A child reads and ends without a word; its parent goes on. */
static void fork_(void)
{
    PMEMblkpool *of = pool();
    int status = -1;
    printf("fork");
    CALL(printf(" write %d", pmemblk_write(of, area, 1)));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(pmemblk_read(of, into, 1) == 0 && memcmp(into, area, pmemblk_bsize(of)) == 0 ? 7 : 8);
    waitpid(child, &status, 0);
    printf(" status %d", status);
    show_block(of, 1, 1);
}

/* Memory of functions that the program sets. */
static void functions(void)
{
    int is_refused = below(2) == 0, error = 0;
    PMEMblkpool *of = NULL;
    printf("functions %d", is_refused);
    unlink("own");
    pmemblk_errormsg();
    pmemblk_set_funcs(own_malloc, own_free, own_realloc, own_strdup);
    made = freed = 0;
    is_refusing = is_refused;
    CALL(of = pmemblk_create("own", 512, PMEMBLK_MIN_POOL, 0600); error = errno);
    is_refusing = 0;
    printf(" = %d errno %d", of != NULL, of == NULL ? error : 0);
    if (of != NULL) {
        printf(" write %d", pmemblk_write(of, area, 5));
        pmemblk_close(of);
    }
    if (!is_refused)
        printf(" used %d freed %d", made > 0, made == freed);
    pmemblk_set_funcs(NULL, NULL, NULL, NULL);
    printf(" file %d", unlink("own"));
}

static void close_all(void)
{
    for (int slot = 0; slot < SLOTS; slot++) {
        if (slots[slot] != NULL)
            pmemblk_close(slots[slot]);
        slots[slot] = NULL;
    }
}

static void file(void)
{
    /* PMDK maps an empty file, and ends by SIGBUS. */
    make_file(sizes + 1, COUNT(sizes) - 1);
}

static void damage_(void)
{
    close_all();
    /* PMDK opens a pool whose descriptor contradicts its table. */
    damage(0);
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

static void (*const calls[])(void) = {create, create, open_, open_, close_, check, write_, write_, write_, write_, read_, read_,
    read_, set_zero, set_error, damage_, file, ctl, versions, set, part};
/* Calls that are dear, and so rare. */
static void (*const rare[])(void) = {thread, fork_, functions};

/* Shows the blocks. */
static void show_blocks(const char *name)
{
    static PMEMblkpool *of;
    of = NULL;
    CALL(of = pmemblk_open(name, 0));
    if (of != NULL) {
        for (long long block = 0; block < BLOCKS; block++)
            show_block(of, block < BLOCKS / 2 ? block : (long long)pmemblk_nblock(of) - 1 - block, 0);
        pmemblk_close(of);
    }
    printf(" check %d", pmemblk_check(name, 0));
}

/* Shows the header, the descriptor, the geometry of the table, and the blocks. Two implementations place blocks elsewhere. */
static void show_file(const char *name)
{
    size_t len;
    unsigned char *bytes = show_header(name, &len);
    if (bytes != NULL) {
        uint32_t descriptor[2];
        memcpy(descriptor, bytes + HEADER, sizeof(descriptor));
        printf(" descriptor %u %u", descriptor[0], descriptor[1]);
        for (int copy = 0; copy < 2; copy++) {
            const unsigned char *info = bytes + (copy == 0 ? 2 * HEADER : (len / HEADER - 1) * HEADER);
            printf(" info %016lx %016lx", hash(info, 16), hash(info + 48, 64));
        }
        munmap(bytes, len);
        show_blocks(name);
    }
    unlink(name);
}

/* Shows the headers of the parts, and the blocks of the pool. */
static void show_set(void)
{
    static const char *const names[] = {"q0", "q1", "q2", "d/000000.pmem"};
    for (size_t name = 0; name < COUNT(names); name++) {
        size_t len;
        unsigned char *bytes = show_header(names[name], &len);
        if (bytes != NULL)
            munmap(bytes, len);
    }
    if (access(SET, F_OK) == 0 && !has_no_headers)
        show_blocks(SET);
    remove_set();
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
    show_file("p0");
    show_file("p1");
    show_set();
    printf("\n");
}

int main(int count, char **arguments)
{
    area = malloc(2 * BLOCK_MAX);
    into = malloc(BLOCK_MAX);
    for (size_t at = 0; at < 2 * BLOCK_MAX; at++)
        area[at] = (unsigned char)(at * 7 + at / 256);
    return take_sequences(count, arguments, sequence);
}
