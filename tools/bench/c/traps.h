/*
 * Fences with something to wait for, counted as they run in this process.
 *
 * The bench finds the instructions in the code that the loader mapped, and sets a trap on each: its first byte becomes an
 * INT3. The handler of its signal counts, and then runs a copy of the instruction, which a jump to the next one follows. So
 * each instruction has its effect, and code that jumps to one meets the trap.
 */
#ifndef LODE_BENCH_TRAPS_H
#define LODE_BENCH_TRAPS_H

#include <stddef.h>
#include <stdint.h>

/*
 * Runs a work, and ends the process if that fails:
 *
 *   traps-store   sets a trap on the instruction of `count` bytes at the address `stamp`, none of whose operands is relative to
 *                 its place: the write-back of a line or a store past the cache, for which a later fence waits
 *   traps-fence   the same of a fence
 *   traps-fences  counts all fences
 *   traps-waiting counts the fences that had something to wait for: a thread's first ones after an instruction of the other kind
 */
void trap_run(const char *work, size_t count, uint64_t stamp);

/* Returns what the last work counted, of all threads since their instructions have traps. */
uint64_t trap_counted(void);

#endif
