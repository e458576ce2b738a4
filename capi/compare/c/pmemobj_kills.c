/*
 * Pools whose process is killed, and processes that share a pool. With the argument `kills`: what was made durable by each call is there
 * after a kill, though a log covers it; and open transactions are rolled back. With `forks`: a child of a fork stores and persists,
 * and has no transactions.
 */
#include "obj_cases.h"
#include <libpmem.h>
#include <signal.h>

/* Runs `use` in a process with a new pool, which is killed after that, and opens the pool. */
static void killed(void (*use)(void))
{
    int ends[2];
    fflush(stdout);
    if (pipe(ends) != 0)
        exit(1);
    pid_t child = fork();
    if (child == 0) {
        make_pool();
        if (write(ends[1], &root, sizeof(root)) != sizeof(root))
            exit(1);
        use();
        fflush(stdout);
        kill(getpid(), SIGKILL);
    }
    waitpid(child, NULL, 0);
    if (read(ends[0], &root, sizeof(root)) != sizeof(root))
        exit(1);
    open_pool();
}

/* Lets the log cover 256 bytes of ones. */
static void cover(void)
{
    TX_BEGIN(pop) {
        pmemobj_tx_add_range(root, 0, 256);
        memset(r, 1, 256);
    } TX_END
}

static void persist_in_all_ways(void)
{
    static const char threes[8] = {3, 3, 3, 3, 3, 3, 3, 3};
    cover();
    memset(r, 2, 8);
    pmem_persist(r, 8);
    memset(r + 8, 2, 8);
    pmem_flush(r + 8, 8);
    pmem_drain();
    pmem_memcpy_persist(r + 16, threes, 8);
    pmem_memset_persist(r + 24, 4, 8);
    pmem_memmove_nodrain(r + 32, threes, 8);
    pmem_drain();
    r[40] = 5;
    pmem_msync(r + 40, 1);
    r[48] = 6;
    pmem_deep_persist(r + 48, 1);
    pmem_memcpy(r + 56, threes, 8, PMEM_F_MEM_NONTEMPORAL);
    pmem_memset(r + 64, 7, 8, PMEM_F_MEM_NOFLUSH);
    pmem_persist(r + 64, 8);
    pmemobj_memset_persist(pop, r + 72, 8, 8);
    r[80] = 9;
    pmemobj_persist(pop, r + 80, 1);
    r[88] = 10;
    pmemobj_flush(pop, r + 88, 1);
    pmemobj_drain(pop);
}

static void stay_in_a_transaction(void)
{
    cover();
    pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
    pmemobj_tx_add_range(root, 0, 512);
    memset(r, 2, 512);
    pmemobj_tx_alloc(1000, 1);
}

static int kills(void)
{
    killed(persist_in_all_ways);
    for (int at = 0; at < 104; at += 8)
        printf(" %d", r[at]);
    printf("\n");
    pmemobj_close(pop);
    killed(stay_in_a_transaction);
    printf(" %d %d %d\n", r[0], r[255], r[256]);
    pmemobj_close(pop);
    return 0;
}

static void be_a_child(void)
{
    r[300] = 3;
    pmemobj_persist(pop, r + 300, 1);
    pmem_persist(r + 300, 1);
    int error = pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
    printf("begin %d stage %d\n", error, pmemobj_tx_stage());
    pmemobj_tx_end();
    errno = 0;
    pmemobj_close(pop);
    printf("close %d\n", errno);
}

static void be_a_child_in_a_transaction(void)
{
    printf("add %d\n", pmemobj_tx_xadd_range(root, 512, 8, POBJ_XADD_NO_ABORT));
    pmemobj_tx_commit();
    printf("commit %d stage %d\n", pmemobj_tx_errno(), pmemobj_tx_stage());
    pmemobj_tx_end();
}

static void forked(void (*use)(void))
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        use();
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

static int forks(void)
{
    make_pool();
    cover();
    forked(be_a_child);
    printf("of the child %d\n", r[300]);
    pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
    pmemobj_tx_add_range(root, 0, 256);
    memset(r, 5, 256);
    forked(be_a_child_in_a_transaction);
    pmemobj_tx_commit();
    printf("commit %d\n", pmemobj_tx_end());
    reopen();
    printf("after all %d %d\n", r[0], r[300]);
    pmemobj_close(pop);
    return 0;
}

int main(int argc, char *argv[])
{
    (void)run_cases;
    return argc > 1 && strcmp(argv[1], "forks") == 0 ? forks() : kills();
}
