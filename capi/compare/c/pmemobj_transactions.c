/*
 * What transactions, locks and persists leave in a pool, and what is there when it is opened again.
 */
#include "obj_cases.h"
#include <pthread.h>
#include <time.h>
#include <wchar.h>

static void *try_mutex(void *mutex)
{
    long error = pmemobj_mutex_trylock(pop, mutex);
    if (error == 0)
        pmemobj_mutex_unlock(pop, mutex);
    return (void *)error;
}

static void *try_rwlock(void *lock)
{
    long error = pmemobj_rwlock_tryrdlock(pop, lock);
    if (error == 0)
        pmemobj_rwlock_unlock(pop, lock);
    return (void *)error;
}

/* Returns what another thread gets for the lock. */
static int other(void *(*call)(void *), void *lock)
{
    pthread_t thread;
    void *error;
    pthread_create(&thread, NULL, call, lock);
    pthread_join(thread, &error);
    return (int)(long)error;
}

static void *work(void *argument)
{
    long number = (long)argument;
    char *own = r + 4096 + number * 256;
    for (int i = 0; i < 2000; i++) {
        TX_BEGIN(pop) {
            pmemobj_tx_add_range_direct(own, 8);
            *(long *)own = i;
            PMEMoid oid = pmemobj_tx_alloc((size_t)(64 + number), 2);
            pmemobj_tx_free(oid);
            if (i % 7 == 3)
                pmemobj_tx_abort(0);
        } TX_END
    }
    return NULL;
}

static void *wait_for_byte(void *start)
{
    char *own = start;
    pmemobj_mutex_lock(pop, (void *)own);
    while (own[256] == 0)
        pmemobj_cond_wait(pop, (void *)(own + 64), (void *)own);
    pmemobj_mutex_unlock(pop, (void *)own);
    return NULL;
}

static void commit_and_reopen_case(void)
{
    TX_BEGIN(pop) {
        pmemobj_tx_add_range(root, 0, 100);
        memset(r, 7, 100);
    } TX_END
    reopen();
    printf(" %d %d %d\n", r[0], r[99], r[100]);
}

static void abort_case(void)
{
    memset(r, 1, 100);
    pmemobj_persist(pop, r, 100);
    TX_BEGIN(pop) {
        pmemobj_tx_add_range(root, 0, 50);
        memset(r, 7, 100);
        pmemobj_tx_abort(5);
    } TX_ONABORT {
        printf(" abort %d errno %d\n", pmemobj_tx_errno(), errno);
    } TX_FINALLY {
        puts(" finally");
    } TX_END
    printf(" %d %d errno %d\n", r[0], r[50], errno);
    reopen();
    printf(" %d\n", r[0]);
}

static void no_snapshot_case(void)
{
    memset(r, 1, 100);
    pmemobj_persist(pop, r, 100);
    TX_BEGIN(pop) {
        pmemobj_tx_xadd_range(root, 0, 50, POBJ_XADD_NO_SNAPSHOT);
        memset(r, 7, 50);
        pmemobj_tx_abort(5);
    } TX_END
    printf(" %d\n", r[0]);
    TX_BEGIN(pop) {
        pmemobj_tx_xadd_range(root, 0, 50, POBJ_XADD_NO_SNAPSHOT | POBJ_XADD_NO_FLUSH | POBJ_XADD_ASSUME_INITIALIZED);
        memset(r, 9, 50);
    } TX_END
    reopen();
    printf(" %d\n", r[0]);
}

static void alloc_case(void)
{
    PMEMoid o;
    TX_BEGIN(pop) {
        o = pmemobj_tx_alloc(100, 3);
        memset(pmemobj_direct(o), 5, 100);
    } TX_END
    char *d = pmemobj_direct(o);
    printf(" %d\n", d[99]);
    reopen();
    d = pmemobj_direct(o);
    printf(" %d\n", d[99]);
    TX_BEGIN(pop) {
        o = pmemobj_tx_realloc(o, 5000, 3);
    } TX_END
    d = pmemobj_direct(o);
    printf(" %d\n", d[99]);
    TX_BEGIN(pop) {
        o = pmemobj_tx_zrealloc(o, 9000, 3);
    } TX_END
    d = pmemobj_direct(o);
    printf(" %d %d %d\n", d[99], d[8999], d[5500]);
    TX_BEGIN(pop) {
        o = pmemobj_tx_realloc(o, 0, 3);
    } TX_END
    printf(" %d\n", OID_IS_NULL(o));
}

static void strdup_case(void)
{
    PMEMoid a;
    PMEMoid b;
    PMEMoid c;
    TX_BEGIN(pop) {
        a = pmemobj_tx_strdup("hello", 3);
        b = pmemobj_tx_wcsdup(L"wide", 4);
        c = pmemobj_tx_strdup("", 3);
    } TX_END
    reopen();
    printf(" %s %ls [%s]\n", (char *)pmemobj_direct(a), (wchar_t *)pmemobj_direct(b), (char *)pmemobj_direct(c));
    TX_BEGIN(pop) {
        pmemobj_tx_free(a);
        pmemobj_tx_free(b);
        pmemobj_tx_free(c);
    } TX_END
}

static void alloc_until_full_abort_again_case(void)
{
    int n[3];
    for (int k = 0; k < 3; k++) {
        n[k] = 0;
        TX_BEGIN(pop) {
            for (; ; ) {
                PMEMoid o = pmemobj_tx_xalloc(100000, 3, POBJ_XALLOC_NO_ABORT);
                if (OID_IS_NULL(o)) break;
                n[k]++;
            }
            pmemobj_tx_abort(0);
        } TX_END
    }
    printf(" %d %d\n", n[0] == n[1], n[1] == n[2]);
}

static void locks_in_a_range_that_aborts_case(void)
{
    PMEMmutex *m = (void *)(r + 64);
    PMEMrwlock *w = (void *)(r + 256);
    memset(r + 512, 1, 8);
    TX_BEGIN_PARAM(pop, TX_PARAM_MUTEX, m, TX_PARAM_RWLOCK, w) {
        pmemobj_tx_add_range(root, 0, 1024);
        memset(r + 512, 2, 8);
        memset(r, 9, 64);
        printf(" held %d %d\n", other(try_mutex, m), other(try_rwlock, w));
        pmemobj_tx_abort(0);
    } TX_ONABORT {
        printf(" onabort %d %d\n", other(try_mutex, m), other(try_rwlock, w));
    } TX_END
    printf(" free %d %d content %d %d\n", other(try_mutex, m), other(try_rwlock, w), r[512], r[0]);
    reopen();
    m = (void *)(r + 64);
    printf(" reopened %d\n", other(try_mutex, m));
}

static void lock_after_its_range_case(void)
{
    char *lock = r + 64;
    TX_BEGIN(pop) {
        pmemobj_tx_add_range(root, 0, 1024);
        memset(r + 512, 2, 8);
        pmemobj_tx_lock(TX_PARAM_MUTEX, (void *)lock);
        pmemobj_tx_lock(TX_PARAM_RWLOCK, (void *)(lock + 64));
        pmemobj_tx_abort(0);
    } TX_ONABORT {
        printf(" onabort %d %d content %d\n", other(try_mutex, lock), other(try_rwlock, lock + 64), r[512]);
    } TX_END
    printf(" end %d %d\n", other(try_mutex, lock), other(try_rwlock, lock + 64));
}

static void lock_in_tx_lock_inner_level_case(void)
{
    PMEMmutex *m = (void *)(r + 64);
    TX_BEGIN(pop) {
        TX_BEGIN(pop) {
            printf(" %d\n", pmemobj_tx_lock(TX_PARAM_MUTEX, m));
        } TX_END
        printf(" inner ended %d\n", other(try_mutex, m));
    } TX_END
    printf(" ended %d\n", other(try_mutex, m));
}

static void locked_at_exit_case(void)
{
    PMEMmutex *m = (void *)(r + 64);
    pmemobj_mutex_lock(pop, m);
    printf(" %d\n", pmemobj_mutex_trylock(pop, m));
    reopen();
    m = (void *)(r + 64);
    printf(" %d\n", pmemobj_mutex_trylock(pop, m));
    pmemobj_mutex_zero(pop, m);
    printf(" %d\n", pmemobj_mutex_trylock(pop, m));
}

static void timed_case(void)
{
    PMEMmutex *m = (void *)(r + 64);
    PMEMrwlock *w = (void *)(r + 128);
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    printf(" %d\n", pmemobj_mutex_timedlock(pop, m, &t));
    printf(" %d\n", pmemobj_mutex_timedlock(pop, m, &t));
    printf(" %d\n", pmemobj_rwlock_timedrdlock(pop, w, &t));
    printf(" %d\n", pmemobj_rwlock_timedwrlock(pop, w, &t));
    printf(" %d\n", pmemobj_rwlock_trywrlock(pop, w));
    printf(" %d\n", pmemobj_rwlock_tryrdlock(pop, w));
    PMEMcond *c = (void *)(r + 192);
    printf(" %d\n", pmemobj_cond_timedwait(pop, c, m, &t));
}

static void cond_case(void)
{
    pthread_t t[4];
    for (int i = 0; i < 4; i++) pthread_create(t + i, 0, wait_for_byte, r);
    usleep(20000);
    pmemobj_mutex_lock(pop, (void *)r);
    r[256] = 1;
    pmemobj_cond_broadcast(pop, (void *)(r + 64));
    pmemobj_mutex_unlock(pop, (void *)r);
    for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
    puts(" all");
}

static void threads_case(void)
{
    pthread_t t[4];
    for (long i = 0; i < 4; i++) pthread_create(t + i, 0, work, (void *)i);
    for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
    reopen();
    for (int i = 0; i < 4; i++) printf(" %ld\n", *(long *)(r + 4096 + i * 256));
}

static void copies_case(void)
{
    char b[5000];
    memset(b, 3, 5000);
    printf(" %d\n", pmemobj_memcpy_persist(pop, r, b, 5000) == r);
    pmemobj_memcpy(pop, r + 5000, b, 5000, PMEMOBJ_F_MEM_NODRAIN);
    pmemobj_memmove(pop, r + 100, r, 4000, PMEMOBJ_F_MEM_NONTEMPORAL);
    pmemobj_memset(pop, r + 10000, 4, 100, 0);
    pmemobj_memset_persist(pop, r + 10100, 5, 100);
    pmemobj_memset(pop, r + 10200, 6, 100, PMEMOBJ_F_MEM_NOFLUSH);
    pmemobj_flush(pop, r + 10200, 100);
    pmemobj_drain(pop);
    printf(" %d %d\n", pmemobj_xpersist(pop, r, 8, PMEMOBJ_F_RELAXED), pmemobj_xpersist(pop, r, 8, 1));
    printf(" %d %s\n", errno, message());
    errno = 0;
    printf(" %d %d\n", pmemobj_xflush(pop, r, 8, 4), errno);
    reopen();
    printf(" %d %d %d %d %d\n", r[4999], r[9999], r[10000], r[10150], r[10299]);
}

static void user_logs_snapshot_case(void)
{
    PMEMoid b;
    TX_BEGIN(pop) {
        b = pmemobj_tx_alloc(4096, 9);
    } TX_END
    for (int sz = 60; sz < 400; sz += 20) {
        TX_BEGIN(pop) {
            pmemobj_tx_log_auto_alloc(TX_LOG_TYPE_SNAPSHOT, 0);
            int e = pmemobj_tx_xlog_append_buffer(TX_LOG_TYPE_SNAPSHOT, pmemobj_direct(b), sz, POBJ_XLOG_APPEND_BUFFER_NO_ABORT);
            int n = 0;
            while (n < 200 && !pmemobj_tx_xadd_range(root, n * 128, 8, POBJ_XADD_NO_ABORT)) n++;
            printf(" size %d append %d ranges %d\n", sz, e, n);
        } TX_END
    }
}

static void user_logs_large_ranges_case(void)
{
    PMEMoid b;
    TX_BEGIN(pop) {
        b = pmemobj_tx_alloc(8192, 9);
    } TX_END
    for (int sz = 1000; sz < 8000; sz += 1000) for (int len = 40; len < 6000; len*=2) {
        TX_BEGIN(pop) {
            pmemobj_tx_log_auto_alloc(TX_LOG_TYPE_SNAPSHOT, 0);
            int e = pmemobj_tx_xlog_append_buffer(TX_LOG_TYPE_SNAPSHOT, pmemobj_direct(b), sz, POBJ_XLOG_APPEND_BUFFER_NO_ABORT);
            int n = 0;
            while (n*len < 50000 && !pmemobj_tx_xadd_range(root, n*len, len, POBJ_XADD_NO_ABORT)) n++;
            printf(" size %d len %d append %d ranges %d\n", sz, len, e, n);
        } TX_END
    }
}

static void user_logs_repeated_ranges_case(void)
{
    TX_BEGIN(pop) {
        pmemobj_tx_log_auto_alloc(TX_LOG_TYPE_SNAPSHOT, 0);
        int e = 0;
        for (int i = 0; i < 1000 && !e; i++) e = pmemobj_tx_xadd_range(root, (i % 10) * 128, 100, POBJ_XADD_NO_ABORT);
        printf(" %d\n", e);
        int n = 0;
        while (n < 200 && !pmemobj_tx_xadd_range(root, 4096 + n * 128, 8, POBJ_XADD_NO_ABORT)) n++;
        printf(" %d errno %d\n", n, errno);
    } TX_END
}

static void user_logs_intent_case(void)
{
    PMEMoid b;
    PMEMoid o[300];
    TX_BEGIN(pop) {
        b = pmemobj_tx_alloc(4096, 9);
        for (int i = 0; i < 300; i++) o[i] = pmemobj_tx_alloc(10, 1);
    } TX_END
    for (int sz = 0; sz < 1200; sz += 200) {
        TX_BEGIN(pop) {
            int e = 0;
            pmemobj_tx_log_auto_alloc(TX_LOG_TYPE_INTENT, 0);
            e = pmemobj_tx_xlog_append_buffer(TX_LOG_TYPE_INTENT, pmemobj_direct(b), sz, POBJ_XLOG_APPEND_BUFFER_NO_ABORT);
            int n = 0;
            while (n < 300 && !pmemobj_tx_xfree(o[n], POBJ_XFREE_NO_ABORT)) n++;
            printf(" size %d append %d frees %d\n", sz, e, n);
            pmemobj_tx_abort(0);
        } TX_END
    }
}

static void user_log_elsewhere_case(void)
{
    TX_BEGIN(pop) {
        char x[1000];
        pmemobj_tx_log_append_buffer(TX_LOG_TYPE_INTENT, x, 1000);
    } TX_ONABORT {
        printf(" %d %s\n", pmemobj_tx_errno(), message());
    } TX_END
}

static void large_range_case(void)
{
    memset(r, 1, 65536);
    pmemobj_persist(pop, r, 65536);
    PMEMoid o;
    TX_BEGIN(pop) {
        o = pmemobj_tx_zalloc(4 << 20, 1);
    } TX_END
    char *d = pmemobj_direct(o);
    TX_BEGIN(pop) {
        pmemobj_tx_add_range(o, 0, 4 << 20);
        memset(d, 9, 4 << 20);
        pmemobj_tx_abort(0);
    } TX_END
    long s = 0;
    for (int i = 0; i < 4 << 20; i++) s += d[i];
    printf(" %ld\n", s);
    TX_BEGIN(pop) {
        pmemobj_tx_add_range(o, 0, 4 << 20);
        memset(d, 9, 4 << 20);
    } TX_END
    reopen();
    d = pmemobj_direct(o);
    s = 0;
    for (int i = 0; i < 4 << 20; i++) s += d[i];
    printf(" %ld\n", s);
}

static void oid_pools_case(void)
{
    printf(" %d %d %d %d\n", pmemobj_pool_by_ptr(r) == pop, pmemobj_pool_by_oid(root) == pop, OID_EQUALS(pmemobj_oid(r), root), OID_IS_NULL(pmemobj_oid(&root)));
    printf(" %d\n", pmemobj_pool_by_ptr(&root) == NULL);
    printf(" %p\n", pmemobj_get_user_data(pop));
    pmemobj_set_user_data(pop, &root);
    printf(" %d\n", pmemobj_get_user_data(pop) == &root);
    pmemobj_close(pop);
    printf(" %d %d\n", pmemobj_direct(root) == NULL, pmemobj_pool_by_oid(root) == NULL);
}

int main(void)
{
    static const struct obj_case cases[] = {
        {"commit and reopen", commit_and_reopen_case},
        {"abort", abort_case},
        {"no snapshot", no_snapshot_case},
        {"alloc", alloc_case},
        {"strdup", strdup_case},
        {"alloc until full, abort, again", alloc_until_full_abort_again_case},
        {"locks in a range that aborts", locks_in_a_range_that_aborts_case},
        {"lock after its range", lock_after_its_range_case},
        {"lock in tx_lock, inner level", lock_in_tx_lock_inner_level_case},
        {"locked at exit", locked_at_exit_case},
        {"timed", timed_case},
        {"cond", cond_case},
        {"threads", threads_case},
        {"copies", copies_case},
        {"user logs, snapshot", user_logs_snapshot_case},
        {"user logs, large ranges", user_logs_large_ranges_case},
        {"user logs, repeated ranges", user_logs_repeated_ranges_case},
        {"user logs, intent", user_logs_intent_case},
        {"user log elsewhere", user_log_elsewhere_case},
        {"large range", large_range_case},
        {"oid, pools", oid_pools_case},
    };
    return run_cases(cases, COUNT(cases));
}
