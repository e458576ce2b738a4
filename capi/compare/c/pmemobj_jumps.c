/*
 * Signal handlers that jump out of transactions, by siglongjmp(3): the program aborts and ends them after that, or goes on. Each case prints
 * the stages, and what the pool holds before and after an open.
 */
#define _GNU_SOURCE
#include "obj_cases.h"
#include <signal.h>
#include <sys/mman.h>

static sigjmp_buf out;
static char *wall;

static void jump(int signal)
{
    siglongjmp(out, signal);
}

static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = jump};
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGSEGV, &action, NULL);
    wall = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void show(const char *when)
{
    int objects = 0, sum = 0;
    for (PMEMoid oid = pmemobj_first(pop); !OID_IS_NULL(oid); oid = pmemobj_next(oid))
        objects++;
    /* Neither the OID nor the locks. */
    for (int at = 0; at < 65536; at = at == 999 ? 50000 : at + 1)
        sum += r[at];
    printf("  %s: stage %d bytes %d %d %d sum %d objects %d\n", when, pmemobj_tx_stage(), r[0], r[99], r[60000], sum, objects);
}

/* Shows the pool, lets a transaction follow, and shows it once more after an open. */
static void finish(void)
{
    show("left");
    TX_BEGIN(pop) {
        pmemobj_tx_add_range(root, 99, 1);
        r[99] = 9;
        pmemobj_tx_alloc(10, 1);
    } TX_ONABORT {
        printf("  the next one aborted\n");
    } TX_END
    show("followed");
    reopen();
    show("opened");
    pmemobj_close(pop);
    printf("  check %d\n", pmemobj_check(PATH, "x"));
}

/* Changes bytes and objects. */
static void change(void)
{
    PMEMoid *held = (PMEMoid *)(r + 1024);
    pmemobj_tx_add_range(root, 0, 100);
    memset(r, 1, 100);
    pmemobj_tx_add_range(root, 50000, 15000);
    memset(r + 50000, 2, 15000);
    pmemobj_tx_add_range_direct(held, sizeof(*held));
    pmemobj_tx_free(*held);
    *held = pmemobj_tx_zalloc(3000, 2);
}

static void prepare(void)
{
    catch_signals();
    pmemobj_alloc(pop, (PMEMoid *)(r + 1024), 200, 2, NULL, NULL);
}

static void end(void)
{
    int tx_errno = pmemobj_tx_errno(), result = pmemobj_tx_end();
    printf("  errno %d end %d stage %d\n", tx_errno, result, pmemobj_tx_stage());
}

static void abort_after_jump(void)
{
    prepare();
    if (sigsetjmp(out, 1) == 0) {
        pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
        change();
        raise(SIGUSR1);
    }
    printf("  jumped to stage %d\n", pmemobj_tx_stage());
    pmemobj_tx_abort(ECANCELED);
    end();
    finish();
}

/* The fault of a store between two changes. */
static void abort_after_fault(void)
{
    prepare();
    int signal = sigsetjmp(out, 1);
    if (signal == 0) {
        pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
        change();
        memcpy(wall, r, 8);
        change();
    }
    printf("  signal %d stage %d\n", signal, pmemobj_tx_stage());
    pmemobj_tx_abort(EFAULT);
    end();
    finish();
}

/* An end without an abort is one. */
static void process_after_jump(void)
{
    prepare();
    if (sigsetjmp(out, 1) == 0) {
        pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
        change();
        raise(SIGUSR1);
    }
    pmemobj_tx_process();
    printf("  stage %d\n", pmemobj_tx_stage());
    end();
    finish();
}

static void go_on_after_jump(void)
{
    prepare();
    pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
    for (volatile int round = 0; round < 3; round++) {
        if (sigsetjmp(out, 1) == 0) {
            change();
            raise(SIGUSR1);
        }
    }
    pmemobj_tx_commit();
    end();
    finish();
}

static void jump_out_of_nested(void)
{
    prepare();
    if (sigsetjmp(out, 1) == 0) {
        pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
        change();
        pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
        pmemobj_tx_alloc(500, 3);
        raise(SIGUSR1);
    }
    pmemobj_tx_abort(7);
    end();
    end();
    finish();
}

/* The outer transaction jumps to its own place when it is aborted. */
static void jump_to_place_of_abort(void)
{
    jmp_buf place;
    volatile int signals = 0;
    prepare();
    int error = setjmp(place);
    if (error == 0) {
        if (sigsetjmp(out, 1) == 0) {
            pmemobj_tx_begin(pop, place, TX_PARAM_NONE);
            change();
            raise(SIGUSR1);
        }
        signals++;
        pmemobj_tx_abort(17);
        printf("  not here\n");
    }
    printf("  aborted with %d after %d signals, stage %d\n", error, signals, pmemobj_tx_stage());
    end();
    finish();
}

static void abort_of_handler(int signal)
{
    pmemobj_tx_abort(signal);
}

static void abort_in_handler(void)
{
    prepare();
    struct sigaction action = {.sa_handler = abort_of_handler, .sa_flags = SA_NODEFER};
    sigaction(SIGUSR2, &action, NULL);
    TX_BEGIN(pop) {
        change();
        raise(SIGUSR2);
        printf("  not here\n");
    } TX_ONABORT {
        printf("  aborted with %d\n", pmemobj_tx_errno());
    } TX_FINALLY {
        printf("  finally\n");
    } TX_END
    finish();
}

static void locks_are_released(void)
{
    PMEMmutex *mutex = (PMEMmutex *)(r + 2048);
    PMEMrwlock *rwlock = (PMEMrwlock *)(r + 4096);
    prepare();
    if (sigsetjmp(out, 1) == 0) {
        pmemobj_tx_begin(pop, NULL, TX_PARAM_MUTEX, mutex, TX_PARAM_RWLOCK, rwlock, TX_PARAM_NONE);
        change();
        raise(SIGUSR1);
    }
    printf("  try %d %d\n", pmemobj_mutex_trylock(pop, mutex), pmemobj_rwlock_trywrlock(pop, rwlock));
    pmemobj_tx_abort(1);
    end();
    printf("  try %d %d\n", pmemobj_mutex_trylock(pop, mutex), pmemobj_rwlock_trywrlock(pop, rwlock));
    finish();
}

static void jump_out_of_commit_stage(void)
{
    prepare();
    if (sigsetjmp(out, 1) == 0) {
        pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
        change();
        pmemobj_tx_commit();
        raise(SIGUSR1);
    }
    printf("  stage %d\n", pmemobj_tx_stage());
    end();
    finish();
}

static void jump_in_callback(PMEMobjpool *pool, enum pobj_tx_stage stage, void *argument)
{
    printf("  callback pool %d stage %d argument %p\n", pool == pop, stage, argument);
    if (stage == TX_STAGE_ONCOMMIT)
        raise(SIGUSR1);
}

static void jump_out_of_callback(void)
{
    prepare();
    if (sigsetjmp(out, 1) == 0) {
        pmemobj_tx_begin(pop, NULL, TX_PARAM_CB, jump_in_callback, NULL, TX_PARAM_NONE);
        change();
        pmemobj_tx_commit();
    }
    printf("  stage %d\n", pmemobj_tx_stage());
    end();
    finish();
}

/* More transactions are left by jumps than the pool has lanes. */
static void jump_again_and_again(void)
{
    volatile int aborted = 0;
    prepare();
    for (volatile int round = 0; round < 3000; round++) {
        if (sigsetjmp(out, 1) == 0) {
            pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
            change();
            raise(SIGUSR1);
        }
        pmemobj_tx_abort(ECANCELED);
        aborted += pmemobj_tx_end() == ECANCELED;
    }
    printf("  aborted %d\n", aborted);
    finish();
}

int main(void)
{
    static const struct obj_case cases[] = {
        {"abort after jump", abort_after_jump},
        {"abort after fault", abort_after_fault},
        {"process after jump", process_after_jump},
        {"go on after jump", go_on_after_jump},
        {"jump out of nested", jump_out_of_nested},
        {"jump to place of abort", jump_to_place_of_abort},
        {"abort in handler", abort_in_handler},
        {"locks are released", locks_are_released},
        {"jump out of commit stage", jump_out_of_commit_stage},
        {"jump out of callback", jump_out_of_callback},
        {"jump again and again", jump_again_and_again},
    };
    return run_cases(cases, COUNT(cases));
}
