/*
 * Calls of libpmemlog in unusual places, one set for each word:
 *
 *   refusals   a function for memory that refuses some calls, and serves the next ones
 *   append     an append, and then other calls, whose syncs fail
 *   rewind     a rewind whose sync fails
 *   null       null pointers
 *
 * The program prints what each call answered. It is run on two libraries.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <libpmemlog.h>
#include "own_memory.h"

static PMEMlogpool *reopened(PMEMlogpool *pool, const char *after)
{
    is_refusing = 0;
    if (pool != NULL)
        pmemlog_close(pool);
    errno = 0;
    pool = pmemlog_open("pool");
    printf("%s: open %d errno %d\n", after, pool != NULL, pool == NULL ? errno : 0);
    return pool;
}

/* Each call that gets no memory answers for itself. */
static int refusals(void)
{
    PMEMlogpool *pool = pmemlog_create("pool", PMEMLOG_MIN_POOL, 0600);
    struct iovec parts[3] = {{"one", 3}, {NULL, 0}, {"two", 3}};
    if (pool == NULL)
        return 1;
    pmemlog_set_funcs(own_malloc, own_free, own_realloc, own_strdup);
    pmemlog_close(pool);
    is_refusing = 1;
    pmemlog_check("pool");
    pool = reopened(NULL, "check");
    is_refusing = 1;
    pmemlog_appendv(pool, parts, 3);
    pmemlog_append(pool, parts, PMEMLOG_MIN_POOL);
    pool = reopened(pool, "append");
    is_refusing = 1;
    pmemlog_open("missing/pool");
    pool = reopened(pool, "failed open");
    is_refusing = 1;
    pmemlog_create("missing/pool", PMEMLOG_MIN_POOL, 0600);
    pmemlog_create("pool", PMEMLOG_MIN_POOL, 0600);
    pool = reopened(pool, "failed create");
    is_refusing = 1;
    pmemlog_check("missing/pool");
    is_refusing = 0;
    PMEMlogpool *other = pmemlog_create("other", PMEMLOG_MIN_POOL, 0600);
    printf("create after check: %d\n", other != NULL);
    if (other != NULL)
        pmemlog_close(other);
    pmemlog_close(pool);
    return 0;
}

/* Lets each sync of the process fail from now on. */
static int fail_syncs(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_msync, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EIO),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {4, code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0;
}

static int count(const void *bytes, size_t len, void *argument)
{
    (void)bytes;
    *(size_t *)argument += len;
    return 1;
}

static void show(PMEMlogpool *pool, const char *call, int result)
{
    size_t walked = 0;
    int error = errno;
    pmemlog_walk(pool, 1, count, &walked);
    printf("%s %d errno %d tell %lld walk %zu\n", call, result, error, pmemlog_tell(pool), walked);
    errno = 0;
}

static PMEMlogpool *with_bytes(void)
{
    PMEMlogpool *pool = pmemlog_create("pool", PMEMLOG_MIN_POOL, 0600);
    if (pool == NULL || pmemlog_append(pool, "first", 5) != 0 || fail_syncs() != 0)
        return NULL;
    errno = 0;
    show(pool, "before", 0);
    return pool;
}

static int append(void)
{
    PMEMlogpool *pool = with_bytes();
    if (pool == NULL)
        return 1;
    for (int round = 0; round < 2; round++)
        show(pool, "append", pmemlog_append(pool, "second", 6));
    pmemlog_rewind(pool);
    show(pool, "rewind", 0);
    return 0;
}

static int rewind_(void)
{
    PMEMlogpool *pool = with_bytes();
    if (pool == NULL)
        return 1;
    pmemlog_rewind(pool);
    show(pool, "rewind", 0);
    show(pool, "append", pmemlog_append(pool, "second", 6));
    return 0;
}

static void tell(const char *call, long result)
{
    printf("%s %ld errno %d %.20s\n", call, result, errno, errno == 0 ? "" : pmemlog_errormsg());
    errno = 0;
}

static int null(void)
{
    struct iovec parts[2] = {{"one", 3}, {NULL, 2}}, empty[2] = {{NULL, 0}, {"two", 3}};
    size_t walked = 0;
    errno = 0;
    tell("create", pmemlog_create(NULL, PMEMLOG_MIN_POOL, 0600) != NULL);
    tell("open", pmemlog_open(NULL) != NULL);
    tell("check", pmemlog_check(NULL));
    tell("nbyte", (long)pmemlog_nbyte(NULL));
    tell("tell", pmemlog_tell(NULL));
    tell("append", pmemlog_append(NULL, "one", 3));
    tell("appendv", pmemlog_appendv(NULL, parts, 1));
    pmemlog_rewind(NULL);
    tell("rewind", 0);
    pmemlog_walk(NULL, 0, count, &walked);
    tell("walk", (long)walked);
    pmemlog_close(NULL);
    tell("close", 0);
    PMEMlogpool *pool = pmemlog_create("pool", PMEMLOG_MIN_POOL, 0600);
    if (pool == NULL)
        return 1;
    errno = 0;
    tell("append null", pmemlog_append(pool, NULL, 3));
    tell("append none", pmemlog_append(pool, NULL, 0));
    tell("appendv null", pmemlog_appendv(pool, NULL, 3));
    tell("appendv none", pmemlog_appendv(pool, NULL, 0));
    tell("appendv null part", pmemlog_appendv(pool, parts, 2));
    tell("appendv empty part", pmemlog_appendv(pool, empty, 2));
    pmemlog_walk(pool, 0, NULL, NULL);
    tell("walk null", 0);
    tell("tell", pmemlog_tell(pool));
    pmemlog_close(pool);
    return 0;
}

int main(int count, char **arguments)
{
    static const struct {
        const char *word;
        int (*calls)(void);
    } sets[] = {{"refusals", refusals}, {"append", append}, {"rewind", rewind_}, {"null", null}};
    for (size_t set = 0; count == 2 && set < sizeof(sets) / sizeof(sets[0]); set++) {
        if (strcmp(arguments[1], sets[set].word) == 0)
            return sets[set].calls();
    }
    return 2;
}
