/*
 * Maps of the package's examples in one pool, one for each thread, and a journal outside of it: a line `THREAD NUMBER` of the output for
 * each change that has returned.
 *
 *   program create POOL
 *   program change POOL                until it is killed
 *   program check POOL NUMBER...       the last number of each thread in the journal; closes the pool
 *   program look POOL NUMBER...        as check, and ends without a close
 *
 * Change N of a thread adds a key, and removes the key of the change KEPT before. So N determines the keys of a map. The
 * thread's word in the root has N. The last thread has a map of atomic calls, which are no transaction with this word.
 */
#include <errno.h>
#include <libpmemobj.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "map.h"
#include "map_btree.h"
#include "map_hashmap_atomic.h"
#include "map_hashmap_tx.h"
#include "map_rbtree.h"

#define THREADS 4
#define ATOMIC (THREADS - 1)
#define KEPT 16
#define WORDS_MAX 100
#define TYPE_VALUE 7
/* Of so many changes one sleeps before its end: the kernel writes pages back meanwhile. */
#define SLEEP_INTERVAL 4

struct account {
    TOID(struct map) map;
    uint64_t number;
};

struct root {
    struct account accounts[THREADS];
};

static PMEMobjpool *pool;
static struct root *root;
static struct map_ctx *maps[THREADS];

static void fail(const char *what, long thread, uint64_t number)
{
    fprintf(stderr, "thread %ld, change %lu: %s: %s\n", thread, number, what, pmemobj_errormsg());
    _exit(1);
}

static uint64_t key(long thread, uint64_t number)
{
    return (number * THREADS + (uint64_t)thread) * 0x9e3779b97f4a7c15u;
}

static size_t words(uint64_t key)
{
    return 1 + (key >> 40) % WORDS_MAX;
}

/* Each fifth change is made and given up before. */
static void change_in_transaction(long thread, uint64_t number, int is_given_up)
{
    struct account *account = &root->accounts[thread];
    uint64_t new = key(thread, number), old = key(thread, number - KEPT);
    TX_BEGIN(pool) {
        pmemobj_tx_add_range_direct(&account->number, sizeof(account->number));
        account->number = number;
        PMEMoid value = pmemobj_tx_alloc(words(new) * sizeof(uint64_t), TYPE_VALUE);
        uint64_t *content = pmemobj_direct(value);
        for (size_t at = 0; at < words(new); at++)
            content[at] = new + at;
        if (map_insert(maps[thread], account->map, new, value) != 0)
            fail("insert", thread, number);
        if (number > KEPT) {
            PMEMoid removed = map_remove(maps[thread], account->map, old);
            if (OID_IS_NULL(removed))
                fail("remove", thread, number);
            pmemobj_tx_free(removed);
        }
        if (number % SLEEP_INTERVAL == 0)
            usleep(3000);
        if (is_given_up)
            pmemobj_tx_abort(ECANCELED);
    } TX_ONABORT {
        if (!is_given_up)
            fail("abort", thread, number);
    } TX_END
}

/* A kill may have left a part of the change. */
static void change_by_atomic_calls(long thread, uint64_t number)
{
    struct account *account = &root->accounts[thread];
    uint64_t new = key(thread, number), old = key(thread, number - KEPT);
    PMEMoid value = {pmemobj_oid(root).pool_uuid_lo, new};
    if (!map_lookup(maps[thread], account->map, new) && map_insert(maps[thread], account->map, new, value) != 0)
        fail("insert", thread, number);
    if (number > KEPT && map_lookup(maps[thread], account->map, old))
        map_remove(maps[thread], account->map, old);
    account->number = number;
    pmemobj_persist(pool, &account->number, sizeof(account->number));
}

static void acknowledge(long thread, uint64_t number)
{
    if (dprintf(STDOUT_FILENO, "%ld %lu\n", thread, number) < 0)
        _exit(1);
}

static void *change(void *argument)
{
    long thread = (long)argument;
    uint64_t number = root->accounts[thread].number;
    /* The kill of the last run may have been between the change and its line. */
    acknowledge(thread, number);
    for (number++;; number++) {
        if (thread == ATOMIC) {
            change_by_atomic_calls(thread, number);
        } else {
            if (number % 5 == 0)
                change_in_transaction(thread, number, 1);
            change_in_transaction(thread, number, 0);
        }
        acknowledge(thread, number);
    }
    return NULL;
}

static void change_all(void)
{
    pthread_t threads[THREADS];
    for (long at = 0; at < THREADS; at++)
        if (pthread_create(&threads[at], NULL, change, (void *)at) != 0)
            exit(1);
    for (int at = 0; at < THREADS; at++)
        pthread_join(threads[at], NULL);
}

/* Returns 1 if the map has the key, with its value. */
static int has(long thread, uint64_t number)
{
    uint64_t wanted = key(thread, number);
    PMEMoid value = map_get(maps[thread], root->accounts[thread].map, wanted);
    if (OID_IS_NULL(value))
        return 0;
    if (thread == ATOMIC) {
        if (value.off != wanted)
            fail("another value", thread, number);
        return 1;
    }
    if (pmemobj_type_num(value) != TYPE_VALUE || pmemobj_alloc_usable_size(value) < words(wanted) * sizeof(uint64_t))
        fail("no object of a value", thread, number);
    const uint64_t *content = pmemobj_direct(value);
    for (size_t at = 0; at < words(wanted); at++)
        if (content[at] != wanted + at)
            fail("another content", thread, number);
    return 1;
}

static int count(uint64_t key, PMEMoid value, void *argument)
{
    (void)key, (void)value;
    ++*(size_t *)argument;
    return 0;
}

static void check(long thread, uint64_t acknowledged)
{
    uint64_t number = root->accounts[thread].number;
    size_t wanted = 0, found = 0;
    if (number < acknowledged || number > acknowledged + 1)
        fail("not the change that the journal has last", thread, number);
    /* An atomic change after the last one may be there in part. */
    int is_begun = thread == ATOMIC && has(thread, number + 1);
    for (uint64_t at = number > KEPT ? number - KEPT + 1 : 1; at <= number; at++) {
        int is_there = has(thread, at);
        if (!is_there && !(is_begun && at + KEPT == number + 1))
            fail("no key of a change", thread, at);
        wanted += (size_t)is_there;
    }
    map_foreach(maps[thread], root->accounts[thread].map, count, &found);
    if (found != wanted + (size_t)is_begun)
        fail("more keys", thread, number);
}

/* Objects: the values of the maps of transactions, and none that belongs to nothing. */
static void check_values(void)
{
    size_t wanted = 0, found = 0;
    PMEMoid object;
    for (int at = 0; at < ATOMIC; at++)
        wanted += root->accounts[at].number < KEPT ? root->accounts[at].number : KEPT;
    POBJ_FOREACH(pool, object)
        found += pmemobj_type_num(object) == TYPE_VALUE;
    if (found != wanted)
        fail("not as many values as keys", -1, found);
}

static void prepare(int is_new)
{
    static const struct map_ops *const kinds[THREADS] = {MAP_BTREE, MAP_RBTREE, MAP_HASHMAP_TX, MAP_HASHMAP_ATOMIC};
    root = pmemobj_direct(pmemobj_root(pool, sizeof(struct root)));
    for (int at = 0; at < THREADS; at++) {
        maps[at] = map_ctx_init(kinds[at], pool);
        if (is_new && map_create(maps[at], &root->accounts[at].map, NULL) != 0)
            fail("map", at, 0);
        if (!is_new && at >= 2 && map_init(maps[at], root->accounts[at].map) != 0)
            fail("map", at, 0);
    }
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    int is_new = strcmp(argv[1], "create") == 0;
    pool = is_new ? pmemobj_create(argv[2], "journal", PMEMOBJ_MIN_POOL, 0600) : pmemobj_open(argv[2], "journal");
    if (pool == NULL)
        fail(argv[2], -1, 0);
    prepare(is_new);
    if (strcmp(argv[1], "change") == 0)
        change_all();
    for (int at = 0; at < argc - 3 && at < THREADS; at++)
        check(at, strtoul(argv[3 + at], NULL, 10));
    if (argc > 3)
        check_values();
    if (strcmp(argv[1], "look") == 0)
        _exit(0);
    pmemobj_close(pool);
    return 0;
}
