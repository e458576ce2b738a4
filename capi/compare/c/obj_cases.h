/*
 * Cases of libpmemobj, each in a process of its own with a new pool of 16 MiB, in which `root` is an object of 64 KiB of zeros. A case
 * prints what it finds, and the driver how its process ended. Messages end where Lodestone adds its remedies.
 */
#include <errno.h>
#include <libpmemobj.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The jumps out of transactions change no variable of the functions that begin them. */
#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Wclobbered"

#define PATH "pool"
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct obj_case {
    const char *name;
    void (*run)(void);
};

static PMEMobjpool *pop;
static PMEMoid root;
static char *r;

/* Returns the message as both libraries have it. */
__attribute__((unused)) static const char *message(void)
{
    static char text[6000];
    snprintf(text, sizeof(text), "%s", pmemobj_errormsg());
    char *end = strstr(text, "; ");
    if (end != NULL)
        *end = 0;
    return text;
}

/* Returns the number of objects in the pool. */
__attribute__((unused)) static int objects(void)
{
    int count = 0;
    for (PMEMoid oid = pmemobj_first(pop); !OID_IS_NULL(oid); oid = pmemobj_next(oid))
        count++;
    return count;
}

static void make_pool(void)
{
    unlink(PATH);
    pop = pmemobj_create(PATH, "x", 2 * PMEMOBJ_MIN_POOL, 0600);
    if (pop == NULL) {
        printf("create: %s\n", pmemobj_errormsg());
        exit(1);
    }
    TX_BEGIN(pop) {
        root = pmemobj_tx_zalloc(65536, 1);
    } TX_ONABORT {
        exit(1);
    } TX_END
    r = pmemobj_direct(root);
}

static void open_pool(void)
{
    pop = pmemobj_open(PATH, "x");
    if (pop == NULL) {
        printf("open: errno %d %s\n", errno, pmemobj_errormsg());
        exit(1);
    }
    r = pmemobj_direct(root);
}

static void __attribute__((unused)) reopen(void)
{
    pmemobj_close(pop);
    open_pool();
}

static int run_cases(const struct obj_case *cases, size_t count)
{
    for (size_t at = 0; at < count; at++) {
        printf("== %s\n", cases[at].name);
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            alarm(60);
            make_pool();
            cases[at].run();
            fflush(stdout);
            _exit(0);
        }
        int status = 0;
        waitpid(child, &status, 0);
        if (WIFSIGNALED(status))
            printf("  signal %d\n", WTERMSIG(status));
        else if (status != 0)
            printf("  exit %d\n", WEXITSTATUS(status));
    }
    unlink(PATH);
    unlink("other");
    return 0;
}
