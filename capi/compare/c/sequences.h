/*
 * The parts that the programs of this folder share: numbers from a seed, hashes, and calls that may fault.
 *
 * A step depends on seed, sequence and its own number alone, so any choice of steps is a sequence, too.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static uint64_t state;

static uint64_t next(void)
{
    uint64_t z = (state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t below(uint64_t end)
{
    return next() % end;
}

static uint64_t hash(const unsigned char *bytes, size_t len)
{
    uint64_t value = 0xcbf29ce484222325u;
    for (size_t at = 0; at + 8 <= len; at += 8) {
        uint64_t word;
        memcpy(&word, bytes + at, 8);
        value = (value ^ word) * 0x100000001b3u;
        value ^= value >> 29;
    }
    for (size_t at = len & ~(size_t)7; at < len; at++)
        value = (value ^ bytes[at]) * 0x100000001b3u;
    return value;
}

static const size_t lengths[] = {0, 1, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 96, 127, 128, 129, 191, 192, 255, 256,
    257, 300, 383, 384, 447, 511, 512, 513, 1000, 1024, 2048, 4095, 4096, 4097, 8192};

static sigjmp_buf back;
static volatile sig_atomic_t is_guarded;

static void on_fault(int signal)
{
    if (!is_guarded)
        _exit(100 + signal);
    siglongjmp(back, signal);
}

/* Takes a call; a fault of it is an answer, too. */
#define CALL(call)                                                                                                     \
    do {                                                                                                               \
        int signal_ = sigsetjmp(back, 1);                                                                              \
        is_guarded = 1;                                                                                                \
        errno = 0;                                                                                                     \
        if (signal_ == 0) {                                                                                            \
            call;                                                                                                      \
        } else {                                                                                                       \
            printf(" signal %d", signal_);                                                                             \
        }                                                                                                              \
        is_guarded = 0;                                                                                                \
    } while (0)

/* The seed of a step. */
static void begin_step(uint64_t seed, uint64_t number, uint64_t step)
{
    state = seed * 0x100000001b3u + number * 0x9e3779b97f4a7c15u + step * 0xc2b2ae3d27d4eb4fu;
    next();
}

/* Without chosen steps, all are. */
static int is_chosen(uint64_t step, int chosen, char **steps)
{
    for (int index = 0; index < chosen; index++) {
        if (strtoul(steps[index], NULL, 10) == step)
            return 1;
    }
    return chosen == 0;
}

static void catch_faults(void)
{
    struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_NODEFER};
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
}
