/* The parts that the programs of libpmem and libpmem2 share that print the cost of each call: ranges, and one line for equal copies. */
#include "steps.h"

static void show_trace(const char *call, size_t offset, size_t len, const char *flags, const char *of)
{
    printf("%-15s%4zu%6zu %-20s%s\n", call, offset, len, flags, of[0] == 0 ? " -" : of);
}

static void show(const char *call, size_t offset, size_t len)
{
    show_trace(call, offset, len, "", trace);
}

/* The traces of the three copies: memcpy, memmove, memset. */
static char traces[3][sizeof(trace)];

static void keep(int index)
{
    strcpy(traces[index], trace);
}

/* Shows one line for the three if they are the same. */
static void show_three(size_t offset, size_t len, const char *flags)
{
    static const char *const names[] = {"memcpy", "memmove", "memset"};
    if (strcmp(traces[0], traces[1]) == 0 && strcmp(traces[0], traces[2]) == 0) {
        show_trace("memcpy,move,set", offset, len, flags, traces[0]);
        return;
    }
    for (int index = 0; index < 3; index++)
        show_trace(names[index], offset, len, flags, traces[index]);
}

/* Ranges whose calls are shown. */
static const struct {
    size_t offset, len;
} ranges[] = {{0, 0}, {0, 8}, {60, 8}, {0, 63}, {0, 64}, {8, 64}, {0, 255}, {0, 256}, {8, 1000}, {1, 2500}};
