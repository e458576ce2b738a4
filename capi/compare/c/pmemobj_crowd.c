/*
 * More threads than the pool has lanes: each begins a transaction at the same time as all others, and commits. Prints what the pool holds.
 *
 *   pmemobj_crowd THREADS
 */
#include "obj_cases.h"
#include <pthread.h>

/* The words that the threads count in. */
#define WORDS 64

static pthread_barrier_t all;

static void *work(void *argument)
{
    long at = (long)argument;
    PMEMmutex *mutex = (PMEMmutex *)(r + 8192) + at % WORDS;
    int *word = (int *)r + at % WORDS;
    pthread_barrier_wait(&all);
    for (int round = 0; round < 3; round++) {
        TX_BEGIN_PARAM(pop, TX_PARAM_MUTEX, mutex, TX_PARAM_NONE) {
            pmemobj_tx_add_range_direct(word, sizeof(*word));
            *word += 1;
            *(long *)pmemobj_direct(pmemobj_tx_zalloc(60, 2)) = at;
        } TX_ONABORT {
            printf("thread %ld aborted: %s\n", at, pmemobj_errormsg());
            exit(1);
        } TX_END
    }
    return NULL;
}

static void show(long threads)
{
    int sum = 0, objects = 0, missing = 0;
    unsigned char *found = calloc((size_t)threads, 1);
    for (int at = 0; at < WORDS; at++)
        sum += ((int *)r)[at];
    for (PMEMoid oid = POBJ_FIRST_TYPE_NUM(pop, 2); !OID_IS_NULL(oid); oid = POBJ_NEXT_TYPE_NUM(oid), objects++)
        found[*(long *)pmemobj_direct(oid)]++;
    for (long at = 0; at < threads; at++)
        missing += found[at] != 3;
    printf("sum %d objects %d missing %d\n", sum, objects, missing);
    free(found);
}

int main(int argc, char **argv)
{
    long threads = argc > 1 ? atol(argv[1]) : 0;
    pthread_t *names = calloc((size_t)threads, sizeof(*names));
    pthread_attr_t small;
    (void)run_cases;
    alarm(100);
    make_pool();
    pthread_barrier_init(&all, NULL, (unsigned)threads);
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    for (long at = 0; at < threads; at++) {
        if (pthread_create(&names[at], &small, work, (void *)at) != 0) {
            printf("no thread %ld\n", at);
            return 1;
        }
    }
    for (long at = 0; at < threads; at++)
        pthread_join(names[at], NULL);
    show(threads);
    reopen();
    show(threads);
    pmemobj_close(pop);
    printf("check %d\n", pmemobj_check(PATH, "x"));
    return 0;
}
