/*
 * Calls of libpmemobj, timed in here. A process of its own, so that the loader chooses the library: lines of the input,
 * `WORK COUNT STAMP`, become laps, and each is answered by `CYCLES NANOSECONDS DIGEST`.
 *
 *   driver FOLDER
 *
 * The maps are those that the library's package brings as examples.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>
#include <libpmemobj.h>
/* The header defines a variable. */
#define art_node_names unused_art_node_names
#include "art.h"
#include "btree_map.h"
#include "hashmap_tx.h"
#include "rbtree_map.h"
#include "traps.h"

/* Bytes of the pools, and of the largest set of words. */
#define POOL ((size_t)1 << 30)
/* Bytes of a pool of which ours gives its log 32 MiB: a sixteenth of the free chunks, rounded down to one of 256 KiB. */
#define FENCES_POOL ((size_t)517 << 20)
#define SET_MAX ((size_t)128 << 20)
#define BLOCK 64
#define COPY 4096
#define SLOTS 1024
#define PAGE ((size_t)4096)
/* Threads at most, and bytes from one set of words to the next where each thread has a page. */
#define THREADS_MAX 16
#define PAGES_APART (16 * PAGE)
/* Bytes of a set of words near each other, and of the words of the pool that other processes open again. */
#define NEAR ((size_t)64 << 10)
#define REOPENED ((size_t)800 << 20)
/* Bytes that one transaction holds, of the pool for it, and threads that commit meanwhile. */
#define HELD ((size_t)256 << 20)
#define LARGE_POOL ((size_t)8 << 30)
#define COMMITTERS 15

enum { TYPE_SET = 1, TYPE_SLOTS, TYPE_BLOCK };

struct area_root {
    PMEMoid words, slots, single;
    PMEMmutex lock;
};

struct maps_root {
    TOID(struct btree_map) btree;
    TOID(struct rbtree_map) rbtree;
    TOID(struct hashmap_tx) hashmap;
};

static const char *folder;
/* Bytes of the pool that a lap makes. */
static size_t pool_len;
static uint64_t value;
/* Nanoseconds that a lap reports in place of its own. */
static uint64_t measured_ns;

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

static void fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, pmemobj_errormsg());
    exit(1);
}

static uint64_t next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* A pool whose pages are all there. */
static PMEMobjpool *create(const char *name, size_t len)
{
    char path[4096];
    int touched = 1;
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    if (pmemobj_ctl_set(NULL, "prefault.at_create", &touched) != 0)
        fail(path);
    PMEMobjpool *pool = pmemobj_create(path, "lode-bench", len, 0600);
    if (pool == NULL)
        fail(path);
    return pool;
}

static PMEMobjpool *area;
static struct area_root *area_root;
static uint64_t *words;
static PMEMoid *slots;

static void open_area(void)
{
    if (area != NULL)
        return;
    area = create("area", pool_len);
    area_root = pmemobj_direct(pmemobj_root(area, sizeof(struct area_root)));
    if (area_root == NULL || pmemobj_zalloc(area, &area_root->words, SET_MAX, TYPE_SET) != 0 ||
        pmemobj_zalloc(area, &area_root->slots, SLOTS * sizeof(PMEMoid), TYPE_SLOTS) != 0)
        fail("area");
    words = pmemobj_direct(area_root->words);
    slots = pmemobj_direct(area_root->slots);
}

/* Transactions with `ranges` words each, at random in the `set` bytes from `from` on. */
static void change(PMEMobjpool *pool, uint64_t *from, size_t count, size_t ranges, size_t set, uint64_t stamp)
{
    uint64_t state = stamp;
    for (size_t at = 0; at < count; at++) {
        TX_BEGIN(pool) {
            for (size_t range = 0; range < ranges; range++) {
                uint64_t *word = &from[next(&state) % (set / sizeof(uint64_t))];
                pmemobj_tx_add_range_direct(word, sizeof(*word));
                *word = stamp + at;
            }
        } TX_ONABORT {
            fail("change");
        } TX_END
    }
}

/* Sets of words, each changed by transactions of a word. A thread changes one set after the other: those whose numbers
 * are its own number, and this number plus multiples of `threads`. */
struct share {
    pthread_t thread;
    size_t number, threads, sets, apart, set, count;
    uint64_t stamp;
};

static void *change_share(void *argument)
{
    const struct share *share = argument;
    unsigned char *start = (unsigned char *)(((uintptr_t)words + PAGE - 1) / PAGE * PAGE);
    for (size_t set = share->number; set < share->sets; set += share->threads)
        change(area, (uint64_t *)(start + set * share->apart), share->count, 1, share->set, share->stamp + ((uint64_t)set << 40));
    return NULL;
}

/* Transactions of a word each, shared out evenly among `sets` sets of `set` bytes, by threads that run at the same time. */
static void change_together(size_t count, size_t threads, size_t sets, size_t apart, size_t set, uint64_t stamp)
{
    struct share shares[THREADS_MAX];
    if (threads > THREADS_MAX)
        fail("threads");
    for (size_t at = 0; at < threads; at++) {
        shares[at] = (struct share){0, at, threads, sets, apart, set, count / sets, stamp};
        if (pthread_create(&shares[at].thread, NULL, change_share, &shares[at]) != 0)
            fail("thread");
    }
    for (size_t at = 0; at < threads; at++)
        pthread_join(shares[at].thread, NULL);
}

static void replace(size_t count, uint64_t stamp)
{
    uint64_t state = stamp;
    for (size_t at = 0; at < count; at++) {
        PMEMoid *slot = &slots[next(&state) % SLOTS];
        TX_BEGIN(area) {
            PMEMoid fresh = pmemobj_tx_alloc(BLOCK, TYPE_BLOCK);
            uint64_t *block = pmemobj_direct(fresh);
            for (size_t word = 0; word < BLOCK / sizeof(*block); word++)
                block[word] = stamp + at + word;
            pmemobj_tx_add_range_direct(slot, sizeof(*slot));
            PMEMoid old = *slot;
            *slot = fresh;
            if (!OID_IS_NULL(old))
                pmemobj_tx_free(old);
        } TX_ONABORT {
            fail("replace");
        } TX_END
    }
}

static void alloc_free(size_t count)
{
    for (size_t at = 0; at < count; at++) {
        if (pmemobj_alloc(area, &area_root->single, BLOCK, TYPE_BLOCK, NULL, NULL) != 0)
            fail("alloc");
        pmemobj_free(&area_root->single);
    }
}

static void reserve_publish_free(size_t count, uint64_t stamp)
{
    for (size_t at = 0; at < count; at++) {
        struct pobj_action action;
        PMEMoid object = pmemobj_reserve(area, &action, BLOCK, TYPE_BLOCK);
        uint64_t *block = pmemobj_direct(object);
        if (block == NULL)
            fail("reserve");
        *block = stamp + at;
        pmemobj_persist(area, block, sizeof(*block));
        if (pmemobj_publish(area, &action, 1) != 0)
            fail("publish");
        pmemobj_free(&object);
    }
}

static void empty(size_t count)
{
    for (size_t at = 0; at < count; at++) {
        TX_BEGIN(area) {
        } TX_END
    }
}

static void lock(size_t count)
{
    for (size_t at = 0; at < count; at++) {
        pmemobj_mutex_lock(area, &area_root->lock);
        pmemobj_mutex_unlock(area, &area_root->lock);
    }
}

static void persist(size_t count, uint64_t stamp)
{
    uint64_t state = stamp;
    for (size_t at = 0; at < count; at++) {
        uint64_t *word = &words[next(&state) % (SET_MAX / sizeof(uint64_t))];
        *word = stamp + at;
        pmemobj_persist(area, word, sizeof(*word));
    }
}

static void copy(size_t count, uint64_t stamp)
{
    static unsigned char page[COPY];
    uint64_t state = stamp;
    for (size_t at = 0; at < count; at++) {
        memcpy(page, &at, sizeof(at));
        void *to = (unsigned char *)words + next(&state) % (SET_MAX / COPY) * COPY;
        pmemobj_memcpy_persist(area, to, page, COPY);
    }
}

static uint64_t digest_words(const uint64_t *from, size_t set)
{
    uint64_t digest = 0;
    for (size_t at = 0; at < set / sizeof(uint64_t); at++)
        digest = (digest ^ from[at]) * 0x100000001b3u;
    return digest;
}

static uint64_t digest_area(void)
{
    uint64_t digest = digest_words(words, SET_MAX);
    for (size_t at = 0; at < SLOTS; at++) {
        uint64_t *block = pmemobj_direct(slots[at]);
        digest = (digest ^ (block == NULL ? 0 : block[1])) * 0x100000001b3u;
    }
    return digest;
}

static PMEMobjpool *maps;
static struct maps_root *maps_root;

static void open_maps(void)
{
    if (maps != NULL)
        return;
    maps = create("maps", pool_len);
    maps_root = pmemobj_direct(pmemobj_root(maps, sizeof(struct maps_root)));
    if (maps_root == NULL || btree_map_create(maps, &maps_root->btree, NULL) != 0 ||
        rbtree_map_create(maps, &maps_root->rbtree, NULL) != 0 || hm_tx_create(maps, &maps_root->hashmap, NULL) != 0)
        fail("maps");
}

/* Keys of a lap are random, and no lap has those of another one. */
static void insert(const char *map, size_t count, uint64_t stamp)
{
    uint64_t state = stamp;
    int is_btree = strstr(map, "-btree") != NULL, is_rbtree = strstr(map, "-rbtree") != NULL;
    for (size_t at = 0; at < count; at++) {
        uint64_t key = next(&state) << 32 | next(&state);
        PMEMoid object = {0, key};
        int failed;
        if (is_btree)
            failed = btree_map_insert(maps, maps_root->btree, key, object);
        else if (is_rbtree)
            failed = rbtree_map_insert(maps, maps_root->rbtree, key, object);
        else
            failed = hm_tx_insert(maps, maps_root->hashmap, key, object) < 0;
        if (failed)
            fail(map);
    }
}

static int fold(uint64_t key, PMEMoid object, void *argument)
{
    value += (key ^ object.off) + key * 0x100000001b3u;
    (void)argument;
    return 0;
}

static uint64_t digest_maps(void)
{
    value = 0;
    btree_map_foreach(maps, maps_root->btree, fold, NULL);
    rbtree_map_foreach(maps, maps_root->rbtree, fold, NULL);
    hm_tx_foreach(maps, maps_root->hashmap, fold, NULL);
    return value;
}

static PMEMobjpool *tree;

static void open_tree(void)
{
    int new_pool = 1;
    if (tree != NULL)
        return;
    tree = create("tree", pool_len);
    if (art_tree_init(tree, &new_pool) != 0)
        fail("tree");
}

/* The example overwrites the last byte of key and value with a zero. */
static void insert_art(const char *work, size_t count, uint64_t stamp)
{
    (void)work;
    uint64_t state = stamp;
    for (size_t at = 0; at < count; at++) {
        unsigned char key[9] = {0}, content[9] = {0};
        uint64_t number = next(&state) << 32 | next(&state);
        memcpy(key, &number, 8);
        memcpy(content, &at, 8);
        art_insert(tree, key, sizeof(key), content, sizeof(content));
    }
}

static PMEMobjpool *reopened;
static uint64_t *reopened_words;

static void open_nothing(void)
{
}

static uint64_t digest_nothing(void)
{
    return 0;
}

static void point_to_words(void)
{
    reopened_words = reopened == NULL ? NULL : pmemobj_direct(pmemobj_root(reopened, REOPENED));
    if (reopened_words == NULL)
        fail("reopened");
}

static void make_reopened(void)
{
    reopened = create("reopened", pool_len);
    point_to_words();
    memset(reopened_words, 1, REOPENED);
    pmemobj_persist(reopened, reopened_words, REOPENED);
}

static void reopen(void)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/reopened", folder);
    reopened = pmemobj_open(path, "lode-bench");
    if (reopened == NULL)
        fail(path);
}

/* The pool stays open after a lap, so that a signal may end the process then. */
static void run_reopened(const char *work, size_t count, uint64_t stamp)
{
    if (strcmp(work, "reopened-make") == 0)
        make_reopened();
    else if (strcmp(work, "reopened-open") == 0)
        reopen();
    else if (strcmp(work, "reopened-change") == 0)
        change(reopened, reopened_words, count, 1, REOPENED, stamp);
    else if (strcmp(work, "reopened-close") == 0)
        pmemobj_close(reopened), reopened = NULL;
    else
        fail(work);
}

static uint64_t digest_reopened(void)
{
    if (reopened == NULL)
        return 0;
    point_to_words();
    return digest_words(reopened_words, REOPENED);
}

static PMEMobjpool *sparse;
/* True while a pool is made in a file that gets no space. */
static int is_sparse;

/* PMDK's library calls this in place of the C library's. */
int posix_fallocate(int file, off_t from, off_t len)
{
    int (*allocate)(int, off_t, off_t) = (int (*)(int, off_t, off_t))dlsym(RTLD_NEXT, "posix_fallocate");
    if (!is_sparse)
        return allocate == NULL ? ENOSYS : allocate(file, from, len);
    return ftruncate(file, from + len) == 0 ? 0 : errno;
}

/* Only PMDK's library makes the pool: ours asks the kernel for its space. */
static void run_sparse(const char *work, size_t count, uint64_t stamp)
{
    char path[4096];
    (void)stamp;
    snprintf(path, sizeof(path), "%s/sparse", folder);
    if (strcmp(work, "sparse-close") == 0) {
        pmemobj_close(sparse);
        return;
    }
    is_sparse = 1;
    sparse = strcmp(work, "sparse-make") == 0 ? pmemobj_create(path, "lode-bench", count, 0600) : pmemobj_open(path, "lode-bench");
    is_sparse = 0;
    if (sparse == NULL)
        fail(path);
}

/* A thread that commits a word of its own, again and again. */
struct committer {
    pthread_t thread;
    uint64_t *word, commits, slowest_ns;
};

static PMEMobjpool *large;
static uint64_t *large_words;
static struct committer committers[COMMITTERS];
static int is_stopped;

static void *commit(void *argument)
{
    struct committer *committer = argument;
    while (!__atomic_load_n(&is_stopped, __ATOMIC_RELAXED)) {
        uint64_t ns = now_ns();
        change(large, committer->word, 1, 1, sizeof(uint64_t), ++committer->commits);
        ns = now_ns() - ns;
        if (ns > committer->slowest_ns)
            committer->slowest_ns = ns;
    }
    return NULL;
}

static void make_large(void)
{
    large = create("large", LARGE_POOL);
    large_words = pmemobj_direct(pmemobj_root(large, HELD + COMMITTERS * PAGE));
    if (large_words == NULL)
        fail("large");
    for (size_t at = 0; at < COMMITTERS; at++) {
        committers[at].word = large_words + (HELD + at * PAGE) / sizeof(uint64_t);
        if (pthread_create(&committers[at].thread, NULL, commit, &committers[at]) != 0)
            fail("thread");
    }
}

/* The transaction stays open after the lap. */
static void hold(size_t count)
{
    if (pmemobj_tx_begin(large, NULL, TX_PARAM_NONE) != 0)
        fail("begin");
    for (size_t at = 0; at < count; at++) {
        if (pmemobj_tx_add_range_direct(&large_words[at], sizeof(uint64_t)) != 0)
            fail("hold");
        large_words[at] = ~(uint64_t)at;
    }
}

/* The lap's time becomes that of the slowest commit. All words that were held are as before, and each thread's has its
 * last commit. */
static void stop(size_t count)
{
    __atomic_store_n(&is_stopped, 1, __ATOMIC_RELAXED);
    for (size_t at = 0; at < COMMITTERS; at++) {
        pthread_join(committers[at].thread, NULL);
        if (*committers[at].word != committers[at].commits)
            fail("a commit is lost");
        if (committers[at].slowest_ns > measured_ns)
            measured_ns = committers[at].slowest_ns;
    }
    for (size_t at = 0; at < count; at++)
        if (large_words[at] != 0)
            fail("a word of an aborted transaction is left");
}

static void run_large(const char *work, size_t count, uint64_t stamp)
{
    (void)stamp;
    if (strcmp(work, "large-make") == 0)
        make_large();
    else if (strcmp(work, "large-hold") == 0)
        hold(count);
    else if (strcmp(work, "large-abort") == 0)
        pmemobj_tx_abort(ECANCELED), pmemobj_tx_end();
    else if (strcmp(work, "large-stop") == 0)
        stop(count);
    else
        fail(work);
}

static uint64_t digest_large(void)
{
    uint64_t commits = 0;
    for (size_t at = 0; at < COMMITTERS; at++)
        commits += committers[at].commits;
    return commits;
}

static int is_of(const char *work, const char *start)
{
    return strncmp(work, start, strlen(start)) == 0;
}

static void run_area(const char *work, size_t count, uint64_t stamp)
{
    size_t ranges, set, threads;
    char unit;
    if (sscanf(work, "obj-tx-%zu-%zu%c", &ranges, &set, &unit) == 3 ||
        sscanf(work, "obj-careful-%zu-%zu%c", &ranges, &set, &unit) == 3)
        change(area, words, count, ranges, set << (unit == 'k' ? 10 : 20), stamp);
    else if (sscanf(work, "obj-threads-%zu", &threads) == 1)
        change_together(count, threads, 2, NEAR, NEAR, stamp);
    else if (strcmp(work, "obj-16") == 0)
        change_together(count, 16, 16, PAGES_APART, PAGE, stamp);
    else if (is_of(work, "obj-tx-alloc"))
        replace(count, stamp);
    else if (is_of(work, "obj-tx-empty"))
        empty(count);
    else if (is_of(work, "obj-alloc-free"))
        alloc_free(count);
    else if (is_of(work, "obj-reserve-publish-free"))
        reserve_publish_free(count, stamp);
    else if (is_of(work, "obj-mutex"))
        lock(count);
    else if (is_of(work, "obj-persist-8"))
        persist(count, stamp);
    else if (is_of(work, "obj-memcpy-persist-4k"))
        copy(count, stamp);
    else
        fail(work);
}

/* Works that share a pool. */
struct kind {
    void (*open)(void);
    void (*run)(const char *work, size_t count, uint64_t stamp);
    uint64_t (*digest)(void);
};

static struct kind kind_of(const char *work)
{
    if (is_of(work, "reopened-"))
        return (struct kind){open_nothing, run_reopened, digest_reopened};
    if (is_of(work, "large-"))
        return (struct kind){open_nothing, run_large, digest_large};
    if (is_of(work, "sparse-"))
        return (struct kind){open_nothing, run_sparse, digest_nothing};
    if (is_of(work, "traps-"))
        return (struct kind){open_nothing, trap_run, trap_counted};
    if (is_of(work, "obj-art-insert") || is_of(work, "obj-fences-art"))
        return (struct kind){open_tree, insert_art, digest_nothing};
    if (strstr(work, "-insert") != NULL || is_of(work, "obj-fences-"))
        return (struct kind){open_maps, insert, digest_maps};
    return (struct kind){open_area, run_area, digest_area};
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
        const char *name = is_of(work, "file-") ? work + 5 : work;
        struct kind kind = kind_of(name);
        pool_len = is_of(name, "obj-fences-") ? FENCES_POOL : POOL;
        kind.open();
        measured_ns = 0;
        uint64_t ns = now_ns(), cycles = now_cycles();
        kind.run(name, count, stamp);
        cycles = now_cycles() - cycles;
        ns = now_ns() - ns;
        printf("%lu %lu %lu\n", cycles, measured_ns > 0 ? measured_ns : ns, kind.digest());
        fflush(stdout);
    }
    return 0;
}
