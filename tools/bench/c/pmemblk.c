/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Drives libpmemblk, a whole lap of a bench in one call, so that crossing from Rust costs nothing.
 *
 * Functions return 0, or the error number.
 */
#include <errno.h>
#include <libpmemblk.h>
#include <stdint.h>
#include <string.h>

const char *
bench_blk_error(void)
{
	return pmemblk_errormsg();
}

/* A fresh pool, its space allocated as the library does it by default. */
int
bench_blk_create(const char *path, size_t block_size, size_t bytes)
{
	PMEMblkpool *pool = pmemblk_create(path, block_size, bytes, 0600);
	if (!pool)
		return errno ? errno : EINVAL;
	pmemblk_close(pool);
	return 0;
}

PMEMblkpool *
bench_blk_open(const char *path, size_t block_size)
{
	return pmemblk_open(path, block_size);
}

size_t
bench_blk_count(PMEMblkpool *pool)
{
	return pmemblk_nblock(pool);
}

/* Writes each block of `order`; the content is `block` with the next stamp at its start. */
int
bench_blk_write(PMEMblkpool *pool, const uint32_t *order, size_t count, unsigned char *block, uint64_t stamp)
{
	for (size_t i = 0; i < count; i++) {
		uint64_t word = stamp + i;
		memcpy(block, &word, sizeof(word));
		if (pmemblk_write(pool, block, order[i]))
			return errno ? errno : EIO;
	}
	return 0;
}

/* Reads each block of `order` into `block`, and folds its first word into the digest. */
int
bench_blk_read(PMEMblkpool *pool, const uint32_t *order, size_t count, unsigned char *block, uint64_t *digest)
{
	uint64_t all = *digest;
	for (size_t i = 0; i < count; i++) {
		if (pmemblk_read(pool, block, order[i]))
			return errno ? errno : EIO;
		uint64_t word;
		memcpy(&word, block, sizeof(word));
		all = (all << 5 | all >> 59) ^ word;
	}
	*digest = all;
	return 0;
}

void
bench_blk_close(PMEMblkpool *pool)
{
	pmemblk_close(pool);
}
