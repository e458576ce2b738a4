/*
 * Loads libpmemobj, whose path is the first argument, again and again, and checks that it leaves nothing behind: no thread, no
 * descriptor, no environment variable, no signal handler, no mapping. Prints the first thing that is wrong. With a second
 * argument it cancels a thread in a call.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#define PMEMOBJ_DIRECT_NON_INLINE
#include <libpmemobj.h>
#include "process.h"

static struct {
    __typeof__(pmemobj_create) *create;
    __typeof__(pmemobj_open) *open;
    __typeof__(pmemobj_close) *close;
    __typeof__(pmemobj_root) *root;
    __typeof__(pmemobj_direct) *direct;
    __typeof__(pmemobj_alloc) *alloc;
    __typeof__(pmemobj_free) *free;
    __typeof__(pmemobj_persist) *persist;
    __typeof__(pmemobj_tx_begin) *tx_begin;
    __typeof__(pmemobj_tx_add_range_direct) *tx_add_range_direct;
    __typeof__(pmemobj_tx_commit) *tx_commit;
    __typeof__(pmemobj_tx_end) *tx_end;
    __typeof__(pmemobj_errormsg) *errormsg;
} calls;

static int find(void *library)
{
    calls.create = (__typeof__(calls.create))dlsym(library, "pmemobj_create");
    calls.open = (__typeof__(calls.open))dlsym(library, "pmemobj_open");
    calls.close = (__typeof__(calls.close))dlsym(library, "pmemobj_close");
    calls.root = (__typeof__(calls.root))dlsym(library, "pmemobj_root");
    calls.direct = (__typeof__(calls.direct))dlsym(library, "pmemobj_direct");
    calls.alloc = (__typeof__(calls.alloc))dlsym(library, "pmemobj_alloc");
    calls.free = (__typeof__(calls.free))dlsym(library, "pmemobj_free");
    calls.persist = (__typeof__(calls.persist))dlsym(library, "pmemobj_persist");
    calls.tx_begin = (__typeof__(calls.tx_begin))dlsym(library, "pmemobj_tx_begin");
    calls.tx_add_range_direct = (__typeof__(calls.tx_add_range_direct))dlsym(library, "pmemobj_tx_add_range_direct");
    calls.tx_commit = (__typeof__(calls.tx_commit))dlsym(library, "pmemobj_tx_commit");
    calls.tx_end = (__typeof__(calls.tx_end))dlsym(library, "pmemobj_tx_end");
    calls.errormsg = (__typeof__(calls.errormsg))dlsym(library, "pmemobj_errormsg");
    return calls.create == NULL || calls.open == NULL || calls.close == NULL || calls.root == NULL || calls.direct == NULL
        || calls.alloc == NULL || calls.free == NULL || calls.persist == NULL || calls.tx_begin == NULL
        || calls.tx_add_range_direct == NULL || calls.tx_commit == NULL || calls.tx_end == NULL || calls.errormsg == NULL;
}

/* A thread that fails, and ends while the library stays. */
static void *fail_in_thread(void *argument)
{
    return calls.open("missing/f", NULL) == NULL ? NULL : argument;
}

static int use(void)
{
    unlink("pool");
    PMEMobjpool *pop = calls.create("pool", "lifetime", PMEMOBJ_MIN_POOL, 0600);
    if (pop == NULL)
        return fail(calls.errormsg());
    unsigned char *root = calls.direct(calls.root(pop, 64));
    PMEMoid oid;
    if (root == NULL || calls.alloc(pop, &oid, 100, 1, NULL, NULL) != 0)
        return fail(calls.errormsg());
    if (calls.tx_begin(pop, NULL, TX_PARAM_NONE) != 0 || calls.tx_add_range_direct(root, 8) != 0)
        return fail(calls.errormsg());
    root[0] = 1;
    calls.tx_commit();
    if (calls.tx_end() != 0)
        return fail("the transaction failed");
    calls.free(&oid);
    if (check_process() != 0)
        return 1;
    pthread_t thread;
    if (pthread_create(&thread, NULL, fail_in_thread, NULL) != 0 || pthread_join(thread, NULL) != 0)
        return fail("no thread");
    pid_t child = fork();
    if (child == 0) {
        root[8] = 2;
        calls.persist(pop, root + 8, 1);
        _exit(root[0] != 1);
    }
    int status;
    if (waitpid(child, &status, 0) != child || status != 0 || root[8] != 2)
        return fail("the child could not store");
    calls.close(pop);
    return 0;
}

/* A cancelled thread finishes its call of the library: the sync of a file is a cancellation point. */
static void *open_cancelled(void *argument)
{
    unlink("pool");
    pthread_cancel(pthread_self());
    PMEMobjpool *pop = calls.create("pool", "lifetime", PMEMOBJ_MIN_POOL, 0600);
    has_returned = pop != NULL && calls.open("missing/f", NULL) == NULL;
    if (pop != NULL)
        calls.close(pop);
    pthread_testcancel();
    has_gone_on = 1;
    return argument;
}

static int cancel(void)
{
    return run_cancelled(open_cancelled);
}

int main(int count, char **arguments)
{
    return load_again(count, arguments, (struct lifetime){.rounds = 40, .find = find, .use = use, .cancel = cancel});
}
