/*
 * Loads libpmemblk, whose path is the first argument, again and again, and checks that it leaves nothing behind: no thread, no
 * descriptor, no environment variable, no signal handler, no mapping. Prints the first thing that is wrong. With a second
 * argument it cancels a thread in a call.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <libpmemblk.h>
#include "process.h"

static struct {
    __typeof__(pmemblk_create) *create;
    __typeof__(pmemblk_open) *open;
    __typeof__(pmemblk_write) *write;
    __typeof__(pmemblk_read) *read;
    __typeof__(pmemblk_close) *close;
    __typeof__(pmemblk_errormsg) *errormsg;
} calls;

static char block[512];

static int find(void *library)
{
    calls.create = (__typeof__(calls.create))dlsym(library, "pmemblk_create");
    calls.open = (__typeof__(calls.open))dlsym(library, "pmemblk_open");
    calls.write = (__typeof__(calls.write))dlsym(library, "pmemblk_write");
    calls.read = (__typeof__(calls.read))dlsym(library, "pmemblk_read");
    calls.close = (__typeof__(calls.close))dlsym(library, "pmemblk_close");
    calls.errormsg = (__typeof__(calls.errormsg))dlsym(library, "pmemblk_errormsg");
    return calls.create == NULL || calls.open == NULL || calls.write == NULL || calls.read == NULL || calls.close == NULL
        || calls.errormsg == NULL;
}

/* A file of the least size, without its space. */
static PMEMblkpool *create(void)
{
    unlink("blocks");
    FILE *file = fopen("blocks", "w");
    if (file == NULL || ftruncate(fileno(file), (off_t)PMEMBLK_MIN_POOL) != 0 || fclose(file) != 0)
        return NULL;
    return calls.create("blocks", sizeof(block), 0, 0600);
}

/* A thread that fails, and ends while the library stays. */
static void *fail_in_thread(void *argument)
{
    return calls.open("missing/f", 0) == NULL ? NULL : argument;
}

static int use(void)
{
    PMEMblkpool *blocks = create();
    if (blocks == NULL || calls.write(blocks, block, 7) != 0)
        return fail(calls.errormsg());
    if (check_process() != 0)
        return 1;
    pthread_t thread;
    if (pthread_create(&thread, NULL, fail_in_thread, NULL) != 0 || pthread_join(thread, NULL) != 0)
        return fail("no thread");
    pid_t child = fork();
    if (child == 0) {
        strcpy(block, "child");
        _exit(calls.write(blocks, block, 7) != 0);
    }
    int status;
    if (waitpid(child, &status, 0) != child || status != 0)
        return fail("the child could not write");
    if (calls.read(blocks, block, 7) != 0 || strcmp(block, "child") != 0)
        return fail("the parent does not see the child's block");
    memset(block, 0, sizeof(block));
    calls.close(blocks);
    return 0;
}

/* A cancelled thread finishes its call of the library: the sync of a file is a cancellation point. */
static void *write_cancelled(void *argument)
{
    PMEMblkpool *blocks = create();
    pthread_cancel(pthread_self());
    has_returned = blocks != NULL && calls.write(blocks, block, 5) == 0 && calls.open("missing/f", 0) == NULL;
    calls.close(blocks);
    pthread_testcancel();
    has_gone_on = 1;
    return argument;
}

static int cancel(void)
{
    return run_cancelled(write_cancelled);
}

int main(int count, char **arguments)
{
    return load_again(count, arguments, (struct lifetime){.rounds = 100, .find = find, .use = use, .cancel = cancel});
}
