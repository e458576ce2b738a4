/*
 * Forks while threads append to a log, tell its length and walk it. Each child appends a record, too. Every record that was acknowledged
 * is there in the end, each of a thread after the one before.
 */
#include <libpmemlog.h>
#include <stdlib.h>
#include <string.h>
#include "threads_that_fork.h"

#define FORKS 300
#define THREADS 4
#define CHILDREN 9
#define RECORD 24
#define SIZE (64 << 20)
/* Records of a thread for which there is room. */
#define LIMIT 800000

static PMEMlogpool *pool;
/* Records of each thread that were acknowledged. */
static long appended[CHILDREN + 1];
static _Thread_local long self;
static int failures;

static int append(long who, long number)
{
    long record[3] = {who, number, who * 1000003 + number};
    return pmemlog_append(pool, record, RECORD);
}

static void append_one(void)
{
    if (appended[self] == LIMIT)
        usleep(10);
    else if (append(self, appended[self]) == 0)
        appended[self]++;
    else
        failures++;
}

static int look(const void *bytes, size_t len, void *argument)
{
    (void)bytes;
    *(long *)argument += (long)len;
    return 0;
}

static void tell(void)
{
    long first = 0;
    pmemlog_walk(pool, RECORD, look, &first);
    if (first > pmemlog_tell(pool))
        failures++;
}

static void *run(void *argument)
{
    self = (long)argument;
    run_steps(self < THREADS - 1 ? append_one : tell);
    return NULL;
}

static int child(int number)
{
    long before = pmemlog_tell(pool), first = 0;
    if (append(CHILDREN, number) != 0)
        return 1;
    if (pmemlog_tell(pool) != before + RECORD)
        return 2;
    pmemlog_walk(pool, RECORD, look, &first);
    return first == RECORD ? 0 : 3;
}

/* A child whose parent's threads were in a walk rewinds the log. */
static int rewinding_child(int number)
{
    (void)number;
    pmemlog_rewind(pool);
    return pmemlog_tell(pool) == 0 && append(CHILDREN, 0) == 0 ? 0 : 4;
}

static atomic_int is_walking;

static int stay(const void *bytes, size_t len, void *argument)
{
    (void)bytes, (void)len, (void)argument;
    is_walking = 1;
    while (!is_over) {
        standing = is_still;
        usleep(10);
    }
    return 0;
}

static void *walk(void *argument)
{
    pmemlog_walk(pool, 0, stay, NULL);
    return argument;
}

static int count(const void *bytes, size_t len, void *argument)
{
    const long *record = bytes;
    long *next = argument;
    if (len != RECORD || record[0] < 0 || record[0] > CHILDREN || record[2] != record[0] * 1000003 + record[1]
        || record[1] != next[record[0]]++)
        next[CHILDREN + 1] = 1;
    return 1;
}

int main(void)
{
    pthread_t walker;
    pool = pmemlog_create("pool", SIZE, 0600);
    if (pool == NULL)
        return 1;
    int failed = fork_beside(THREADS, run, FORKS, child);
    long next[CHILDREN + 2] = {0};
    appended[CHILDREN] = FORKS;
    pmemlog_walk(pool, RECORD, count, next);
    int is_whole = next[CHILDREN + 1] == 0 && memcmp(next, appended, sizeof(appended)) == 0;
    printf("children failed %d calls failed %d whole %d\n", failed, failures, is_whole);
    is_over = 0;
    pthread_create(&walker, NULL, walk, NULL);
    while (!is_walking)
        usleep(10);
    printf("rewinds failed %d\n", fork_again(3, 1, rewinding_child));
    pthread_join(walker, NULL);
    pmemlog_close(pool);
    return failed != 0;
}
