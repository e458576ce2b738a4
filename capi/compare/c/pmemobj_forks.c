/*
 * Pools whose process forks and ends: the child goes on with the handle, as a program does after daemon(3). Each case prints what the pool
 * holds when all its processes are gone. With the argument `owners`: what only one process at a time can do. With `threads`: a parent with
 * threads. With `signals`: handlers that fork.
 */
#define _GNU_SOURCE
#include "obj_cases.h"
#include <libpmem.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>

#define ROUNDS 1000

/* What the processes of a case tell the first one. Its end shows that all of them are gone. */
static int ends[2];

/* Opens the pool of a case whose processes are gone. The kernel may give its lock back a moment later. */
static void open_after_all(void)
{
    for (int tries = 0; tries < 1000; tries++) {
        pop = pmemobj_open(PATH, "x");
        if (pop != NULL) {
            r = pmemobj_direct(root);
            return;
        }
        if (errno != EAGAIN)
            break;
        usleep(1000);
    }
    printf("open: errno %d %s\n", errno, pmemobj_errormsg());
    exit(1);
}

/* Runs `use` in a process with a new pool, and opens the pool when that and its children have ended. */
static void run(const char *name, void (*use)(void))
{
    char text[256];
    ssize_t len;
    printf("== %s\n", name);
    fflush(stdout);
    if (pipe(ends) != 0)
        exit(1);
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        alarm(60);
        make_pool();
        if (write(ends[1], &root, sizeof(root)) != sizeof(root))
            exit(1);
        use();
        _exit(0);
    }
    close(ends[1]);
    if (read(ends[0], &root, sizeof(root)) != sizeof(root))
        exit(1);
    while ((len = read(ends[0], text, sizeof(text))) > 0)
        printf("%.*s", (int)len, text);
    close(ends[0]);
    waitpid(child, NULL, 0);
    open_after_all();
}

static void tell(const char *text)
{
    if (write(ends[1], text, strlen(text)) < 0)
        exit(1);
}

static void end_by_kill(void)
{
    kill(getpid(), SIGKILL);
}

static void wait_for_orphanage(pid_t parent)
{
    /* An alarm of its parent's is not its own. */
    alarm(60);
    while (getppid() == parent)
        usleep(100);
}

/* Lets the log cover `len` bytes from `at` on, which get this value. */
static void cover(int at, int len, int value)
{
    TX_BEGIN(pop) {
        pmemobj_tx_add_range(root, at, len);
        memset(r + at, value, len);
    } TX_END
}

/* Transactions that count, each with an object that takes the place of the one before. The first one that fails is told. */
static void count(int at, int rounds)
{
    PMEMoid *held = (PMEMoid *)(r + at + 8);
    for (int round = 0; round < rounds; round++) {
        TX_BEGIN(pop) {
            pmemobj_tx_add_range(root, at, 24);
            if (!OID_IS_NULL(*held))
                pmemobj_tx_free(*held);
            *held = pmemobj_tx_alloc(100 + round % 1000, 5);
            *(int *)(r + at) += 1;
        } TX_ONABORT {
            tell("a transaction failed: ");
            tell(pmemobj_errormsg());
            tell("\n");
            round = rounds;
        } TX_END
    }
}

/* Prints the counter, the objects of `count`, and whether the pool is sound; closes it. */
static void finish(int at)
{
    int objects = 0;
    for (PMEMoid oid = pmemobj_first(pop); !OID_IS_NULL(oid); oid = pmemobj_next(oid))
        objects += pmemobj_type_num(oid) == 5;
    printf("count %d objects %d", *(int *)(r + at), objects);
    pmemobj_close(pop);
    printf(" check %d\n", pmemobj_check(PATH, "x"));
}

/* A store before the first call, calls of all kinds, a class that the parent has made. */
static void go_on(void)
{
    PMEMoid *held = (PMEMoid *)(r + 2048);
    r[256] = 7;
    pmemobj_persist(pop, r + 256, 1);
    count(1024, ROUNDS);
    if (pmemobj_xalloc(pop, held, 200, 6, POBJ_CLASS_ID(200), NULL, NULL) != 0)
        tell("no object of the class\n");
    if (pmemobj_mutex_lock(pop, (PMEMmutex *)(r + 4096)) != 0 || pmemobj_mutex_unlock(pop, (PMEMmutex *)(r + 4096)) != 0)
        tell("no lock\n");
    if ((char *)pmemobj_get_user_data(pop) != r)
        tell("no user data\n");
    end_by_kill();
}

static void prepare(void)
{
    struct pobj_alloc_class_desc class = {.header_type = POBJ_HEADER_COMPACT, .unit_size = 216, .units_per_block = 500, .class_id = 200};
    if (pmemobj_ctl_set(pop, "heap.alloc_class.200.desc", &class) != 0)
        tell("no class\n");
    pmemobj_set_user_data(pop, r);
    count(1024, 10);
    cover(256, 256, 1);
}

static void become_daemon(void)
{
    prepare();
    if (daemon(1, 1) == 0)
        go_on();
}

static void become_daemon_twice(void)
{
    prepare();
    if (daemon(1, 1) == 0 && daemon(1, 1) == 0)
        go_on();
}

/* The parent of a daemon may need some time to end. */
static void linger(void)
{
    prepare();
    if (fork() == 0)
        go_on();
    usleep(50000);
}

static void lose_parent(void)
{
    prepare();
    pid_t parent = getpid();
    if (fork() == 0) {
        wait_for_orphanage(parent);
        go_on();
    }
    end_by_kill();
}

static void lose_grandparent(void)
{
    prepare();
    pid_t parent = getpid();
    if (fork() == 0) {
        wait_for_orphanage(parent);
        /* The first one of them takes the pool, and loses it to its child. */
        count(1024, 5);
        pid_t self = getpid();
        if (fork() == 0) {
            wait_for_orphanage(self);
            go_on();
        }
        end_by_kill();
    }
    end_by_kill();
}

static void *stay_in_a_transaction(void *ready)
{
    pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
    pmemobj_tx_add_range(root, 512, 128);
    memset(r + 512, 9, 128);
    pmemobj_tx_alloc(1000, 5);
    *(volatile int *)ready = 1;
    for (;;)
        pause();
    return NULL;
}

/* The parent's transaction is rolled back; the child has its own. */
static void leave_a_transaction_open(void)
{
    volatile int ready = 0;
    pthread_t thread;
    cover(512, 128, 3);
    pthread_create(&thread, NULL, stay_in_a_transaction, (void *)&ready);
    while (!ready)
        usleep(100);
    pid_t parent = getpid();
    if (fork() == 0) {
        wait_for_orphanage(parent);
        count(1024, ROUNDS);
        end_by_kill();
    }
}

/* The child is in its parent's transaction, and ends it. */
static void fork_in_a_transaction(void)
{
    cover(512, 128, 3);
    pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
    pmemobj_tx_add_range(root, 512, 128);
    memset(r + 512, 9, 128);
    pid_t parent = getpid();
    if (fork() == 0) {
        wait_for_orphanage(parent);
        pmemobj_tx_abort(0);
        pmemobj_tx_end();
        count(1024, ROUNDS);
        end_by_kill();
    }
}

/* The parent closes the pool while the child sleeps, which stores, works and closes after that. */
static void close_after_the_fork(void)
{
    int closed[2];
    char byte;
    prepare();
    if (pipe(closed) != 0)
        exit(1);
    if (fork() == 0) {
        close(closed[1]);
        if (read(closed[0], &byte, 1) != 0)
            exit(1);
        r[256] = 7;
        pmemobj_persist(pop, r + 256, 1);
        count(1024, ROUNDS);
        pmemobj_close(pop);
        _exit(0);
    }
    pmemobj_close(pop);
}

/* The child only stores, after the close: the pool stays closed. */
static void store_after_the_close(void)
{
    int closed[2];
    char byte;
    prepare();
    if (pipe(closed) != 0)
        exit(1);
    if (fork() == 0) {
        close(closed[1]);
        if (read(closed[0], &byte, 1) != 0)
            exit(1);
        r[256] = 7;
        pmemobj_persist(pop, r + 256, 1);
        end_by_kill();
    }
    pmemobj_close(pop);
}

static void *work(void *place)
{
    for (;;)
        count(*(int *)place, 100);
    return place;
}

/* Threads of the parent are in the middle of anything when it forks, and when it ends. */
static void fork_beside_threads(void)
{
    static int places[] = {8192, 12288, 16384};
    pthread_t thread;
    for (size_t at = 0; at < COUNT(places); at++)
        pthread_create(&thread, NULL, work, &places[at]);
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    usleep(1000 + now.tv_nsec % 5000);
    pid_t parent = getpid();
    if (fork() == 0) {
        wait_for_orphanage(parent);
        count(1024, ROUNDS);
        end_by_kill();
    }
    usleep(now.tv_nsec / 7 % 3000);
    end_by_kill();
}

/* The child's persists are there though its parent's log covered them before the fork, and the parent is killed, too. */
static void persist_beside_the_parent(void)
{
    cover(256, 256, 1);
    pid_t child = fork();
    if (child == 0) {
        r[256] = 7;
        pmemobj_persist(pop, r + 256, 1);
        end_by_kill();
    }
    waitpid(child, NULL, 0);
    end_by_kill();
}

/* The parent's log covers them after the fork. Its next transaction makes them count. */
static void persist_beside_transactions(void)
{
    int go[2];
    char byte;
    if (pipe(go) != 0)
        exit(1);
    pid_t child = fork();
    if (child == 0) {
        close(go[1]);
        if (read(go[0], &byte, 1) != 0)
            exit(1);
        r[256] = 7;
        pmemobj_persist(pop, r + 256, 1);
        end_by_kill();
    }
    cover(257, 255, 1);
    close(go[0]);
    close(go[1]);
    waitpid(child, NULL, 0);
    cover(1024, 4, 0);
    end_by_kill();
}

/* The cases, and the two bytes that each shows. */
static void cases(void)
{
    static const struct {
        const char *name;
        void (*use)(void);
        int shown[2];
    } all[] = {
        {"daemon", become_daemon, {256, 257}},
        {"twice", become_daemon_twice, {256, 257}},
        {"lingers", linger, {256, 257}},
        {"killed", lose_parent, {256, 257}},
        {"grandchild", lose_grandparent, {256, 257}},
        {"open", leave_a_transaction_open, {512, 639}},
        {"in", fork_in_a_transaction, {512, 639}},
        {"stored", store_after_the_close, {256, 257}},
        {"persist", persist_beside_the_parent, {256, 257}},
        {"transactions", persist_beside_transactions, {256, 257}},
    };
    for (size_t at = 0; at < COUNT(all); at++) {
        run(all[at].name, all[at].use);
        printf("%d %d ", r[all[at].shown[0]], r[all[at].shown[1]]);
        finish(1024);
    }
}

/* The objects of the threads are those that their words name. */
static void threads(void)
{
    for (int round = 0; round < 5; round++) {
        int named = 0, objects = 0;
        run("threads", fork_beside_threads);
        static const int places[] = {1024, 8192, 12288, 16384};
        for (size_t at = 0; at < COUNT(places); at++)
            named += !OID_IS_NULL(*(PMEMoid *)(r + places[at] + 8));
        for (PMEMoid oid = pmemobj_first(pop); !OID_IS_NULL(oid); oid = pmemobj_next(oid))
            objects += pmemobj_type_num(oid) == 5;
        printf("count %d objects %s", *(int *)(r + 1024), named == objects ? "as named" : "lost");
        pmemobj_close(pop);
        printf(" check %d\n", pmemobj_check(PATH, "x"));
    }
}

static int has_timer;

static void set_timer(void)
{
    struct itimerval once = {{0, 0}, {0, has_timer ? 700 : 0}};
    setitimer(ITIMER_REAL, &once, NULL);
}

static void fork_and_wait(int signal)
{
    (void)signal;
    int before = errno;
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    waitpid(child, NULL, 0);
    set_timer();
    errno = before;
}

/* Signals interrupt calls of all kinds, and forks, and their handlers fork. */
static void fork_in_handlers(void)
{
    signal(SIGALRM, fork_and_wait);
    has_timer = 1;
    set_timer();
    for (int round = 0; round < 100; round++) {
        PMEMoid oid;
        count(1024, 10);
        for (int at = 0; at < 100; at++) {
            pmemobj_persist(pop, r + 256, 1);
            pmem_persist(r + 1024, 8);
        }
        if (pmemobj_alloc(pop, &oid, 100, 6, NULL, NULL) == 0)
            pmemobj_free(&oid);
        /* Forks that signals interrupt. */
        for (int at = 0; at < 10; at++) {
            cover(8192, 2048, round);
            pid_t child = fork();
            if (child == 0)
                _exit(0);
            waitpid(child, NULL, 0);
        }
    }
    has_timer = 0;
    set_timer();
}

static void signals(void)
{
    run("signals", fork_in_handlers);
    finish(1024);
}

static int is_mine(void)
{
    int is_mine = pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE) == 0;
    if (is_mine)
        pmemobj_tx_commit();
    pmemobj_tx_end();
    return is_mine;
}

/* Each of three children tries to have the pool, and says so once; it ends when it is told. */
static void be_one_of_three(void)
{
    pid_t parent = getpid();
    int refusals[2];
    char bytes[3];
    size_t len = 0;
    if (pipe(refusals) != 0)
        exit(1);
    for (int index = 0; index < 3; index++) {
        if (fork() == 0) {
            alarm(60);
            if (is_mine())
                tell("beside the parent\n");
            errno = 0;
            pmemobj_close(pop);
            if (errno != EINVAL || strstr(pmemobj_errormsg(), "belongs to process") == NULL)
                tell("closed beside the parent\n");
            if (write(refusals[1], "r", 1) != 1)
                exit(1);
            wait_for_orphanage(parent);
            while (!is_mine())
                usleep(1000);
            /* The others are refused meanwhile, and the number of owners shows it. */
            int owners = __atomic_add_fetch((int *)(r + 256), 1, __ATOMIC_SEQ_CST);
            usleep(20000);
            owners += *(volatile int *)(r + 256) != owners ? 100 : 0;
            count(1024, 10);
            char text[32];
            snprintf(text, sizeof(text), "owner %d\n", owners);
            pmemobj_persist(pop, r + 256, 4);
            tell(text);
            end_by_kill();
        }
    }
    /* They have some patience with a parent that may be about to end, so this one does not end before they are refused. */
    close(refusals[1]);
    while (len < sizeof(bytes)) {
        ssize_t more = read(refusals[0], bytes, sizeof(bytes));
        if (more <= 0)
            exit(1);
        len += (size_t)more;
    }
}

/* A child that calls no handlers of forks, beside its parent, which is killed. */
static void fork_without_handlers(void)
{
    PMEMoid oid = OID_NULL;
    cover(1024, 64, 7);
    pid_t child = _Fork();
    if (child == 0) {
        *(int *)(r + 1080) = 5;
        pmemobj_persist(pop, r + 1080, 4);
        if (pmemobj_alloc(pop, &oid, 100, 5, NULL, NULL) != 0 && errno == EINVAL)
            tell("its allocation is refused\n");
        _exit(0);
    }
    waitpid(child, NULL, 0);
    count(2048, 200);
    end_by_kill();
}

static void owners(void)
{
    run("without handlers", fork_without_handlers);
    printf("%d ", *(int *)(r + 1080));
    finish(2048);
    /* PMDK has its state in the shared memory, and the parent's close takes it away. */
    run("closed", close_after_the_fork);
    printf("%d %d ", r[256], r[257]);
    finish(1024);
    run("owners", be_one_of_three);
    printf("%d ", *(int *)(r + 256));
    finish(1024);
}

int main(int argc, char *argv[])
{
    const char *what = argc > 1 ? argv[1] : "";
    (void)run_cases;
    /* Processes that wait for each other for ever. */
    alarm(100);
    if (strcmp(what, "owners") == 0)
        owners();
    else if (strcmp(what, "threads") == 0)
        threads();
    else if (strcmp(what, "signals") == 0)
        signals();
    else
        cases();
    return 0;
}
