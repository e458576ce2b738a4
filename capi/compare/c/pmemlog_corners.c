/*
 * Calls of libpmemlog in unusual places, one set for each word:
 *
 *   refusals   a function for memory that refuses some calls, and serves the next ones
 *
 * The program prints what each call answered. It is run on two libraries.
 */
#include <stdio.h>
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

int main(int count, char **arguments)
{
    static const struct {
        const char *word;
        int (*calls)(void);
    } sets[] = {{"refusals", refusals}};
    for (size_t set = 0; count == 2 && set < sizeof(sets) / sizeof(sets[0]); set++) {
        if (strcmp(arguments[1], sets[set].word) == 0)
            return sets[set].calls();
    }
    return 2;
}
