/*
 * Loads libpmempool, whose path is the first argument, again and again, and checks that it leaves nothing behind: no thread, no
 * descriptor, no environment variable, no signal handler, no mapping. Prints the first thing that is wrong. With a second
 * argument it cancels a thread in a call.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <libpmempool.h>
#include "process.h"

static struct {
    __typeof__(pmempool_check_init) *init;
    __typeof__(pmempool_check) *check;
    __typeof__(pmempool_check_end) *end;
    __typeof__(pmempool_rm) *rm;
    __typeof__(pmempool_errormsg) *errormsg;
} calls;

static int find(void *library)
{
    calls.init = (__typeof__(calls.init))dlsym(library, "pmempool_check_init");
    calls.check = (__typeof__(calls.check))dlsym(library, "pmempool_check");
    calls.end = (__typeof__(calls.end))dlsym(library, "pmempool_check_end");
    calls.rm = (__typeof__(calls.rm))dlsym(library, "pmempool_rm");
    calls.errormsg = (__typeof__(calls.errormsg))dlsym(library, "pmempool_errormsg");
    return calls.init == NULL || calls.check == NULL || calls.end == NULL || calls.rm == NULL || calls.errormsg == NULL;
}

static int make(void)
{
    FILE *file = fopen("pool", "w");
    return file == NULL || fwrite("PMEMLOG", 8, 1, file) != 1 || fseek(file, (2 << 20) - 1, SEEK_SET) != 0
        || fputc(0, file) == EOF || fclose(file) != 0;
}

/* A damaged header: one error, and not consistent. */
static int check(void)
{
    struct pmempool_check_args args = {"pool", NULL, PMEMPOOL_POOL_TYPE_LOG, PMEMPOOL_CHECK_FORMAT_STR};
    PMEMpoolcheck *check = calls.init(&args, sizeof(args));
    if (check == NULL)
        return 1;
    struct pmempool_check_status *status = calls.check(check);
    int is_error = status != NULL && status->type == PMEMPOOL_CHECK_MSG_TYPE_ERROR && calls.check(check) == NULL;
    return calls.end(check) != PMEMPOOL_CHECK_RESULT_NOT_CONSISTENT || !is_error;
}

/* A thread that fails, and ends while the library stays. */
static void *fail_in_thread(void *argument)
{
    return calls.rm("missing/f", 0) != 0 ? NULL : argument;
}

static int use(void)
{
    if (make() != 0 || check() != 0)
        return fail(calls.errormsg());
    pthread_t thread;
    if (pthread_create(&thread, NULL, fail_in_thread, NULL) != 0 || pthread_join(thread, NULL) != 0)
        return fail("no thread");
    pid_t child = fork();
    if (child == 0)
        _exit(check());
    int status;
    if (waitpid(child, &status, 0) != child || status != 0)
        return fail("the child could not check");
    return calls.rm("pool", 0) == 0 ? 0 : fail(calls.errormsg());
}

/* A cancelled thread finishes its call of the library: the open of a file is a cancellation point. */
static void *check_cancelled(void *argument)
{
    int is_made = make() == 0;
    pthread_cancel(pthread_self());
    has_returned = is_made && check() == 0 && calls.rm("pool", 0) == 0;
    pthread_testcancel();
    has_gone_on = 1;
    return argument;
}

static int cancel(void)
{
    return run_cancelled(check_cancelled);
}

int main(int count, char **arguments)
{
    return load_again(count, arguments, (struct lifetime){.rounds = 100, .find = find, .use = use, .cancel = cancel});
}
