/*
 * Calls of libpmemobj, timed in here. A process of its own, so that the loader chooses the library: lines of the input,
 * `WORK COUNT STAMP`, become laps, and each is answered by `CYCLES NANOSECONDS DIGEST`.
 *
 *   driver FOLDER
 *
 * The maps are those that the library's package brings as examples.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <x86intrin.h>
#include <libpmemobj.h>
/* The header defines a variable. */
#define art_node_names unused_art_node_names
#include "art.h"
#include "btree_map.h"
#include "hashmap_tx.h"
#include "rbtree_map.h"

/* Bytes of the pools, and of the largest set of words. */
#define POOL ((size_t)1 << 30)
#define SET_MAX ((size_t)128 << 20)
#define BLOCK 64
#define COPY 4096
#define SLOTS 1024

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
static uint64_t value;

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
static PMEMobjpool *create(const char *name)
{
    char path[4096];
    int touched = 1;
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    if (pmemobj_ctl_set(NULL, "prefault.at_create", &touched) != 0)
        fail(path);
    PMEMobjpool *pool = pmemobj_create(path, "lode-bench", POOL, 0600);
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
    area = create("area");
    area_root = pmemobj_direct(pmemobj_root(area, sizeof(struct area_root)));
    if (area_root == NULL || pmemobj_zalloc(area, &area_root->words, SET_MAX, TYPE_SET) != 0 ||
        pmemobj_zalloc(area, &area_root->slots, SLOTS * sizeof(PMEMoid), TYPE_SLOTS) != 0)
        fail("area");
    words = pmemobj_direct(area_root->words);
    slots = pmemobj_direct(area_root->slots);
}

/* Transactions with `ranges` words each, at random in the first `set` bytes. */
static void change(size_t count, size_t ranges, size_t set, uint64_t stamp)
{
    uint64_t state = stamp;
    for (size_t at = 0; at < count; at++) {
        TX_BEGIN(area) {
            for (size_t range = 0; range < ranges; range++) {
                uint64_t *word = &words[next(&state) % (set / sizeof(uint64_t))];
                pmemobj_tx_add_range_direct(word, sizeof(*word));
                *word = stamp + at;
            }
        } TX_ONABORT {
            fail("change");
        } TX_END
    }
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

static uint64_t digest_area(void)
{
    uint64_t digest = 0;
    for (size_t at = 0; at < SET_MAX / sizeof(uint64_t); at++)
        digest = (digest ^ words[at]) * 0x100000001b3u;
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
    maps = create("maps");
    maps_root = pmemobj_direct(pmemobj_root(maps, sizeof(struct maps_root)));
    if (maps_root == NULL || btree_map_create(maps, &maps_root->btree, NULL) != 0 ||
        rbtree_map_create(maps, &maps_root->rbtree, NULL) != 0 || hm_tx_create(maps, &maps_root->hashmap, NULL) != 0)
        fail("maps");
}

/* Keys of a lap are random, and no lap has those of another one. */
static void insert(const char *map, size_t count, uint64_t stamp)
{
    uint64_t state = stamp;
    for (size_t at = 0; at < count; at++) {
        uint64_t key = next(&state) << 32 | next(&state);
        PMEMoid object = {0, key};
        int failed;
        if (strcmp(map, "obj-btree-insert") == 0)
            failed = btree_map_insert(maps, maps_root->btree, key, object);
        else if (strcmp(map, "obj-rbtree-insert") == 0)
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
    tree = create("tree");
    if (art_tree_init(tree, &new_pool) != 0)
        fail("tree");
}

/* The example overwrites the last byte of key and value with a zero. */
static void insert_art(size_t count, uint64_t stamp)
{
    uint64_t state = stamp;
    for (size_t at = 0; at < count; at++) {
        unsigned char key[9] = {0}, content[9] = {0};
        uint64_t number = next(&state) << 32 | next(&state);
        memcpy(key, &number, 8);
        memcpy(content, &at, 8);
        art_insert(tree, key, sizeof(key), content, sizeof(content));
    }
}

static int is_of(const char *work, const char *start)
{
    return strncmp(work, start, strlen(start)) == 0;
}

static void run_area(const char *work, size_t count, uint64_t stamp)
{
    size_t ranges, set;
    char unit;
    if (sscanf(work, "obj-tx-%zu-%zu%c", &ranges, &set, &unit) == 3)
        change(count, ranges, set << (unit == 'k' ? 10 : 20), stamp);
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

int main(int arguments, char **argument)
{
    char work[32];
    size_t count;
    uint64_t stamp;
    if (arguments != 2)
        return 2;
    folder = argument[1];
    while (scanf("%31s %zu %lu", work, &count, &stamp) == 3) {
        const char *kind = is_of(work, "file-") ? work + 5 : work;
        int is_art = is_of(kind, "obj-art-insert"), is_map = !is_art && strstr(kind, "-insert") != NULL;
        is_art ? open_tree() : is_map ? open_maps() : open_area();
        uint64_t ns = now_ns(), cycles = now_cycles();
        if (is_art)
            insert_art(count, stamp);
        else if (is_map)
            insert(kind, count, stamp);
        else
            run_area(kind, count, stamp);
        cycles = now_cycles() - cycles;
        ns = now_ns() - ns;
        printf("%lu %lu %lu\n", cycles, ns, is_art ? 0 : is_map ? digest_maps() : digest_area());
        fflush(stdout);
    }
    return 0;
}
