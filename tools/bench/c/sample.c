/*
 * Instructions whose fences are known, to test the traps. A program of its own: our libpmemobj looks for such instructions in
 * the program that it is in, and opens its pools in careful mode if there are some.
 *
 * It answers the lines that the driver of libpmemobj answers, and takes no notice of its argument, the folder.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <x86intrin.h>
#include "traps.h"

#define LINE 64

/* A write-back that needs no fence, since it is in order with all stores; then one that needs a fence, if the CPU has it. */
static void write_back(void *line)
{
    _mm_clflush(line);
    _mm_sfence();
    if (__builtin_cpu_supports("clwb"))
        __asm__ volatile("clwb %0" : "+m"(*(char *)line));
    else if (__builtin_cpu_supports("clflushopt"))
        __asm__ volatile("clflushopt %0" : "+m"(*(char *)line));
    else
        _mm_stream_si32(line, 0);
}

/* Two fences have something to wait for each time, and two have nothing. */
static void run(size_t count)
{
    static int words[LINE / sizeof(int)] __attribute__((aligned(LINE)));
    int *line = words;
    /* Hides the address, so that no operand is relative to the place of its instruction. */
    __asm__("" : "+r"(line));
    for (size_t at = 1; at <= count; at++) {
        write_back(line);
        _mm_sfence();
        _mm_sfence();
        _mm_stream_si32(&line[0], (int)at);
        _mm_stream_si128((__m128i *)&line[4], _mm_set1_epi32((int)at));
        _mm_mfence();
        if (line[0] != (int)at || line[7] != (int)at) {
            fprintf(stderr, "a store is lost\n");
            exit(1);
        }
    }
}

int main(void)
{
    char work[32];
    size_t count;
    uint64_t stamp;
    while (scanf("%31s %zu %lu", work, &count, &stamp) == 3) {
        if (strcmp(work, "sample") == 0)
            run(count);
        else
            trap_run(work, count, stamp);
        printf("0 0 %lu\n", trap_counted());
        fflush(stdout);
    }
    return 0;
}
