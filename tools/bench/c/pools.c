/*
 * Calls of libpmemlog and of libpmemblk, timed in here. A process of its own, so that the loader chooses the libraries: lines of
 * the input, `WORK COUNT STAMP`, become laps, and each is answered by `CYCLES NANOSECONDS DIGEST`.
 *
 *   driver FOLDER
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <x86intrin.h>
#include <libpmemblk.h>
#include <libpmemlog.h>

/* Bytes of a pool, which fit no cache of one core. */
#define POOL ((size_t)64 << 20)
#define RECORD 64
#define PARTS 64
#define BLOCK_MAX 4096

static unsigned char buffer[PARTS * RECORD];
static const char *folder;

static uint64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static uint64_t now_cycles(void)
{
    _mm_lfence();
    uint64_t cycles = __rdtsc();
    _mm_lfence();
    return cycles;
}

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

/* A log whose pages are all there. */
static PMEMlogpool *open_log(void)
{
    static PMEMlogpool *log;
    char path[4096];
    if (log != NULL)
        return log;
    snprintf(path, sizeof(path), "%s/log", folder);
    log = pmemlog_create(path, POOL, 0600);
    if (log == NULL)
        fail(path, pmemlog_errormsg());
    size_t len = pmemlog_nbyte(log);
    unsigned char *bytes = calloc(1, len);
    if (bytes == NULL || pmemlog_append(log, bytes, len) != 0)
        fail(path, pmemlog_errormsg());
    free(bytes);
    pmemlog_rewind(log);
    return log;
}

static void append(PMEMlogpool *log, size_t count, uint64_t stamp)
{
    for (size_t at = 0; at < count; at++) {
        uint64_t word = stamp + at;
        memcpy(buffer, &word, sizeof(word));
        if (pmemlog_append(log, buffer, RECORD) != 0) {
            pmemlog_rewind(log);
            if (pmemlog_append(log, buffer, RECORD) != 0)
                fail("append", pmemlog_errormsg());
        }
    }
}

static void appendv(PMEMlogpool *log, size_t count, uint64_t stamp)
{
    struct iovec parts[PARTS];
    for (size_t part = 0; part < PARTS; part++)
        parts[part] = (struct iovec){buffer + part * RECORD, RECORD};
    for (size_t at = 0; at < count; at++) {
        uint64_t word = stamp + at;
        memcpy(buffer, &word, sizeof(word));
        if (pmemlog_appendv(log, parts, PARTS) != 0) {
            pmemlog_rewind(log);
            if (pmemlog_appendv(log, parts, PARTS) != 0)
                fail("appendv", pmemlog_errormsg());
        }
    }
}

static uint64_t value;

static int visit(const void *bytes, size_t len, void *argument)
{
    for (size_t at = 0; at + 8 <= len; at += 8) {
        uint64_t word;
        memcpy(&word, (const unsigned char *)bytes + at, 8);
        value = (value ^ word) * 0x100000001b3u;
    }
    (void)argument;
    return 1;
}

static uint64_t digest_log(PMEMlogpool *log)
{
    value = (uint64_t)pmemlog_tell(log);
    pmemlog_walk(log, 0, visit, NULL);
    return value;
}

/* A pool whose blocks were all written. */
static PMEMblkpool *open_blocks(size_t size)
{
    static PMEMblkpool *pools[2];
    PMEMblkpool **pool = &pools[size == BLOCK_MAX];
    char path[4096];
    if (*pool != NULL)
        return *pool;
    snprintf(path, sizeof(path), "%s/blocks-%zu", folder, size);
    *pool = pmemblk_create(path, size, POOL, 0600);
    if (*pool == NULL)
        fail(path, pmemblk_errormsg());
    for (size_t block = 0; block < pmemblk_nblock(*pool); block++) {
        if (pmemblk_write(*pool, buffer, (long long)block) != 0)
            fail(path, pmemblk_errormsg());
    }
    return *pool;
}

static uint64_t next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static void write_blocks(PMEMblkpool *pool, size_t count, uint64_t stamp)
{
    uint64_t state = stamp, blocks = pmemblk_nblock(pool);
    for (size_t at = 0; at < count; at++) {
        uint64_t word = stamp + at;
        memcpy(buffer, &word, sizeof(word));
        if (pmemblk_write(pool, buffer, (long long)(next(&state) % blocks)) != 0)
            fail("write", pmemblk_errormsg());
    }
}

static void read_blocks(PMEMblkpool *pool, size_t count, uint64_t stamp)
{
    uint64_t state = stamp, blocks = pmemblk_nblock(pool);
    value = 0;
    for (size_t at = 0; at < count; at++) {
        uint64_t word;
        if (pmemblk_read(pool, buffer, (long long)(next(&state) % blocks)) != 0)
            fail("read", pmemblk_errormsg());
        memcpy(&word, buffer, sizeof(word));
        value = (value ^ word) * 0x100000001b3u;
    }
}

static uint64_t digest_blocks(PMEMblkpool *pool)
{
    static unsigned char block[BLOCK_MAX];
    value = 0;
    for (size_t at = 0; at < pmemblk_nblock(pool); at++) {
        if (pmemblk_read(pool, block, (long long)at) != 0)
            fail("read", pmemblk_errormsg());
        visit(block, 8, NULL);
    }
    return value;
}

static int is(const char *work, const char *one, const char *other)
{
    return strcmp(work, one) == 0 || strcmp(work, other) == 0;
}

int main(int arguments, char **argument)
{
    char work[32];
    size_t count;
    uint64_t stamp;
    if (arguments != 2)
        return 2;
    folder = argument[1];
    while (scanf("%31s %zu %lu", work, &count, &stamp) == 3) {
        int is_log = strncmp(work, "abi-log-", 8) == 0, is_read = strncmp(work, "abi-blk-read", 12) == 0;
        PMEMlogpool *log = is_log ? open_log() : NULL;
        PMEMblkpool *blocks = is_log ? NULL : open_blocks(strcmp(work, "abi-blk-write-512") == 0 ? 512 : 4096);
        uint64_t ns = now_ns(), cycles = now_cycles();
        if (is(work, "abi-log-append-64", "abi-log-append-file"))
            append(log, count, stamp);
        else if (strcmp(work, "abi-log-appendv-64x64") == 0)
            appendv(log, count, stamp);
        else if (strcmp(work, "abi-blk-read-4k") == 0)
            read_blocks(blocks, count, stamp);
        else if (is(work, "abi-blk-write-512", "abi-blk-write-4k") || strcmp(work, "abi-blk-write-4k-file") == 0)
            write_blocks(blocks, count, stamp);
        else
            fail(work, "no such work");
        cycles = now_cycles() - cycles;
        ns = now_ns() - ns;
        printf("%lu %lu %lu\n", cycles, ns, is_log ? digest_log(log) : is_read ? value : digest_blocks(blocks));
        fflush(stdout);
    }
    return 0;
}
