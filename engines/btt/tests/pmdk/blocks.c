/*
 * Reads and writes blocks of a pool through libpmemblk, as the lines of standard input say, and answers each with a line.
 *
 *   blocks PATH create BLOCK_SIZE SIZE    make a pool; SIZE 0: in the file that is there. Answers its number of blocks
 *   blocks PATH open                      answers the number of blocks, then the lines:
 *       write LBA TAG | zero LBA | error LBA -> "ok"       read LBA -> the tag, "torn" or "lost"
 *   blocks PATH storm THREADS             threads write until the process is killed, and tell each write that returned
 *
 * A block of a tag is full of that 64-bit word. Bytes after the last whole word are those of the word's start.
 */
#include <errno.h>
#include <inttypes.h>
#include <libpmemblk.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static PMEMblkpool *pool;
static unsigned long threads;

static void fail(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, pmemblk_errormsg());
	exit(1);
}

static void fill(char *block, uint64_t tag)
{
	for (size_t at = 0; at < pmemblk_bsize(pool); at++)
		block[at] = ((char *)&tag)[at % 8];
}

static void read_block(char *block, long long lba)
{
	uint64_t tag;
	if (pmemblk_read(pool, block, lba)) {
		if (errno != EIO)
			fail("read");
		puts("lost");
		return;
	}
	memcpy(&tag, block, 8);
	char *whole = malloc(pmemblk_bsize(pool));
	fill(whole, tag);
	if (memcmp(block, whole, pmemblk_bsize(pool)))
		puts("torn");
	else
		printf("%" PRIu64 "\n", tag);
	free(whole);
}

static void serve(char *block)
{
	char line[128], verb[16];
	while (fgets(line, sizeof line, stdin)) {
		long long lba = 0;
		uint64_t tag = 0;
		int failed = 0;
		sscanf(line, "%15s %lld %" SCNu64, verb, &lba, &tag);
		if (!strcmp(verb, "read")) {
			read_block(block, lba);
		} else if (!strcmp(verb, "write")) {
			fill(block, tag);
			failed = pmemblk_write(pool, block, lba);
		} else if (!strcmp(verb, "zero")) {
			failed = pmemblk_set_zero(pool, lba);
		} else {
			failed = pmemblk_set_error(pool, lba);
		}
		if (failed)
			fail(line);
		if (strcmp(verb, "read"))
			puts("ok");
		fflush(stdout);
	}
}

/* The blocks and tags are those of `storm` in storm.rs. */
static void *storm(void *number)
{
	uint64_t thread = (uintptr_t)number;
	char *block = malloc(pmemblk_bsize(pool));
	for (uint64_t round = 1;; round++) {
		char line[64];
		fill(block, round);
		if (pmemblk_write(pool, block, (long long)(thread + threads * (round * 5 % 16))))
			fail("storm");
		int len = snprintf(line, sizeof line, "%" PRIu64 " %" PRIu64 "\n", thread, round);
		if (write(1, line, (size_t)len) != len)
			exit(1);
	}
	return NULL;
}

int main(int count, char **words)
{
	if (count < 3)
		return 2;
	if (!strcmp(words[2], "create") && count == 5)
		pool = pmemblk_create(words[1], strtoul(words[3], NULL, 0), strtoul(words[4], NULL, 0), 0600);
	else
		pool = pmemblk_open(words[1], 0);
	if (!pool)
		fail(words[1]);
	if (!strcmp(words[2], "storm") && count == 4) {
		threads = strtoul(words[3], NULL, 0);
		for (unsigned long number = 0; number < threads; number++) {
			pthread_t thread;
			pthread_create(&thread, NULL, storm, (void *)number);
		}
		pause();
	}
	printf("%zu\n", pmemblk_nblock(pool));
	fflush(stdout);
	if (!strcmp(words[2], "open"))
		serve(malloc(pmemblk_bsize(pool)));
	pmemblk_close(pool);
	return 0;
}
