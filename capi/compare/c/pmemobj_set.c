/*
 * Calls on the object pool whose set file is `set` in the current folder. The first word says how it is opened, the others are done in
 * turn. A refusal is printed as the errno and the library's message.
 *
 *   pmemobj_set check               prints what pmemobj_check answers
 *   pmemobj_set sync                makes parts that are missing from the other replica, by Debian's libpmempool
 *   pmemobj_set create[:SIZE]|open WORD...
 *     step:BYTES      sets heap.size.granularity
 *     extend:BYTES    runs heap.size.extend
 *     alloc:COUNT:BYTES, tx:COUNT:BYTES    allocates objects, by an atomic call or a transaction each
 *     fill:BYTES      allocates objects of this size until one is refused
 *     free:ONE_IN     frees each object whose number is a multiple of it
 *     change:ROUND    changes bytes of all objects, by a transaction, a persist or a copy each
 *     stray           stores to an object and announces it to no call
 *     show            prints the number of the objects and a sum over their content
 *     state           prints the shutdown state in the header of the open pool
 *     fork            goes on in a child, and ends the parent
 *     kill            ends the process by a signal, with a transaction open
 */
#include <dlfcn.h>
#include <errno.h>
#include <libpmemobj.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Offset of the shutdown state in the header of a pool. */
#define SHUTDOWN_STATE 4024

static int made;

static void refused(const char *word)
{
    printf("%s: errno %d %s\n", word, errno, pmemobj_errormsg());
}

static void fill(void *at, size_t size, int value)
{
    unsigned char *bytes = at;
    for (size_t index = 0; index < size; index += 61)
        bytes[index] = (unsigned char)(value + (int)index);
    bytes[size - 1] = (unsigned char)value;
}

static int construct(PMEMobjpool *pool, void *object, void *size)
{
    fill(object, *(size_t *)size, ++made);
    pmemobj_persist(pool, object, *(size_t *)size);
    return 0;
}

static int allocate(PMEMobjpool *pool, size_t size, int in_transaction)
{
    if (!in_transaction)
        return pmemobj_alloc(pool, NULL, size, (uint64_t)(size % 100), construct, &size);
    volatile int result = 0;
    TX_BEGIN(pool) {
        fill(pmemobj_direct(pmemobj_tx_alloc(size, (uint64_t)(size % 100))), size, ++made);
    } TX_ONABORT {
        result = -1;
    } TX_END
    return result;
}

static long allocate_some(PMEMobjpool *pool, long count, size_t size, int in_transaction)
{
    for (long done = 0; done < count; done++)
        if (allocate(pool, size, in_transaction) != 0)
            return done;
    return count;
}

static void free_some(PMEMobjpool *pool, int one_in)
{
    int number = 0;
    for (PMEMoid next, oid = pmemobj_first(pool); !OID_IS_NULL(oid); oid = next) {
        next = pmemobj_next(oid);
        if (number++ % one_in == 0)
            pmemobj_free(&oid);
    }
}

static void change_in_transaction(PMEMobjpool *pool, void *at, int round)
{
    TX_BEGIN(pool) {
        pmemobj_tx_add_range_direct(at, 8);
        memset(at, round, 8);
    } TX_END
}

static void change(PMEMobjpool *pool, int round)
{
    int number = 0;
    for (PMEMoid oid = pmemobj_first(pool); !OID_IS_NULL(oid); oid = pmemobj_next(oid), number++) {
        unsigned char *at = pmemobj_direct(oid);
        at += (size_t)number * 7 % (pmemobj_alloc_usable_size(oid) - 7);
        if (number % 3 == 0) {
            change_in_transaction(pool, at, round);
        } else if (number % 3 == 1) {
            memset(at, round, 8);
            pmemobj_persist(pool, at, 8);
        } else {
            unsigned char bytes[8];
            memset(bytes, round, 8);
            pmemobj_memcpy_persist(pool, at, bytes, 8);
        }
    }
}

static void show(PMEMobjpool *pool)
{
    int count = 0;
    uint64_t sum = 0;
    for (PMEMoid oid = pmemobj_first(pool); !OID_IS_NULL(oid); oid = pmemobj_next(oid), count++) {
        const unsigned char *bytes = pmemobj_direct(oid);
        size_t size = pmemobj_alloc_usable_size(oid);
        /* Not only the bytes that `fill` has stored: objects of zeros and garbage have others after these. */
        for (size_t index = 0; index < size; index += 61)
            sum = sum * 31 + bytes[index];
    }
    printf("%d objects, %lx\n", count, (unsigned long)sum);
}

static void kill_in_transaction(PMEMobjpool *pool)
{
    PMEMoid oid = pmemobj_first(pool);
    TX_BEGIN(pool) {
        if (!OID_IS_NULL(oid)) {
            pmemobj_tx_add_range(oid, 0, 64);
            memset(pmemobj_direct(oid), 0xee, 64);
        }
        pmemobj_tx_xalloc(5000, 9, POBJ_XALLOC_NO_ABORT);
        kill(getpid(), SIGKILL);
    } TX_END
}

static void run(PMEMobjpool *pool, const char *word)
{
    size_t number = 0, size = 0;
    const char *numbers = strchr(word, ':');
    if (numbers != NULL)
        sscanf(numbers, ":%zu:%zu", &number, &size);
    if (strncmp(word, "step", 4) == 0) {
        if (pmemobj_ctl_set(pool, "heap.size.granularity", &number) != 0)
            refused(word);
    } else if (strncmp(word, "extend", 6) == 0) {
        if (pmemobj_ctl_exec(pool, "heap.size.extend", &number) != 0)
            refused(word);
    } else if (strncmp(word, "alloc", 5) == 0 || strncmp(word, "tx", 2) == 0) {
        if (allocate_some(pool, (long)number, size, word[0] == 't') < (long)number)
            refused(word);
    } else if (strncmp(word, "fill", 4) == 0) {
        long count = allocate_some(pool, 1L << 40, number, 0);
        fprintf(stderr, "filled with %ld\n", count);
    } else if (strncmp(word, "free", 4) == 0) {
        free_some(pool, (int)number);
    } else if (strncmp(word, "change", 6) == 0) {
        change(pool, (int)number);
    } else if (strcmp(word, "stray") == 0) {
        memset((char *)pmemobj_direct(pmemobj_first(pool)) + 100, 0x77, 8);
    } else if (strcmp(word, "show") == 0) {
        show(pool);
    } else if (strcmp(word, "state") == 0) {
        const uint64_t *words = (const uint64_t *)((const char *)pool + SHUTDOWN_STATE);
        printf("%lu unsafe shutdowns of %lx, dirty %lu\n", words[0], words[1], words[2]);
    } else if (strcmp(word, "fork") == 0) {
        fflush(stdout);
        if (fork() != 0)
            _exit(0);
    } else if (strcmp(word, "kill") == 0) {
        fflush(stdout);
        kill_in_transaction(pool);
    }
}

static int synchronize(void)
{
    void *library = dlopen("libpmempool.so.1", RTLD_NOW);
    int (*sync)(const char *, unsigned) = NULL;
    const char *(*message)(void) = NULL;
    if (library != NULL) {
        *(void **)&sync = dlsym(library, "pmempool_sync");
        *(void **)&message = dlsym(library, "pmempool_errormsg");
    }
    int result = sync == NULL ? -1 : sync("set", 0);
    if (result != 0)
        printf("sync: errno %d %s\n", errno, message == NULL ? "" : message());
    return result != 0;
}

static int check(void)
{
    int answer = pmemobj_check("set", "layout");
    printf("check: %d\n", answer);
    if (answer < 0)
        refused("check");
    return answer != 1;
}

int main(int count, char **words)
{
    if (count < 2)
        return 2;
    if (strcmp(words[1], "sync") == 0)
        return synchronize();
    if (strcmp(words[1], "check") == 0)
        return check();
    int is_new = strncmp(words[1], "create", 6) == 0;
    size_t size = strchr(words[1], ':') == NULL ? 0 : strtoul(strchr(words[1], ':') + 1, NULL, 10);
    PMEMobjpool *pool = is_new ? pmemobj_create("set", "layout", size, 0640) : pmemobj_open("set", "layout");
    if (pool == NULL) {
        refused(words[1]);
        return 1;
    }
    for (int index = 2; index < count; index++)
        run(pool, words[index]);
    pmemobj_close(pool);
    return 0;
}
