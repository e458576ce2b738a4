/* Opens and closes the pool that the argument names: what a process has left that ended without a close is recovered. */
#include <stdio.h>
#include <libpmemobj.h>

int main(int count, char **arguments)
{
    PMEMobjpool *pop = count == 2 ? pmemobj_open(arguments[1], NULL) : NULL;
    if (pop == NULL) {
        puts(pmemobj_errormsg());
        return 1;
    }
    pmemobj_close(pop);
    return 0;
}
