/*
 * One call on a pool of libpmemlog or libpmemblk, by name. A refused pool is the library's message on stderr, and status 1.
 *
 *   log-create PATH SIZE      log-append PATH LEN BYTE      log-read PATH      prints LEN HASH
 *   blk-create PATH BSIZE SIZE      blk-write PATH LBA BYTE      blk-read PATH LBA      prints BYTE
 *   log-hold PATH             prints "open", and waits for the end of its input
 */
#include <libpmemblk.h>
#include <libpmemlog.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int
fail(const char *message)
{
	fprintf(stderr, "%s\n", message);
	return 1;
}

static int
hash(const void *bytes, size_t len, void *sum)
{
	for (size_t i = 0; i < len; i++)
		*(uint64_t *)sum = (*(uint64_t *)sum ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3u;
	return 1;
}

static int
on_log(const char *call, int argc, char **argv)
{
	int is_new = strcmp(call, "create") == 0;
	PMEMlogpool *log = is_new ? pmemlog_create(argv[2], strtoull(argv[3], NULL, 0), 0644) : pmemlog_open(argv[2]);

	if (log == NULL)
		return fail(pmemlog_errormsg());
	if (strcmp(call, "append") == 0 && argc == 5) {
		size_t len = strtoull(argv[3], NULL, 0);
		char *bytes = malloc(len);

		memset(bytes, atoi(argv[4]), len);
		if (pmemlog_append(log, bytes, len) != 0)
			return fail(pmemlog_errormsg());
		free(bytes);
	} else if (strcmp(call, "read") == 0) {
		uint64_t sum = 0xcbf29ce484222325u;

		pmemlog_walk(log, 4096, hash, &sum);
		printf("%lld %llu\n", (long long)pmemlog_tell(log), (unsigned long long)sum);
	} else if (strcmp(call, "hold") == 0) {
		puts("open");
		fflush(stdout);
		while (getchar() != EOF)
			;
	}
	pmemlog_close(log);
	return 0;
}

static int
on_blk(const char *call, int argc, char **argv)
{
	int is_new = strcmp(call, "create") == 0;
	PMEMblkpool *pool = is_new
		? pmemblk_create(argv[2], strtoull(argv[3], NULL, 0), strtoull(argv[4], NULL, 0), 0644)
		: pmemblk_open(argv[2], 0);

	if (pool == NULL)
		return fail(pmemblk_errormsg());
	char *block = calloc(1, pmemblk_bsize(pool));
	int result = 0;

	if (strcmp(call, "write") == 0 && argc == 5) {
		memset(block, atoi(argv[4]), pmemblk_bsize(pool));
		result = pmemblk_write(pool, block, atoll(argv[3]));
	} else if (strcmp(call, "read") == 0 && argc == 4) {
		result = pmemblk_read(pool, block, atoll(argv[3]));
		printf("%d\n", block[0]);
	}
	free(block);
	pmemblk_close(pool);
	return result == 0 ? 0 : fail(pmemblk_errormsg());
}

int
main(int argc, char **argv)
{
	if (argc >= 3 && strncmp(argv[1], "log-", 4) == 0)
		return on_log(argv[1] + 4, argc, argv);
	if (argc >= 3 && strncmp(argv[1], "blk-", 4) == 0)
		return on_blk(argv[1] + 4, argc, argv);
	return fail("usage: see the head of pools.c");
}
