/*
 * Loads the library whose path is the first argument again and again, and checks that it leaves nothing behind: no thread,
 * no descriptor, no environment variable, no signal handler, no mapping. Prints the first thing that is wrong. With a second
 * argument it cancels a thread in a call.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include "process.h"

typedef void *map_file_function(const char *, size_t, int, mode_t, size_t *, int *);
typedef int unmap_function(void *, size_t);
typedef void persist_function(const void *, size_t);
typedef const char *errormsg_function(void);
typedef void log_function(int, const char *, unsigned, const char *, const char *);

/* The loaded library. Its callers find their functions in it. */
static void *library;
static char last_message[256];

static void note(int level, const char *file, unsigned line, const char *function, const char *message)
{
    (void)file, (void)line, (void)function;
    snprintf(last_message, sizeof(last_message), "%d %s", level, message);
}

/* A thread that fails, and ends while the library stays. */
static void *fail_in_thread(void *map_file)
{
    ((map_file_function *)map_file)("missing/f", 0, 0, 0, NULL, NULL);
    return NULL;
}

static int use_mapping(void)
{
    map_file_function *map_file = (map_file_function *)dlsym(library, "pmem_map_file");
    unmap_function *unmap = (unmap_function *)dlsym(library, "pmem_unmap");
    persist_function *persist = (persist_function *)dlsym(library, "pmem_persist");
    errormsg_function *errormsg = (errormsg_function *)dlsym(library, "pmem_errormsg");
    if (map_file == NULL || unmap == NULL || persist == NULL || errormsg == NULL)
        return fail("a symbol is missing");
    size_t mapped;
    char *start = map_file("file", 8192, 1, 0600, &mapped, NULL);
    if (start == NULL)
        return fail(errormsg());
    strcpy(start, "stored");
    persist(start, 7);
    pthread_t thread;
    if (pthread_create(&thread, NULL, fail_in_thread, (void *)map_file) != 0 || pthread_join(thread, NULL) != 0)
        return fail("no thread");
    pid_t child = fork();
    if (child == 0) {
        persist(start, mapped);
        start[0] = 'S';
        _exit(map_file("file", 0, 0, 0, NULL, NULL) == NULL);
    }
    int status;
    if (waitpid(child, &status, 0) != child || status != 0 || start[0] != 'S')
        return fail("the child could not use the mapping");
    return unmap(start, mapped) == 0 ? 0 : fail(errormsg());
}

static int use_log(void)
{
    int (*set_threshold)(int, int) = (int (*)(int, int))dlsym(library, "pmem_log_set_threshold");
    int (*get_threshold)(int, int *) = (int (*)(int, int *))dlsym(library, "pmem_log_get_threshold");
    int (*set_function)(log_function *) = (int (*)(log_function *))dlsym(library, "pmem_log_set_function");
    map_file_function *map_file = (map_file_function *)dlsym(library, "pmem_map_file");
    int level = -1;
    if (set_threshold == NULL || get_threshold == NULL || set_function == NULL)
        return fail("a log call is missing");
    if (get_threshold(0, &level) != 0 || level != 3 || get_threshold(1, &level) != 0 || level != 0)
        return fail("wrong thresholds at the start");
    errno = 0;
    if (get_threshold(2, &level) == 0 || errno != EINVAL || get_threshold(0, NULL) == 0 || set_threshold(0, 7) == 0)
        return fail("wrong arguments were taken");
    if (set_function(note) != 0 || strncmp(last_message, "0 src version: ", 15) != 0)
        return fail("no word about the version");
    map_file("missing/f", 0, 0, 0, NULL, NULL);
    if (strncmp(last_message, "2 open missing/f: No such file", 30) != 0)
        return fail("no word about the failure");
    last_message[0] = 0;
    if (set_threshold(0, 1) != 0)
        return fail("the threshold was not taken");
    map_file("missing/f", 0, 0, 0, NULL, NULL);
    if (last_message[0] != 0)
        return fail("a message below the threshold");
    return set_function(NULL);
}

static map_file_function *map_of_cancelled;
static unmap_function *unmap_of_cancelled;
/* A cancelled thread finishes its call of the library: the file that it opens for a mapping is a cancellation point. */
static void *map_cancelled(void *argument)
{
    pthread_cancel(pthread_self());
    size_t mapped = 0;
    void *start = map_of_cancelled("cancelled", 8192, 1, 0600, &mapped, NULL);
    has_returned = start != NULL && mapped == 8192 && unmap_of_cancelled(start, mapped) == 0;
    pthread_testcancel();
    has_gone_on = 1;
    return argument;
}

static int cancel(void)
{
    map_of_cancelled = (map_file_function *)dlsym(library, "pmem_map_file");
    unmap_of_cancelled = (unmap_function *)dlsym(library, "pmem_unmap");
    return run_cancelled(map_cancelled);
}

static int find(void *loaded)
{
    library = loaded;
    return 0;
}

static int use(void)
{
    static int round;
    return use_mapping() != 0 || (round++ % 50 == 0 && use_log() != 0);
}

int main(int count, char **arguments)
{
    return load_again(count, arguments, (struct lifetime){.rounds = 200, .find = find, .use = use, .cancel = cancel});
}
