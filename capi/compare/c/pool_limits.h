/*
 * Calls of a library of pools in a process with little of everything: address space, descriptors, bytes that a file may have. Each case is a
 * process of its own, which prints what its calls answered. The including program names the library's calls.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* Enough for a pool of each library. */
#define SIZE ((size_t)20 << 20)
/* Parts of the set, each of so many MiB. */
#define PARTS 20
#define PART_MIB 2

static void limit(int resource, rlim_t most)
{
    struct rlimit limit = {most, most};
    if (setrlimit(resource, &limit) != 0)
        _exit(9);
}

/* Room for descriptors and small things, and for no pool. */
static void limit_address_space(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%lu", &pages) != 1)
        _exit(9);
    fclose(file);
    limit(RLIMIT_AS, pages * 4096 + (8 << 20));
}

static void tell(const char *call, void *pool)
{
    printf("%s errno %d\n", call, pool == NULL ? errno : 0);
    if (pool != NULL)
        CLOSE(pool);
}

static void tell_check(void)
{
    errno = 0;
    int answer = CHECK("pool");
    printf("check %d errno %d\n", answer, answer < 0 ? errno : 0);
}

static void address_space(void)
{
    limit_address_space();
    tell("open", OPEN("pool"));
    tell("open set", OPEN("set"));
    tell_check();
    tell("create", CREATE("new", SIZE));
}

static void len_of_files(void)
{
    signal(SIGXFSZ, SIG_IGN);
    limit(RLIMIT_FSIZE, 1 << 20);
    tell("open", OPEN("pool"));
    tell_check();
    tell("create", CREATE("new", SIZE));
}

/* No library dies of the signal. */
static void signal_of_long_files(void)
{
    limit(RLIMIT_FSIZE, 1 << 20);
    tell("create", CREATE("new", SIZE));
}

static void no_descriptor(void)
{
    limit(RLIMIT_NOFILE, 3);
    tell("open", OPEN("pool"));
    tell("open set", OPEN("set"));
    tell_check();
    tell("create", CREATE("new", SIZE));
}

/* One for each part, and a few. */
static void few_descriptors(void)
{
    limit(RLIMIT_NOFILE, 3 + PARTS + 4);
    tell("open", OPEN("pool"));
    tell("open set", OPEN("set"));
    tell_check();
    tell("create", CREATE("new", SIZE));
}

static void run(const char *name, void (*calls)(void))
{
    int status = -1;
    printf("== %s\n", name);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        calls();
        fflush(stdout);
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        printf("signal %d\n", WTERMSIG(status));
    printf("new %s\n", access("new", F_OK) == 0 ? "there" : "absent");
    unlink("new");
}

int main(void)
{
    char folder[4096];
    FILE *set = fopen("set", "w");
    if (set == NULL || getcwd(folder, sizeof(folder)) == NULL)
        return 1;
    fprintf(set, "PMEMPOOLSET\n");
    for (int part = 0; part < PARTS; part++)
        fprintf(set, "%dM %s/part%d\n", PART_MIB, folder, part);
    fclose(set);
    tell("create", CREATE("pool", SIZE));
    tell("create set", CREATE("set", 0));
    run("address space", address_space);
    run("length of files", len_of_files);
    run("signal of long files", signal_of_long_files);
    run("no descriptor", no_descriptor);
    run("few descriptors", few_descriptors);
    return 0;
}
