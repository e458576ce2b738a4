/*
 * Calls of libpmem and of libpmem2, timed in here. A process of its own, so that the loader chooses the library: lines of the input,
 * `WORK COUNT STAMP`, become laps, and each is answered by `CYCLES NANOSECONDS DIGEST`.
 *
 *   driver FOLDER
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <x86intrin.h>
#include <libpmem.h>
#include <libpmem2.h>

/* The area that calls change: 32 MiB, which fit no cache of one core. */
#define AREA ((size_t)32 << 20)
/* The largest copy, and the shifts of its source. */
#define COPY ((size_t)1 << 20)
#define SHIFTS 256
#define LINE 64
#define SPARSE ((size_t)1 << 30)

static char *area, *source;
static char sparse[4096];

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

static void persist(size_t count, uint64_t stamp)
{
    for (size_t at = 0; at < count; at++) {
        volatile uint64_t *word = (volatile uint64_t *)(area + at * LINE % AREA);
        *word = stamp + at;
        pmem_persist((const void *)word, 8);
    }
}

static void flush_and_drain(size_t count, uint64_t stamp)
{
    for (size_t at = 0; at < count; at++) {
        char *first = area + at * 64 * LINE % AREA;
        for (size_t line = 0; line < 64; line++) {
            volatile uint64_t *word = (volatile uint64_t *)(first + line * LINE);
            *word = stamp + at;
            pmem_flush((const void *)word, LINE);
        }
        pmem_drain();
    }
}

static void copy(size_t count, uint64_t stamp, size_t len)
{
    memcpy(source, &stamp, sizeof(stamp));
    for (size_t at = 0, into = 0; at < count; at++) {
        pmem_memcpy_persist(area + into, source + (at % SHIFTS) * LINE, len);
        into = (into + len) % AREA;
    }
}

static int map(size_t count)
{
    for (size_t at = 0; at < count; at++) {
        size_t mapped;
        void *start = pmem_map_file(sparse, SPARSE, PMEM_FILE_CREATE | PMEM_FILE_SPARSE, 0600, &mapped, NULL);
        if (start == NULL || mapped != SPARSE || pmem_unmap(start, mapped) != 0)
            return -1;
    }
    return 0;
}

/* The functions of a mapping of the same file by libpmem2, whose stores the digest sees, too. */
static char *second;
static pmem2_persist_fn persist_fn;
static pmem2_memcpy_fn memcpy_fn;

static int map_second(const char *path)
{
    struct pmem2_source *file;
    struct pmem2_config *config;
    struct pmem2_map *map;
    int descriptor = open(path, O_RDWR);
    if (descriptor < 0 || pmem2_source_from_fd(&file, descriptor) != 0 || pmem2_config_new(&config) != 0
        || pmem2_config_set_required_store_granularity(config, PMEM2_GRANULARITY_CACHE_LINE) != 0
        || pmem2_map_new(&map, config, file) != 0)
        return -1;
    second = pmem2_map_get_address(map);
    persist_fn = pmem2_get_persist_fn(map);
    memcpy_fn = pmem2_get_memcpy_fn(map);
    return 0;
}

static void second_persist(size_t count, uint64_t stamp)
{
    for (size_t at = 0; at < count; at++) {
        volatile uint64_t *word = (volatile uint64_t *)(second + at * LINE % AREA);
        *word = stamp + at;
        persist_fn((const void *)word, 8);
    }
}

static void second_copy(size_t count, uint64_t stamp, size_t len)
{
    memcpy(source, &stamp, sizeof(stamp));
    for (size_t at = 0, into = 0; at < count; at++) {
        memcpy_fn(second + into, source + (at % SHIFTS) * LINE, len, 0);
        into = (into + len) % AREA;
    }
}

static uint64_t digest(void)
{
    uint64_t value = 0;
    for (size_t at = 0; at < AREA; at += 8) {
        uint64_t word;
        memcpy(&word, area + at, 8);
        value = (value ^ word) * 0x100000001b3u;
    }
    return value;
}

int main(int arguments, char **argument)
{
    char path[4096], work[32];
    size_t count, mapped;
    uint64_t stamp;
    if (arguments != 2)
        return 2;
    snprintf(path, sizeof(path), "%s/area", argument[1]);
    snprintf(sparse, sizeof(sparse), "%s/sparse", argument[1]);
    area = pmem_map_file(path, AREA + COPY, PMEM_FILE_CREATE, 0600, &mapped, NULL);
    source = malloc(COPY + SHIFTS * LINE);
    if (area == NULL || source == NULL) {
        fprintf(stderr, "%s: %s\n", path, pmem_errormsg());
        return 1;
    }
    if (map_second(path) != 0) {
        fprintf(stderr, "%s: %s\n", path, pmem2_errormsg());
        return 1;
    }
    memset(area, 1, mapped);
    memset(second, 1, mapped);
    memset(source, 2, COPY + SHIFTS * LINE);
    while (scanf("%31s %zu %lu", work, &count, &stamp) == 3) {
        uint64_t ns = now_ns(), cycles = now_cycles();
        if (strcmp(work, "pmem-persist-8") == 0) {
            persist(count, stamp);
        } else if (strcmp(work, "pmem-flush-drain-64x64") == 0) {
            flush_and_drain(count, stamp);
        } else if (strcmp(work, "pmem-memcpy-persist-64") == 0) {
            copy(count, stamp, 64);
        } else if (strcmp(work, "pmem-memcpy-persist-512") == 0) {
            copy(count, stamp, 512);
        } else if (strcmp(work, "pmem-memcpy-persist-4k") == 0) {
            copy(count, stamp, 4096);
        } else if (strcmp(work, "pmem-memcpy-persist-1m") == 0) {
            copy(count, stamp, COPY);
        } else if (strcmp(work, "pmem2-persist-8") == 0) {
            second_persist(count, stamp);
        } else if (strcmp(work, "pmem2-memcpy-4k") == 0) {
            second_copy(count, stamp, 4096);
        } else if (strcmp(work, "pmem-map-file") != 0 || map(count) != 0) {
            fprintf(stderr, "%s: %s\n", work, pmem_errormsg());
            return 1;
        }
        cycles = now_cycles() - cycles;
        ns = now_ns() - ns;
        printf("%lu %lu %lu\n", cycles, ns, digest());
        fflush(stdout);
    }
    return 0;
}
