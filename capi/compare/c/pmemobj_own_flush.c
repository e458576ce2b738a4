/*
 * A program that makes a store durable by its own instruction. The pool's log covers the bytes: a transaction has changed them. With the
 * argument `open`: prints the errno of a creation and of an open.
 */
#include "obj_cases.h"
#include <signal.h>

static void flush(const char *line)
{
    __asm__ volatile("clflush %0\n\tsfence" : : "m"(*line) : "memory");
}

static void store_and_end(void)
{
    TX_BEGIN(pop) {
        pmemobj_tx_add_range(root, 0, 256);
        memset(r, 1, 256);
    } TX_END
    r[8] = 2;
    flush(r + 8);
    fflush(stdout);
    kill(getpid(), SIGKILL);
}

static int errors(void)
{
    make_pool();
    pmemobj_close(pop);
    setenv("LODE_OBJ", "wrong", 1);
    errno = 0;
    PMEMobjpool *other = pmemobj_create("other", "x", PMEMOBJ_MIN_POOL, 0600);
    printf("create %d %d %s\n", other != NULL, errno, pmemobj_errormsg());
    printf("there %d\n", access("other", F_OK) == 0);
    errno = 0;
    pop = pmemobj_open(PATH, "x");
    printf("open %d %d %s\n", pop != NULL, errno, pmemobj_errormsg());
    unsetenv("LODE_OBJ");
    open_pool();
    pmemobj_close(pop);
    return 0;
}

int main(int argc, char *argv[])
{
    (void)run_cases;
    if (argc > 1 && strcmp(argv[1], "open") == 0)
        return errors();
    int ends[2];
    if (pipe(ends) != 0)
        return 1;
    pid_t child = fork();
    if (child == 0) {
        make_pool();
        if (write(ends[1], &root, sizeof(root)) != sizeof(root))
            return 1;
        store_and_end();
    }
    waitpid(child, NULL, 0);
    if (read(ends[0], &root, sizeof(root)) != sizeof(root))
        return 1;
    open_pool();
    printf("%d %d\n", r[0], r[8]);
    pmemobj_close(pop);
    return 0;
}
