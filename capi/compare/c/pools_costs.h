/* The part that the programs of libpmemlog and libpmemblk share: it prints the cost of a call, in its order, or the sums if that is long. */
#include "steps.h"

/* Characters of an order that is shown. */
#define ORDER_MAX 60

static void show_cost(const char *call)
{
    if (trace_len > 0 && trace_len <= ORDER_MAX) {
        printf("%-24s%s\n", call, trace);
        return;
    }
    printf("%-24s", call);
    for (const char *of = trace_len == 0 ? "" : "wnfms"; *of != 0; of++) {
        if (sums[(int)*of] > 0)
            printf(" %c%lu", *of, sums[(int)*of]);
    }
    printf(trace_len == 0 ? " -\n" : " in all\n");
}

/* Takes a call, and shows its cost. */
#define COST(name, call)                                                                                               \
    do {                                                                                                               \
        STEP(call);                                                                                                    \
        show_cost(name);                                                                                               \
    } while (0)
