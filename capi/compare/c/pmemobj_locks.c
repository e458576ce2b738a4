/*
 * Makes calls on pools in the current folder, and prints the answer to each: of two words, the second one is the pool's path. A pool that a
 * call has opened stays open until the end, or until `close`. The word `wait` waits for the end of the standard input.
 *
 *   pmemobj_locks open PATH | create PATH | check PATH | close | wait ...
 */
#include <errno.h>
#include <libpmemobj.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static PMEMobjpool *open_pools[8];
static int opened;

static void show(const char *word, int result)
{
    int error = errno;
    printf("%s %d", word, result);
    if (result < 0)
        printf(" errno %d %s", error, pmemobj_errormsg());
    printf("\n");
    fflush(stdout);
}

static void keep(const char *word, PMEMobjpool *pool)
{
    show(word, pool == NULL ? -1 : 0);
    if (pool != NULL)
        open_pools[opened++] = pool;
}

int main(int count, char **words)
{
    for (int at = 1; at < count; at++) {
        char byte;
        const char *word = words[at];
        errno = 0;
        if (strcmp(word, "open") == 0)
            keep(word, pmemobj_open(words[++at], "x"));
        else if (strcmp(word, "create") == 0)
            keep(word, pmemobj_create(words[++at], "x", PMEMOBJ_MIN_POOL, 0600));
        else if (strcmp(word, "create-of-file") == 0)
            keep(word, pmemobj_create(words[++at], "x", 0, 0600));
        else if (strcmp(word, "check") == 0)
            show(word, pmemobj_check(words[++at], "x"));
        else if (strcmp(word, "close") == 0)
            pmemobj_close(open_pools[--opened]);
        else if (strcmp(word, "wait") == 0)
            while (read(0, &byte, 1) > 0)
                ;
    }
    while (opened > 0)
        pmemobj_close(open_pools[--opened]);
    return 0;
}
