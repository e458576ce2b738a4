/*
 * Threads that make, use, close and open pools of their own, beside each other: each look-up by a handle, an address or an OID finds
 * its pool.
 */
#include "obj_cases.h"
#include <pthread.h>

#define THREADS 12

static PMEMobjpool *checked(PMEMobjpool *pool)
{
    if (pool == NULL) {
        printf("%s\n", pmemobj_errormsg());
        exit(1);
    }
    return pool;
}

static void *work(void *argument)
{
    char path[16];
    snprintf(path, sizeof(path), "pool%ld", (long)argument);
    PMEMobjpool *pool = checked(pmemobj_create(path, path, PMEMOBJ_MIN_POOL, 0600));
    PMEMoid oid = OID_NULL;
    long value = 0;
    TX_BEGIN(pool) {
        oid = pmemobj_tx_zalloc(64, 1);
    } TX_END
    for (int round = 0; round < 6; round++) {
        for (int count = 0; count < 20; count++) {
            long *word = pmemobj_direct(oid);
            if (*word != value || pmemobj_pool_by_ptr(word) != pool || pmemobj_pool_by_oid(oid) != pool
                || !OID_EQUALS(pmemobj_oid(word), oid)) {
                printf("%s: %ld instead of %ld\n", path, *word, value);
                exit(1);
            }
            TX_BEGIN(pool) {
                pmemobj_tx_add_range(oid, 0, sizeof(*word));
                *word = ++value;
            } TX_END
        }
        pmemobj_close(pool);
        pool = checked(pmemobj_open(path, path));
    }
    pmemobj_close(pool);
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    (void)run_cases;
    for (long at = 0; at < THREADS; at++)
        pthread_create(&threads[at], NULL, work, (void *)at);
    for (int at = 0; at < THREADS; at++)
        pthread_join(threads[at], NULL);
    printf("done\n");
    return 0;
}
