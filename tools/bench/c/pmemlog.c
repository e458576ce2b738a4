/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Drives libpmemlog, a whole lap of a bench in one call, so that crossing from Rust costs nothing.
 *
 * Functions return 0, or the error number.
 */
#include <errno.h>
#include <libpmemlog.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

enum { PARTS_MAX = 64 };

const char *
bench_log_error(void)
{
	return pmemlog_errormsg();
}

/* A fresh log. */
PMEMlogpool *
bench_log_create(const char *path, size_t bytes)
{
	return pmemlog_create(path, bytes, 0600);
}

size_t
bench_log_capacity(PMEMlogpool *log)
{
	return pmemlog_nbyte(log);
}

/* Appends `count` times `parts` records of `len` bytes, by one call each time; each record begins with the next stamp. */
int
bench_log_append(PMEMlogpool *log, unsigned char *records, size_t len, size_t parts, size_t count, uint64_t stamp)
{
	struct iovec vector[PARTS_MAX];
	if (parts > PARTS_MAX)
		return EINVAL;
	for (size_t part = 0; part < parts; part++)
		vector[part] = (struct iovec){.iov_base = records + part * len, .iov_len = len};
	for (size_t i = 0; i < count; i++) {
		for (size_t part = 0; part < parts; part++, stamp++)
			memcpy(records + part * len, &stamp, sizeof(stamp));
		int failed = parts == 1 ? pmemlog_append(log, records, len)
					: pmemlog_appendv(log, vector, (int)parts);
		if (failed)
			return errno ? errno : EIO;
	}
	return 0;
}

void
bench_log_rewind(PMEMlogpool *log)
{
	pmemlog_rewind(log);
}

static int
fold(const void *record, size_t len, void *digest)
{
	(void)len;
	uint64_t word, *all = digest;
	memcpy(&word, record, sizeof(word));
	*all = (*all ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	return 1;
}

/* Folds the first word of each record of `len` bytes into a digest. */
uint64_t
bench_log_digest(PMEMlogpool *log, size_t len)
{
	uint64_t digest = 0;
	pmemlog_walk(log, len, fold, &digest);
	return digest;
}

void
bench_log_close(PMEMlogpool *log)
{
	pmemlog_close(log);
}
