/*
 * The rules of transactions: what each call answers in each stage, to each wrong argument, and how it aborts.
 */
#include "obj_cases.h"

static jmp_buf env;

/* Prints the stage, errno and the message of a case that has failed. */
static void print_end(void)
{
    int number = pmemobj_tx_errno();
    printf("  stage %d tx_errno %d", pmemobj_tx_stage(), number);
    if (number != 0)
        printf(" errno %d %s", errno, message());
    printf("\n");
}

/* Returns another open pool. */
static PMEMobjpool *make_other(void)
{
    unlink("other");
    return pmemobj_create("other", "y", PMEMOBJ_MIN_POOL, 0600);
}

static void callback(PMEMobjpool *pool, enum pobj_tx_stage stage, void *argument)
{
    printf("  callback pool %d stage %d argument %p, tx_stage %d\n", pool != NULL, stage, argument, pmemobj_tx_stage());
}

static void alloc_outside_case(void)
{
    pmemobj_tx_alloc(10, 1);
    print_end();
}

static void abort_outside_case(void)
{
    pmemobj_tx_abort(10);
    print_end();
}

static void commit_outside_case(void)
{
    pmemobj_tx_commit();
    print_end();
}

static void end_outside_case(void)
{
    pmemobj_tx_end();
    print_end();
}

static void process_outside_case(void)
{
    pmemobj_tx_process();
    print_end();
}

static void set_user_data_outside_case(void)
{
    pmemobj_tx_set_user_data(0);
    print_end();
}

static void get_user_data_outside_case(void)
{
    pmemobj_tx_get_user_data();
    print_end();
}

static void get_fb_outside_case(void)
{
    pmemobj_tx_get_failure_behavior();
    print_end();
}

static void errno_outside_case(void)
{
    printf("%d\n", pmemobj_tx_errno());
    print_end();
}

static void other_pool_nested_env_case(void)
{
    int e = setjmp(env);
    if (!e) {
        int q = pmemobj_tx_begin(pop, env, TX_PARAM_NONE);
        printf("  begin %d\n", q);
        q = pmemobj_tx_begin(make_other(), NULL, TX_PARAM_NONE);
        printf("  inner %d\n", q);
    } else  printf("  jumped %d stage %d\n", e, pmemobj_tx_stage());
    printf("  end %d\n", pmemobj_tx_end());
    print_end();
}

static void nested_abort_inner_env_both_case(void)
{
    jmp_buf e2;
    int e = setjmp(env);
    if (!e) {
        pmemobj_tx_begin(pop, env, TX_PARAM_CB, callback, (void *)5, TX_PARAM_NONE);
        int f = setjmp(e2);
        if (!f) {
            pmemobj_tx_begin(pop, e2, TX_PARAM_NONE);
            pmemobj_tx_abort(0);
        }
        printf("  inner jumped %d stage %d\n", f, pmemobj_tx_stage());
        pmemobj_tx_end();
        puts("   not here");
    } else  printf("  jumped %d stage %d\n", e, pmemobj_tx_stage());
    pmemobj_tx_process();
    printf("  stage %d\n", pmemobj_tx_stage());
    printf("  end %d\n", pmemobj_tx_end());
    print_end();
}

static void nested_abort_no_env_case(void)
{
    pmemobj_tx_begin(pop, NULL, TX_PARAM_CB, callback, (void *)5, TX_PARAM_NONE);
    pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
    pmemobj_tx_abort(0);
    printf("  stage %d\n", pmemobj_tx_stage());
    printf("  end inner %d stage %d\n", pmemobj_tx_end(), pmemobj_tx_stage());
    printf("  end %d\n", pmemobj_tx_end());
    print_end();
}

static void cb_commit_case(void)
{
    pmemobj_tx_begin(pop, NULL, TX_PARAM_CB, callback, (void *)5, TX_PARAM_NONE);
    pmemobj_tx_commit();
    pmemobj_tx_process();
    printf("  stage %d\n", pmemobj_tx_stage());
    pmemobj_tx_process();
    printf("  stage %d\n", pmemobj_tx_stage());
    printf("  end %d\n", pmemobj_tx_end());
    print_end();
}

static void cb_commit_nested_cb_on_inner_case(void)
{
    pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
    pmemobj_tx_begin(pop, NULL, TX_PARAM_CB, callback, (void *)5, TX_PARAM_NONE);
    pmemobj_tx_process();
    puts(" inner commit");
    pmemobj_tx_end();
    puts(" inner end");
    pmemobj_tx_process();
    printf("  end %d\n", pmemobj_tx_end());
    print_end();
}

static void cb_twice_same_case(void)
{
    pmemobj_tx_begin(pop, NULL, TX_PARAM_CB, callback, (void *)5, TX_PARAM_CB, callback, (void *)5, TX_PARAM_NONE);
    print_end();
}

static void cb_twice_case(void)
{
    pmemobj_tx_begin(pop, NULL, TX_PARAM_CB, callback, (void *)5, TX_PARAM_CB, callback, (void *)6, TX_PARAM_NONE);
    print_end();
}

static void end_without_commit_case(void)
{
    pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
    pmemobj_tx_end();
    print_end();
}

static void add_in_oncommit_case(void)
{
    pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
    pmemobj_tx_commit();
    pmemobj_tx_add_range(root, 0, 8);
    print_end();
}

static void begin_in_oncommit_case(void)
{
    pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
    pmemobj_tx_commit();
    pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
    print_end();
}

static void abort_msg_case(void)
{
    pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
    errno = 0;
    pmemobj_tx_abort(17);
    print_end();
}

static void add_outside_heap_case(void)
{
    pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
    printf("  %d\n", pmemobj_tx_add_range_direct(pop, 8));
    print_end();
}

static void add_outside_pool_case(void)
{
    pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
    printf("  %d\n", pmemobj_tx_add_range_direct(&pop, 8));
    print_end();
}

static void add_too_large_case(void)
{
    pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
    printf("  %d\n", pmemobj_tx_add_range(root, 0, 0x3FFDFFFC1ul));
    print_end();
}

static void add_over_end_case(void)
{
    pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
    printf("  %d\n", pmemobj_tx_add_range(root, 0, PMEMOBJ_MIN_POOL * 2));
    print_end();
}

static void add_wrap_case(void)
{
    pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
    printf("  %d\n", pmemobj_tx_add_range(root, -root.off-100, 8));
    print_end();
}

static void add_other_uuid_case(void)
{
    pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
    PMEMoid o = root;
    o.pool_uuid_lo++;
    printf("  %d\n", pmemobj_tx_add_range(o, 0, 8));
    print_end();
}

static void add_null_oid_case(void)
{
    pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
    PMEMoid o = OID_NULL;
    printf("  %d\n", pmemobj_tx_add_range(o, 0, 8));
    print_end();
}

static void add_size_0_case(void)
{
    pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
    printf("  %d\n", pmemobj_tx_add_range(root, 0, 0));
    print_end();
}

static void xadd_unknown_flags_case(void)
{
    pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
    printf("  %d\n", pmemobj_tx_xadd_range(root, 0, 8, 1ull << 40));
    print_end();
}

static void xadd_unknown_flags_noabort_case(void)
{
    pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
    printf("  %d\n", pmemobj_tx_xadd_range(root, 0, 8, 1ull << 40 | POBJ_XADD_NO_ABORT));
    print_end();
}

static void xadd_direct_unknown_flags_outside_case(void)
{
    pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
    printf("  %d\n", pmemobj_tx_xadd_range_direct(&pop, 8, 1ull << 40 | POBJ_XADD_NO_ABORT));
    print_end();
}

static void xadd_unknown_flags_uuid_case(void)
{
    pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
    PMEMoid o = OID_NULL;
    printf("  %d\n", pmemobj_tx_xadd_range(o, 0, 8, 1ull << 40 | POBJ_XADD_NO_ABORT));
    print_end();
}

static void alloc_0_case(void)
{
    pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
    printf("  %lx\n", pmemobj_tx_alloc(0, 1).off);
    print_end();
}

static void alloc_large_case(void)
{
    pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
    printf("  %lx\n", pmemobj_tx_alloc(0x3FFDFFFC1ul, 1).off);
    print_end();
}

static void alloc_oom_case(void)
{
    pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
    printf("  %lx\n", pmemobj_tx_alloc(1 << 28, 1).off);
    print_end();
}

static void xalloc_flags_case(void)
{
    pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
    printf("  %lx\n", pmemobj_tx_xalloc(8, 1, 1 << 10).off);
    print_end();
}

static void xalloc_flags_and_0_case(void)
{
    pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
    printf("  %lx\n", pmemobj_tx_xalloc(0, 1, 1 << 10).off);
    print_end();
}

static void xalloc_class_100_case(void)
{
    pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
    printf("  %lx\n", pmemobj_tx_xalloc(8, 1, POBJ_CLASS_ID(100)).off);
    print_end();
}

static void xalloc_class_300_case(void)
{
    pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
    printf("  %d\n", pmemobj_tx_xalloc(8, 1, POBJ_CLASS_ID(300)).off != 0);
    print_end();
}

static void xalloc_class_1_too_big_case(void)
{
    pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
    printf("  %lx\n", pmemobj_tx_xalloc(1 << 20, 1, POBJ_CLASS_ID(1)).off);
    print_end();
}

static void strdup_null_case(void)
{
    pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
    printf("  %lx\n", pmemobj_tx_strdup(NULL, 1).off);
    print_end();
}

static void xstrdup_flags_case(void)
{
    pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
    printf("  %lx\n", pmemobj_tx_xstrdup("a", 1, POBJ_XALLOC_NO_ABORT | 1 << 20).off);
    print_end();
}

static void strdup_empty_case(void)
{
    pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
    printf("  %d\n", pmemobj_tx_strdup("", 1).off != 0);
    print_end();
}

static void free_null_case(void)
{
    pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
    printf("  %d\n", pmemobj_tx_free(OID_NULL));
    print_end();
}

static void xfree_null_flags_case(void)
{
    pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
    printf("  %d\n", pmemobj_tx_xfree(OID_NULL, 1 << 20));
    print_end();
}

static void free_uuid_case(void)
{
    pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
    PMEMoid o = root;
    o.pool_uuid_lo++;
    printf("  %d\n", pmemobj_tx_free(o));
    print_end();
}

static void realloc_null_case(void)
{
    pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
    printf("  %d\n", pmemobj_tx_realloc(OID_NULL, 10, 1).off != 0);
    print_end();
}

static void realloc_large_case(void)
{
    pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
    printf("  %d\n", pmemobj_tx_realloc(root, 0x3FFDFFFC1ul, 1).off != 0);
    print_end();
}

static void lock_twice_case(void)
{
    PMEMmutex *m = (void *)(r + 64);
    pmemobj_tx_begin(pop, NULL, TX_PARAM_MUTEX, m, TX_PARAM_MUTEX, m, TX_PARAM_NONE);
    printf("  %d\n", pmemobj_tx_lock(TX_PARAM_MUTEX, m));
    pmemobj_tx_commit();
    printf("  try %d\n", pmemobj_mutex_trylock(pop, m));
    pmemobj_tx_end();
    printf("  try %d\n", pmemobj_mutex_trylock(pop, m));
    print_end();
}

static void lock_bad_type_case(void)
{
    PMEMmutex *m = (void *)(r + 64);
    pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
    printf("  %d\n", pmemobj_tx_lock(7, m));
    print_end();
}

static void xlock_flags_case(void)
{
    PMEMmutex *m = (void *)(r + 64);
    pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
    printf("  %d\n", pmemobj_tx_xlock(TX_PARAM_MUTEX, m, 1 << 20));
    print_end();
}

static void fb_case(void)
{
    pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
    pmemobj_tx_set_failure_behavior(1);
    pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
    printf("  %d\n", pmemobj_tx_get_failure_behavior());
    printf("  %d\n", pmemobj_tx_add_range(root, 0, -1));
    pmemobj_tx_set_failure_behavior(0);
    pmemobj_tx_commit();
    pmemobj_tx_end();
    printf("  %d\n", pmemobj_tx_get_failure_behavior());
    printf(" other pool %d\n", pmemobj_tx_begin(make_other(), NULL, TX_PARAM_NONE));
    print_end();
}

static void fb_after_commit_case(void)
{
    pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
    pmemobj_tx_commit();
    pmemobj_tx_get_failure_behavior();
    print_end();
}

static void ud_case(void)
{
    pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
    pmemobj_tx_set_user_data((void *)9);
    pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
    printf("  %p\n", pmemobj_tx_get_user_data());
    pmemobj_tx_set_user_data((void *)10);
    pmemobj_tx_commit();
    pmemobj_tx_end();
    printf("  %p\n", pmemobj_tx_get_user_data());
    pmemobj_tx_commit();
    printf("  %p\n", pmemobj_tx_get_user_data());
    pmemobj_tx_end();
    pmemobj_tx_begin(pop, NULL, TX_PARAM_NONE);
    printf("  %p\n", pmemobj_tx_get_user_data());
    print_end();
}

int main(void)
{
    static const struct obj_case cases[] = {
        {"alloc outside", alloc_outside_case},
        {"abort outside", abort_outside_case},
        {"commit outside", commit_outside_case},
        {"end outside", end_outside_case},
        {"process outside", process_outside_case},
        {"set_user_data outside", set_user_data_outside_case},
        {"get_user_data outside", get_user_data_outside_case},
        {"get_fb outside", get_fb_outside_case},
        {"errno outside", errno_outside_case},
        {"other pool nested, env", other_pool_nested_env_case},
        {"nested abort inner, env both", nested_abort_inner_env_both_case},
        {"nested abort no env", nested_abort_no_env_case},
        {"cb commit", cb_commit_case},
        {"cb commit nested cb on inner", cb_commit_nested_cb_on_inner_case},
        {"cb twice same", cb_twice_same_case},
        {"cb twice", cb_twice_case},
        {"end without commit", end_without_commit_case},
        {"add in oncommit", add_in_oncommit_case},
        {"begin in oncommit", begin_in_oncommit_case},
        {"abort msg", abort_msg_case},
        {"add outside heap", add_outside_heap_case},
        {"add outside pool", add_outside_pool_case},
        {"add too large", add_too_large_case},
        {"add over end", add_over_end_case},
        {"add wrap", add_wrap_case},
        {"add other uuid", add_other_uuid_case},
        {"add null oid", add_null_oid_case},
        {"add size 0", add_size_0_case},
        {"xadd unknown flags", xadd_unknown_flags_case},
        {"xadd unknown flags, noabort", xadd_unknown_flags_noabort_case},
        {"xadd_direct unknown flags, outside", xadd_direct_unknown_flags_outside_case},
        {"xadd unknown flags, uuid", xadd_unknown_flags_uuid_case},
        {"alloc 0", alloc_0_case},
        {"alloc large", alloc_large_case},
        {"alloc oom", alloc_oom_case},
        {"xalloc flags", xalloc_flags_case},
        {"xalloc flags and 0", xalloc_flags_and_0_case},
        {"xalloc class 100", xalloc_class_100_case},
        {"xalloc class 300", xalloc_class_300_case},
        {"xalloc class 1 too big", xalloc_class_1_too_big_case},
        {"strdup null", strdup_null_case},
        {"xstrdup flags", xstrdup_flags_case},
        {"strdup empty", strdup_empty_case},
        {"free null", free_null_case},
        {"xfree null flags", xfree_null_flags_case},
        {"free uuid", free_uuid_case},
        {"realloc null", realloc_null_case},
        {"realloc large", realloc_large_case},
        {"lock twice", lock_twice_case},
        {"lock bad type", lock_bad_type_case},
        {"xlock flags", xlock_flags_case},
        {"fb", fb_case},
        {"fb after commit", fb_after_commit_case},
        {"ud", ud_case},
    };
    return run_cases(cases, COUNT(cases));
}
