/*
 * Loads libpmemlog, whose path is the first argument, again and again, and checks that it leaves nothing behind: no thread, no
 * descriptor, no environment variable, no signal handler, no mapping. Prints the first thing that is wrong. With a second
 * argument it cancels a thread in a call.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <libpmemlog.h>
#include "process.h"

static struct {
    __typeof__(pmemlog_create) *create;
    __typeof__(pmemlog_open) *open;
    __typeof__(pmemlog_append) *append;
    __typeof__(pmemlog_tell) *tell;
    __typeof__(pmemlog_walk) *walk;
    __typeof__(pmemlog_close) *close;
    __typeof__(pmemlog_errormsg) *errormsg;
} calls;

static int find(void *library)
{
    calls.create = (__typeof__(calls.create))dlsym(library, "pmemlog_create");
    calls.open = (__typeof__(calls.open))dlsym(library, "pmemlog_open");
    calls.append = (__typeof__(calls.append))dlsym(library, "pmemlog_append");
    calls.tell = (__typeof__(calls.tell))dlsym(library, "pmemlog_tell");
    calls.walk = (__typeof__(calls.walk))dlsym(library, "pmemlog_walk");
    calls.close = (__typeof__(calls.close))dlsym(library, "pmemlog_close");
    calls.errormsg = (__typeof__(calls.errormsg))dlsym(library, "pmemlog_errormsg");
    return calls.create == NULL || calls.open == NULL || calls.append == NULL || calls.tell == NULL || calls.walk == NULL
        || calls.close == NULL || calls.errormsg == NULL;
}

/* A thread that fails, and ends while the library stays. */
static void *fail_in_thread(void *argument)
{
    return calls.open("missing/f") == NULL ? NULL : argument;
}

static int visit(const void *bytes, size_t len, void *argument)
{
    *(int *)argument += len == 12 && memcmp(bytes, "parent child", 12) == 0;
    return 1;
}

static int use(void)
{
    unlink("log");
    PMEMlogpool *log = calls.create("log", PMEMLOG_MIN_POOL, 0600);
    if (log == NULL || calls.append(log, "parent ", 7) != 0)
        return fail(calls.errormsg());
    if (check_process() != 0)
        return 1;
    pthread_t thread;
    if (pthread_create(&thread, NULL, fail_in_thread, NULL) != 0 || pthread_join(thread, NULL) != 0)
        return fail("no thread");
    pid_t child = fork();
    if (child == 0)
        _exit(calls.append(log, "child", 5) != 0);
    int status, seen = 0;
    if (waitpid(child, &status, 0) != child || status != 0 || calls.tell(log) != 12)
        return fail("the child could not append");
    calls.walk(log, 0, visit, &seen);
    calls.close(log);
    return seen == 1 ? 0 : fail("the walk showed something else");
}

/* A cancelled thread finishes its call of the library: the sync of a file is a cancellation point. */
static void *append_cancelled(void *argument)
{
    unlink("log");
    PMEMlogpool *log = calls.create("log", PMEMLOG_MIN_POOL, 0600);
    pthread_cancel(pthread_self());
    has_returned = log != NULL && calls.append(log, "bytes", 5) == 0 && calls.open("missing/f") == NULL;
    calls.close(log);
    pthread_testcancel();
    has_gone_on = 1;
    return argument;
}

static int cancel(void)
{
    return run_cancelled(append_cancelled);
}

int main(int count, char **arguments)
{
    return load_again(count, arguments, (struct lifetime){.rounds = 100, .find = find, .use = use, .cancel = cancel});
}
