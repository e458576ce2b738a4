/* The settings of arenas, and of the logs that a program appends, have their effect. */
#include "obj_cases.h"
#include <pthread.h>

static unsigned unsigned_of(const char *name)
{
    unsigned value = 4711;
    errno = 0;
    int result = pmemobj_ctl_get(pop, name, &value);
    return result == 0 ? value : 100000u + (unsigned)errno;
}

static int is_automatic(unsigned arena)
{
    char name[64];
    int value = 4711;
    snprintf(name, sizeof(name), "heap.arena.%u.automatic", arena);
    return pmemobj_ctl_get(pop, name, &value) == 0 ? value : -errno;
}

static void set_automatic(unsigned arena, int value)
{
    char name[64];
    snprintf(name, sizeof(name), "heap.arena.%u.automatic", arena);
    errno = 0;
    printf("arena %u automatic %d: ", arena, value);
    int result = pmemobj_ctl_set(pop, name, &value);
    printf("%d, counts %u\n", result, unsigned_of("heap.narenas.automatic"));
}

static void *arena_of_thread(void *unused)
{
    (void)unused;
    PMEMoid oid;
    pmemobj_alloc(pop, &oid, 64, 2, NULL, NULL);
    return (void *)(uintptr_t)unsigned_of("heap.thread.arena_id");
}

/* Returns the arena of a new thread that has allocated. */
static unsigned new_thread(void)
{
    pthread_t thread;
    void *result;
    if (pthread_create(&thread, NULL, arena_of_thread, NULL) != 0)
        exit(1);
    pthread_join(thread, &result);
    return (unsigned)(uintptr_t)result;
}

/* Opens the pool again with so many arenas. */
static void open_with(unsigned arenas)
{
    pmemobj_close(pop);
    printf("default %u: %d\n", arenas, pmemobj_ctl_set(NULL, "heap.arenas_default_max", &arenas));
    open_pool();
    printf("  automatic %u", unsigned_of("heap.narenas.automatic"));
    printf(" total %u max %u\n", unsigned_of("heap.narenas.total"), unsigned_of("heap.narenas.max"));
}

static void default_arenas(void)
{
    static const unsigned counts[] = {1, 3, 17, 1000, 1024};
    for (size_t at = 0; at < COUNT(counts); at++)
        open_with(counts[at]);
}

static void automatic_arenas(void)
{
    open_with(3);
    unsigned made = 0;
    printf("create %d", pmemobj_ctl_exec(pop, "heap.arena.create", &made));
    printf(" %u automatic %d of all %u\n", made, is_automatic(made), unsigned_of("heap.narenas.automatic"));
    set_automatic(made, 1);
    set_automatic(made, 1);
    for (unsigned arena = 1; arena <= 5; arena++)
        set_automatic(arena, 0);
    set_automatic(2, 1);
}

/* Threads get no arena that is not automatic. */
static void threads_of_arenas(void)
{
    open_with(4);
    arena_of_thread(NULL);
    for (unsigned arena = 1; arena <= 4; arena++)
        if (arena != 3)
            set_automatic(arena, 0);
    for (int count = 0; count < 3; count++)
        printf("thread has arena %u\n", new_thread());
}

/* All threads have one arena, which each of them may change. */
static void global_arena(void)
{
    enum pobj_arenas_assignment_type type = POBJ_ARENAS_ASSIGNMENT_GLOBAL;
    pmemobj_close(pop);
    printf("set %d\n", pmemobj_ctl_set(NULL, "heap.arenas_assignment_type", &type));
    unsigned arenas = 4;
    pmemobj_ctl_set(NULL, "heap.arenas_default_max", &arenas);
    open_pool();
    unsigned own = (unsigned)(uintptr_t)arena_of_thread(NULL);
    printf("same arena %d %d\n", new_thread() == own, new_thread() == own);
    unsigned other = own % 4 + 1;
    printf("set %d", pmemobj_ctl_set(pop, "heap.thread.arena_id", &other));
    printf(" own is the other %d", unsigned_of("heap.thread.arena_id") == other);
    printf(" a new thread's is %d\n", new_thread() == other);
    type = POBJ_ARENAS_ASSIGNMENT_THREAD_KEY;
    pmemobj_ctl_set(NULL, "heap.arenas_assignment_type", &type);
    printf("a later setting changes no open pool %d\n", new_thread() == other);
    reopen();
    own = (unsigned)(uintptr_t)arena_of_thread(NULL);
    printf("an arena each %d\n", new_thread() != own);
}

static void append(PMEMoid oid, size_t off, size_t size, enum pobj_log_type log)
{
    errno = 0;
    void *start = (char *)pmemobj_direct(oid) + off;
    int result = pmemobj_tx_xlog_append_buffer(log, start, size, POBJ_XLOG_APPEND_BUFFER_NO_ABORT);
    printf("append %zu to %zu of %d: %d stage %d\n", off, off + size, log, result, pmemobj_tx_stage());
}

static PMEMoid buffer;

static void *other_transaction(void *unused)
{
    (void)unused;
    TX_BEGIN(pop) {
        append(buffer, 0, 4096, TX_LOG_TYPE_SNAPSHOT);
        append(buffer, 16384, 4096, TX_LOG_TYPE_SNAPSHOT);
    } TX_END
    return NULL;
}

static void transaction_of_other_thread(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, other_transaction, NULL) != 0)
        exit(1);
    pthread_join(thread, NULL);
}

static void use_twice(void)
{
    TX_BEGIN(pop) {
        append(buffer, 0, 4096, TX_LOG_TYPE_SNAPSHOT);
        append(buffer, 4096, 4096, TX_LOG_TYPE_INTENT);
        append(buffer, 0, 4096, TX_LOG_TYPE_SNAPSHOT);
        append(buffer, 0, 4096, TX_LOG_TYPE_INTENT);
        append(buffer, 1024, 1024, TX_LOG_TYPE_INTENT);
        append(buffer, 2048, 4096, TX_LOG_TYPE_INTENT);
        append(buffer, 8192, 4096, TX_LOG_TYPE_INTENT);
        transaction_of_other_thread();
    } TX_END
    TX_BEGIN(pop) {
        append(buffer, 0, 4096, TX_LOG_TYPE_SNAPSHOT);
        pmemobj_tx_abort(ECANCELED);
    } TX_END
    transaction_of_other_thread();
    TX_BEGIN(pop) {
        append(buffer, 0, 4096, TX_LOG_TYPE_SNAPSHOT);
        TX_BEGIN(pop) {
            append(buffer, 0, 4096, TX_LOG_TYPE_INTENT);
        } TX_END
        pmemobj_tx_log_append_buffer(TX_LOG_TYPE_INTENT, pmemobj_direct(buffer), 4096);
    } TX_ONABORT {
        printf("aborted %d %s\n", pmemobj_tx_errno(), message());
    } TX_END
}

static void appended_buffers(void)
{
    pmemobj_alloc(pop, &buffer, 65536, 2, NULL, NULL);
    int verifies = 1;
    printf("set %d\n", pmemobj_ctl_set(pop, "tx.debug.verify_user_buffers", &verifies));
    use_twice();
}

static const struct obj_case cases[] = {
    {"default arenas", default_arenas},
    {"automatic arenas", automatic_arenas},
    {"threads of arenas", threads_of_arenas},
    {"global arena", global_arena},
    {"appended buffers", appended_buffers},
};

int main(void)
{
    setvbuf(stdout, NULL, _IONBF, 0);
    return run_cases(cases, COUNT(cases));
}
