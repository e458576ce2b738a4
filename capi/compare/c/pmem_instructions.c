/* Takes calls of libpmem one instruction at a time, and prints for each the instructions that make stores durable. */
#define _GNU_SOURCE
#include <libpmem.h>
#include "copies.h"

static char area[16384] __attribute__((aligned(4096))), source[16384] __attribute__((aligned(4096)));

static const struct {
    const char *name;
    unsigned value;
} flags[] = {
    {"no flag", 0},
    {"NODRAIN", PMEM_F_MEM_NODRAIN},
    {"NONTEMPORAL", PMEM_F_MEM_NONTEMPORAL},
    {"NONTEMPORAL+NODRAIN", PMEM_F_MEM_NONTEMPORAL | PMEM_F_MEM_NODRAIN},
    {"WC+NODRAIN", PMEM_F_MEM_WC | PMEM_F_MEM_NODRAIN},
    {"TEMPORAL", PMEM_F_MEM_TEMPORAL},
    {"WB+NODRAIN", PMEM_F_MEM_WB | PMEM_F_MEM_NODRAIN},
    {"NOFLUSH", PMEM_F_MEM_NOFLUSH},
};

static void take(size_t offset, size_t len)
{
    char *at = area + offset;
    STEP(pmem_flush(at, len));
    show("flush", offset, len);
    STEP(pmem_persist(at, len));
    show("persist", offset, len);
    STEP(pmem_deep_flush(at, len));
    show("deep_flush", offset, len);
    STEP(pmem_deep_persist(at, len));
    show("deep_persist", offset, len);
    STEP(pmem_memcpy_persist(at, source, len));
    keep(0);
    STEP(pmem_memmove_persist(at, source, len));
    keep(1);
    STEP(pmem_memset_persist(at, 7, len));
    keep(2);
    show_three(offset, len, "_persist");
    STEP(pmem_memcpy_nodrain(at, source, len));
    keep(0);
    STEP(pmem_memmove_nodrain(at, source, len));
    keep(1);
    STEP(pmem_memset_nodrain(at, 7, len));
    keep(2);
    show_three(offset, len, "_nodrain");
    for (size_t index = 0; index < COUNT(flags); index++) {
        STEP(pmem_memcpy(at, source, len, flags[index].value));
        keep(0);
        STEP(pmem_memmove(at, source, len, flags[index].value));
        keep(1);
        STEP(pmem_memset(at, 7, len, flags[index].value));
        keep(2);
        show_three(offset, len, flags[index].name);
    }
}

int main(void)
{
    if (note_steps() != 0)
        return 2;
    for (size_t index = 0; index < COUNT(ranges); index++)
        take(ranges[index].offset, ranges[index].len);
    STEP(pmem_drain());
    show("drain", 0, 0);
    STEP(pmem_deep_drain(area, 64));
    show("deep_drain", 0, 64);
    STEP(pmem_memmove(area + 8, area, 1000, 0));
    show_trace("memmove, up", 8, 1000, "no flag", trace);
    STEP(pmem_memmove(area, area + 8, 1000, PMEM_F_MEM_NODRAIN));
    show_trace("memmove, down", 0, 1000, "NODRAIN", trace);
    return 0;
}
