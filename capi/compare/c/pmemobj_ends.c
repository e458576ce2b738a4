/*
 * Processes and threads that end in a transaction, in all ways. The object pool `pool` is in the current folder.
 *
 *   pmemobj_ends CASE        makes the pool, commits a change, and ends as the case says
 *   pmemobj_ends show        opens the pool, prints what it holds, and closes it
 *   pmemobj_ends look        does so after one more transaction
 */
#define _GNU_SOURCE
#include "obj_cases.h"
#include <pthread.h>
#include <signal.h>

static const char *program;

/* The root's words: a change that is committed, one that is not, and a counter. */
static void commit(void)
{
    TX_BEGIN(pop) {
        pmemobj_tx_add_range(root, 0, 256);
        memset(r, 1, 256);
        *(PMEMoid *)(r + 1024) = pmemobj_tx_zalloc(200, 2);
    } TX_END
    pmemobj_persist(pop, r + 1024, sizeof(PMEMoid));
}

static void leave_open(void)
{
    PMEMoid *held = (PMEMoid *)(r + 1024);
    pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
    pmemobj_tx_add_range(root, 0, 2048);
    memset(r, 2, 512);
    pmemobj_tx_free(*held);
    *held = pmemobj_tx_zalloc(100000, 3);
    pmemobj_tx_add_range(root, 50000, 15000);
    memset(r + 50000, 3, 15000);
}

static void count(int rounds)
{
    for (int round = 0; round < rounds; round++) {
        TX_BEGIN(pop) {
            pmemobj_tx_add_range(root, 4096, 32);
            *(int *)(r + 4096) += 1;
            PMEMoid *held = (PMEMoid *)(r + 4112);
            if (!OID_IS_NULL(*held))
                pmemobj_tx_free(*held);
            *held = pmemobj_tx_zalloc(100 + round % 1000, 4);
        } TX_ONABORT {
            printf("aborted: %s\n", pmemobj_errormsg());
            exit(3);
        } TX_END
    }
}

static void end_by_exit(void)
{
    leave_open();
    exit(0);
}

static void end_at_once(void)
{
    leave_open();
    _exit(0);
}

static void end_by_abort(void)
{
    leave_open();
    abort();
}

static void end_by_kill(void)
{
    leave_open();
    raise(SIGKILL);
}

static void close_at_exit(void)
{
    pmemobj_close(pop);
}

static void end_by_exit_with_close(void)
{
    atexit(close_at_exit);
    leave_open();
    exit(0);
}

static void close_in_transaction(void)
{
    leave_open();
    pmemobj_close(pop);
    _exit(0);
}

/* Each call after that ends the process. */
static void commit_after_close(void)
{
    leave_open();
    pmemobj_close(pop);
    pmemobj_tx_commit();
}

static void alloc_after_close(void)
{
    leave_open();
    pmemobj_close(pop);
    pmemobj_tx_alloc(100, 3);
}

static void end_after_close(void)
{
    leave_open();
    pmemobj_close(pop);
    pmemobj_tx_end();
}

static void abort_after_close(void)
{
    leave_open();
    pmemobj_close(pop);
    pmemobj_tx_abort(5);
}

static void *close_alone(void *argument)
{
    pmemobj_close(argument);
    return NULL;
}

/* Another thread closes the pool. */
static void close_beside_transaction(void)
{
    pthread_t thread;
    leave_open();
    pthread_create(&thread, NULL, close_alone, pop);
    pthread_join(thread, NULL);
    _exit(0);
}

/* A child runs another program, which finds the pool in use, while the transaction goes on to its commit. */
static void run_beside_transaction(void)
{
    leave_open();
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        execl(program, program, "look", NULL);
        _exit(9);
    }
    int status = 0;
    waitpid(child, &status, 0);
    printf("the child's status %d\n", WEXITSTATUS(status));
    pmemobj_tx_commit();
    printf("end %d\n", pmemobj_tx_end());
    count(10);
    pmemobj_close(pop);
}

/* The same, and the parent is killed: the program that still runs does not keep the pool. */
static void lose_parent_beside_program(void)
{
    leave_open();
    int ends[2];
    if (pipe(ends) != 0)
        exit(1);
    if (fork() == 0) {
        /* The shell tells that it runs, and goes on while the test looks. */
        dup2(ends[1], 1);
        execlp("sh", "sh", "-c", "exec 2>&1; echo; exec sleep 5", NULL);
        _exit(9);
    }
    char byte;
    if (read(ends[0], &byte, 1) != 1)
        exit(1);
    raise(SIGKILL);
}

static void *leave_thread(void *argument)
{
    int at = 8192 + 512 * (int)(long)argument;
    pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
    pmemobj_tx_add_range(root, at, 512);
    memset(r + at, 5, 512);
    pmemobj_tx_zalloc(3000, 5);
    pthread_exit(NULL);
}

static void leave_threads(long threads)
{
    for (long at = 0; at < threads; at++) {
        pthread_t thread;
        pthread_create(&thread, NULL, leave_thread, (void *)at);
        pthread_join(thread, NULL);
    }
}

/* The others go on, and need more of the log than it has. The pool is closed. */
static void end_thread(void)
{
    leave_threads(1);
    count(20000);
    pmemobj_close(pop);
}

static void end_threads(void)
{
    leave_threads(40);
    count(20000);
    pmemobj_close(pop);
}

static void end_thread_and_process(void)
{
    leave_threads(40);
    count(20000);
    raise(SIGKILL);
}

static void *cancel_itself(void *argument)
{
    (void)argument;
    TX_BEGIN(pop) {
        leave_open();
        pthread_cancel(pthread_self());
        pthread_testcancel();
    } TX_END
    return NULL;
}

static void cancel_thread(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, cancel_itself, NULL);
    pthread_join(thread, NULL);
    count(100);
    pmemobj_close(pop);
}

static const struct obj_case cases[] = {
    {"exit", end_by_exit},
    {"_exit", end_at_once},
    {"abort", end_by_abort},
    {"kill", end_by_kill},
    {"exit-and-close", end_by_exit_with_close},
    {"close", close_in_transaction},
    {"close-beside", close_beside_transaction},
    {"close-and-commit", commit_after_close},
    {"close-and-alloc", alloc_after_close},
    {"close-and-end", end_after_close},
    {"close-and-abort", abort_after_close},
    {"exec", run_beside_transaction},
    {"exec-and-kill", lose_parent_beside_program},
    {"thread", end_thread},
    {"threads", end_threads},
    {"threads-and-kill", end_thread_and_process},
    {"cancel", cancel_thread},
};

static int look(int changes)
{
    int objects = 0, sums[4] = {0, 0, 0, 0};
    pop = pmemobj_open(PATH, "x");
    if (pop == NULL) {
        printf("open: errno %d %s\n", errno, message());
        return 1;
    }
    /* The root object of the cases is the first one of its type. */
    root = POBJ_FIRST_TYPE_NUM(pop, 1);
    r = pmemobj_direct(root);
    for (PMEMoid oid = pmemobj_first(pop); !OID_IS_NULL(oid); oid = pmemobj_next(oid)) {
        objects++;
        sums[0] += (int)(pmemobj_type_num(oid) * pmemobj_alloc_usable_size(oid));
    }
    for (int at = 0; at < 1024; at++)
        sums[1] += r[at];
    for (int at = 8192; at < 32768; at++)
        sums[2] += r[at];
    for (int at = 50000; at < 65000; at++)
        sums[3] += r[at];
    printf("objects %d %d bytes %d %d %d count %d", objects, sums[0], sums[1], sums[2], sums[3], *(int *)(r + 4096));
    if (changes) {
        count(1);
        printf(" then %d", *(int *)(r + 4096));
    }
    pmemobj_close(pop);
    printf(" check %d\n", pmemobj_check(PATH, "x"));
    return 0;
}

int main(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : "";
    (void)run_cases;
    program = argv[0];
    alarm(100);
    if (strcmp(word, "look") == 0 || strcmp(word, "show") == 0)
        return look(word[0] == 'l');
    for (size_t at = 0; at < COUNT(cases); at++) {
        if (strcmp(word, cases[at].name) != 0)
            continue;
        make_pool();
        commit();
        cases[at].run();
        return 0;
    }
    return 2;
}
