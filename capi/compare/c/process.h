/* The parts of the programs that load a library again and again: what a process has. */
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

extern char **environ;

static int entries(const char *folder)
{
    int count = 0;
    DIR *open = opendir(folder);
    while (open != NULL && readdir(open) != NULL)
        count++;
    if (open != NULL)
        closedir(open);
    return count;
}

static int lines(const char *path)
{
    int count = 0, byte;
    FILE *file = fopen(path, "r");
    while (file != NULL && (byte = fgetc(file)) != EOF)
        count += byte == '\n';
    if (file != NULL)
        fclose(file);
    return count;
}

/* A thread that was joined may still be listed while the kernel ends it. */
static int threads_end(void)
{
    /* The thread itself, and the names of the folder and its parent. */
    for (int tries = 0; entries("/proc/self/task") != 3; tries++) {
        if (tries == 1000)
            return 0;
        usleep(10000);
    }
    return 1;
}

static int variables(void)
{
    int count = 0;
    while (environ[count] != NULL)
        count++;
    return count;
}

static int fail(const char *what)
{
    printf("%s\n", what);
    return 1;
}

/* What a process has before it loads a library. */
static int descriptors, set_variables;

static void note_process(void)
{
    descriptors = entries("/proc/self/fd");
    set_variables = variables();
}

/* Returns 0 if the library has left nothing but its mapping. */
static int check_process(void)
{
    if (!threads_end())
        return fail("a thread is left");
    if (entries("/proc/self/fd") != descriptors)
        return fail("a descriptor is left");
    if (variables() != set_variables)
        return fail("a variable is left");
    struct sigaction action;
    if (sigaction(SIGBUS, NULL, &action) != 0 || action.sa_handler != SIG_DFL || sigaction(SIGSEGV, NULL, &action) != 0
        || action.sa_handler != SIG_DFL)
        return fail("a signal handler is left");
    return 0;
}

/* What a thread that is cancelled in a call has done: the call returned well, and code after it ran on. */
static int has_returned, has_gone_on;

/* Runs a thread that cancels itself, makes a call of the library, and ends at the next cancellation point. */
static int run_cancelled(void *(*body)(void *))
{
    pthread_t thread;
    void *result = NULL;
    if (pthread_create(&thread, NULL, body, NULL) != 0 || pthread_join(thread, &result) != 0)
        return fail("no thread");
    if (!has_returned)
        return fail("the call did not return");
    if (has_gone_on || result != PTHREAD_CANCELED)
        return fail("the thread was not cancelled after the call");
    printf("the call returned\n");
    return 0;
}

/* A library that is loaded again and again. */
struct lifetime {
    /* Times that it is loaded. */
    int rounds;
    /* Finds its functions. Returns 0 if all are there. */
    int (*find)(void *library);
    /* Calls them. Returns 0 if the answers are right. */
    int (*use)(void);
    /* Cancels a thread within a call. */
    int (*cancel)(void);
};

/*
 * Loads the library that the first argument names, uses it and unloads it, again and again: nothing may be left. With another argument, a
 * thread is cancelled within a call of it, once.
 */
static int load_again(int count, char **arguments, struct lifetime of)
{
    if (count < 2)
        return 2;
    int mappings = 0;
    note_process();
    for (int round = 0; round < of.rounds; round++) {
        void *library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
        if (library == NULL)
            return fail(dlerror());
        if (of.find(library) != 0)
            return fail("a symbol is missing");
        if (count > 2)
            return of.cancel();
        if (of.use() != 0 || check_process() != 0)
            return 1;
        if (dlclose(library) != 0)
            return fail(dlerror());
        if (round == 20)
            mappings = lines("/proc/self/maps");
    }
    if (lines("/proc/self/maps") > mappings)
        return fail("a mapping is left");
    printf("nothing is left\n");
    return 0;
}
