/*
 * Appends to a log pool and walks it through libpmemlog, as the lines of standard input say, and answers each with a line.
 *
 *   log PATH create SIZE    make a pool. Answers its capacity in bytes
 *   log PATH open           answers the capacity, then the lines:
 *       append LEN TAG, appendv COUNT LEN TAG -> "ok" or "full"    rewind -> "ok"    tell -> the length
 *       walk CHUNK -> "CHUNKS LEN HASH": the number of chunks, their bytes, and the FNV-1a hash of these
 *   log PATH storm          appends until the process is killed, and tells the number of each append that returned
 *
 * An append of a tag is LEN bytes: the tag as 8 bytes, repeated.
 */
#include <errno.h>
#include <inttypes.h>
#include <libpmemlog.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static PMEMlogpool *pool;

static void fail(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, pmemlog_errormsg());
	exit(1);
}

static char *bytes_of(uint64_t tag, size_t len)
{
	char *bytes = malloc(len + 1);
	for (size_t at = 0; at < len; at++)
		bytes[at] = ((char *)&tag)[at % 8];
	return bytes;
}

struct walked {
	size_t chunks, len;
	uint64_t hash;
};

static int add(const void *bytes, size_t len, void *arg)
{
	struct walked *walked = arg;
	walked->chunks++;
	walked->len += len;
	for (size_t at = 0; at < len; at++)
		walked->hash = (walked->hash ^ ((const unsigned char *)bytes)[at]) * 0x100000001b3;
	return 1;
}

static void tell_result(int failed)
{
	if (failed && errno != ENOSPC)
		fail("append");
	puts(failed ? "full" : "ok");
}

static void serve(void)
{
	char line[128];
	while (fgets(line, sizeof line, stdin)) {
		size_t count, len;
		uint64_t tag;
		if (sscanf(line, "appendv %zu %zu %" SCNu64, &count, &len, &tag) == 3) {
			struct iovec *parts = calloc(count, sizeof *parts);
			for (size_t part = 0; part < count; part++)
				parts[part] = (struct iovec){bytes_of(tag + part, len), len};
			tell_result(pmemlog_appendv(pool, parts, (int)count));
		} else if (sscanf(line, "append %zu %" SCNu64, &len, &tag) == 2) {
			tell_result(pmemlog_append(pool, bytes_of(tag, len), len));
		} else if (sscanf(line, "walk %zu", &len) == 1) {
			struct walked walked = {0, 0, 0xcbf29ce484222325};
			pmemlog_walk(pool, len, add, &walked);
			printf("%zu %zu %" PRIu64 "\n", walked.chunks, walked.len, walked.hash);
		} else if (!strncmp(line, "tell", 4)) {
			printf("%lld\n", pmemlog_tell(pool));
		} else {
			pmemlog_rewind(pool);
			puts("ok");
		}
		fflush(stdout);
	}
}

/* The lengths and tags are those of `storm.rs`. */
static void storm(void)
{
	for (uint64_t number = 1;; number++) {
		char line[32];
		size_t len = 8 * (1 + number * 7 % 40);
		char *bytes = bytes_of(number, len);
		if (pmemlog_append(pool, bytes, len))
			fail("storm");
		free(bytes);
		int count = snprintf(line, sizeof line, "%" PRIu64 "\n", number);
		if (write(1, line, (size_t)count) != count)
			exit(1);
	}
}

int main(int count, char **words)
{
	if (count < 3)
		return 2;
	if (!strcmp(words[2], "create") && count == 4)
		pool = pmemlog_create(words[1], strtoul(words[3], NULL, 0), 0600);
	else
		pool = pmemlog_open(words[1]);
	if (!pool)
		fail(words[1]);
	if (!strcmp(words[2], "storm"))
		storm();
	printf("%zu\n", pmemlog_nbyte(pool));
	fflush(stdout);
	if (!strcmp(words[2], "open"))
		serve();
	pmemlog_close(pool);
	return 0;
}
