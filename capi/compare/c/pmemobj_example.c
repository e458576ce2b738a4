/* Makes a pool with a root, an object and a transaction, as the examples of libpmemobj do. */
#include <stdio.h>
#include <string.h>
#include <libpmemobj.h>

struct root {
    PMEMoid text;
    uint64_t count;
};

int main(void)
{
    if (pmemobj_check_version(PMEMOBJ_MAJOR_VERSION, PMEMOBJ_MINOR_VERSION) != NULL)
        return 1;
    PMEMobjpool *pop = pmemobj_create("pool", "example", PMEMOBJ_MIN_POOL, 0600);
    if (pop == NULL)
        return 1;
    struct root *root = pmemobj_direct(pmemobj_root(pop, sizeof(struct root)));
    if (root == NULL || pmemobj_strdup(pop, &root->text, "one two", 5) != 0)
        return 1;
    for (int round = 0; round < 2; round++) {
        TX_BEGIN(pop) {
            pmemobj_tx_add_range_direct(&root->count, sizeof(root->count));
            root->count += 10;
            if (round == 1)
                pmemobj_tx_abort(7);
        } TX_ONABORT {
            printf("aborted %d\n", pmemobj_tx_errno());
        } TX_END
    }
    pmemobj_close(pop);
    printf("check %d\n", pmemobj_check("pool", "example"));
    pop = pmemobj_open("pool", "example");
    if (pop == NULL)
        return 1;
    root = pmemobj_direct(pmemobj_root(pop, sizeof(struct root)));
    printf("%lu %s %lu %zu\n", root->count, (char *)pmemobj_direct(root->text), pmemobj_type_num(root->text),
        pmemobj_alloc_usable_size(root->text));
    pmemobj_free(&root->text);
    printf("%d %d\n", OID_IS_NULL(pmemobj_first(pop)), pmemobj_open("missing/pool", NULL) != NULL);
    pmemobj_close(pop);
    return 0;
}
