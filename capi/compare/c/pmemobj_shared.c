/*
 * Threads that share one pool, and its locks: each sum is what they added to it. With the argument `race` they add to one word without
 * a lock, too.
 */
#include "obj_cases.h"
#include <pthread.h>

#define THREADS 6
#define ROUNDS 200
#define TURNS 60

struct shared {
    PMEMmutex mutex, turn_mutex, tx_mutex;
    PMEMrwlock rwlock, tx_rwlock;
    PMEMcond turned;
    long by_mutex, by_rwlock, by_tx_mutex, by_tx_rwlock, by_lock, turns, unguarded;
    long read[THREADS];
};

/* The sanitizer looks at this program. It doesn't know the atomic accesses of a library that was compiled without it. */
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
    return "race:libpmemobj.so.1\n";
}

static struct shared *shared;
static int is_racing;

static void add_by_locks(long thread)
{
    pmemobj_mutex_lock(pop, &shared->mutex);
    shared->by_mutex++;
    pmemobj_mutex_unlock(pop, &shared->mutex);
    pmemobj_rwlock_wrlock(pop, &shared->rwlock);
    shared->by_rwlock++;
    pmemobj_rwlock_unlock(pop, &shared->rwlock);
    pmemobj_rwlock_rdlock(pop, &shared->rwlock);
    shared->read[thread] = shared->by_rwlock;
    pmemobj_rwlock_unlock(pop, &shared->rwlock);
}

/* The locks are held until the transaction has ended. Each eighth gives up. */
static void add_in_transactions(int round)
{
    TX_BEGIN_PARAM(pop, TX_PARAM_MUTEX, &shared->tx_mutex, TX_PARAM_RWLOCK, &shared->tx_rwlock, TX_PARAM_NONE) {
        pmemobj_tx_add_range_direct(&shared->by_tx_mutex, 2 * sizeof(long));
        shared->by_tx_mutex++;
        shared->by_tx_rwlock++;
        if (round % 8 == 0)
            pmemobj_tx_abort(ECANCELED);
    } TX_END
    TX_BEGIN(pop) {
        pmemobj_tx_lock(TX_PARAM_MUTEX, &shared->mutex);
        pmemobj_tx_add_range_direct(&shared->by_lock, sizeof(long));
        shared->by_lock++;
        pmemobj_tx_free(pmemobj_tx_alloc(100, 1));
    } TX_END
}

/* One thread after the other. */
static void take_turns(long thread)
{
    for (int turn = 0; turn < TURNS / THREADS; turn++) {
        pmemobj_mutex_lock(pop, &shared->turn_mutex);
        while (shared->turns % THREADS != thread)
            pmemobj_cond_wait(pop, &shared->turned, &shared->turn_mutex);
        shared->turns++;
        pmemobj_persist(pop, &shared->turns, sizeof(long));
        pmemobj_cond_broadcast(pop, &shared->turned);
        pmemobj_mutex_unlock(pop, &shared->turn_mutex);
    }
}

static void *work(void *argument)
{
    long thread = (long)argument;
    for (int round = 0; round < ROUNDS; round++) {
        add_by_locks(thread);
        add_in_transactions(round);
        if (is_racing)
            shared->unguarded++;
    }
    take_turns(thread);
    return NULL;
}

int main(int argc, char **argv)
{
    (void)argv, (void)run_cases;
    is_racing = argc > 1;
    make_pool();
    shared = (struct shared *)r;
    pthread_t threads[THREADS];
    for (long at = 0; at < THREADS; at++)
        pthread_create(&threads[at], NULL, work, (void *)at);
    for (int at = 0; at < THREADS; at++)
        pthread_join(threads[at], NULL);
    printf("mutex %ld rwlock %ld transactions %ld %ld lock %ld turns %ld\n", shared->by_mutex, shared->by_rwlock,
        shared->by_tx_mutex, shared->by_tx_rwlock, shared->by_lock, shared->turns);
    pmemobj_close(pop);
    return 0;
}
