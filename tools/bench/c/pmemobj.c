/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Drives libpmemobj, a whole lap of a bench in one call, so that crossing from Rust costs nothing.
 *
 * Three kinds of pool: an area of words with slots for blocks, a table of records, and the adaptive radix tree
 * that the library's package brings as an example. Functions return 0, or the error number.
 */
#include "art.c"

#include <pthread.h>
#include <stdatomic.h>

enum { BLOCK = 64, TYPE_AREA = 1, TYPE_SLOTS = 2, TYPE_BLOCK = 3, TYPE_TABLE = 4 };

const char *
bench_error(void)
{
	return pmemobj_errormsg();
}

/* A fresh pool; `touched` brings all its pages in before anything is timed, which the library does not do by default. */
static PMEMobjpool *
create(const char *path, size_t bytes, int touched)
{
	if (pmemobj_ctl_set(NULL, "prefault.at_create", &touched))
		return NULL;
	return pmemobj_create(path, "lode-bench", bytes, 0600);
}

/* ---- An area of words, and slots that hold blocks ---- */

struct area_root {
	PMEMoid words;
	PMEMoid slots;
	PMEMoid single;
};

struct bench_area {
	PMEMobjpool *pool;
	struct area_root *root;
	uint64_t *words;
	PMEMoid *slots;
	uint64_t stamp; /* what the next transaction stores */
};

static int
change(struct bench_area *area, const uint32_t *places, size_t ranges)
{
	int failed = 0;
	TX_BEGIN(area->pool) {
		for (size_t i = 0; i < ranges; i++) {
			uint64_t *word = &area->words[places[i]];
			pmemobj_tx_add_range_direct(word, sizeof(*word));
			*word = area->stamp + i;
		}
	} TX_ONABORT {
		failed = pmemobj_tx_errno();
	} TX_END
	area->stamp += ranges;
	return failed;
}

/* Runs count / ranges transactions; each stores to the next `ranges` of the places. */
int
bench_area_change(struct bench_area *area, const uint32_t *places, size_t count, size_t ranges)
{
	for (size_t i = 0; i + ranges <= count; i += ranges) {
		int failed = change(area, &places[i], ranges);
		if (failed)
			return failed;
	}
	return 0;
}

static int
replace(struct bench_area *area, PMEMoid *slot)
{
	int failed = 0;
	TX_BEGIN(area->pool) {
		PMEMoid fresh = pmemobj_tx_alloc(BLOCK, TYPE_BLOCK);
		uint64_t *block = pmemobj_direct(fresh);
		for (size_t i = 0; i < BLOCK / sizeof(*block); i++)
			block[i] = area->stamp + i;
		pmemobj_tx_add_range_direct(slot, sizeof(*slot));
		PMEMoid old = *slot;
		*slot = fresh;
		if (!OID_IS_NULL(old))
			pmemobj_tx_free(old);
	} TX_ONABORT {
		failed = pmemobj_tx_errno();
	} TX_END
	area->stamp += BLOCK / sizeof(uint64_t);
	return failed;
}

/* One transaction a slot: allocate a block, fill it, link it, free the one that was there. */
int
bench_area_replace(struct bench_area *area, const uint32_t *slots, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		int failed = replace(area, &area->slots[slots[i]]);
		if (failed)
			return failed;
	}
	return 0;
}

/* Allocates durably, then frees durably: each atomic on its own. */
int
bench_area_alloc_free(struct bench_area *area, size_t times)
{
	for (size_t i = 0; i < times; i++) {
		if (pmemobj_alloc(area->pool, &area->root->single, BLOCK, TYPE_BLOCK, NULL, NULL))
			return errno ? errno : ENOMEM;
		pmemobj_free(&area->root->single);
	}
	return 0;
}

uint64_t
bench_area_word(const struct bench_area *area, uint32_t place)
{
	return area->words[place];
}

/* Word `index` of the block in a slot; 0 where there is none. */
uint64_t
bench_area_block_word(const struct bench_area *area, uint32_t slot, uint32_t index)
{
	const uint64_t *block = pmemobj_direct(area->slots[slot]);
	return block ? block[index] : 0;
}

struct bench_area *
bench_area_create(const char *path, size_t bytes, size_t words, size_t slots)
{
	struct bench_area *area = calloc(1, sizeof(*area));
	if (!area)
		return NULL;
	area->stamp = 1;
	area->pool = create(path, bytes, 1);
	if (!area->pool)
		goto fail;
	PMEMoid root = pmemobj_root(area->pool, sizeof(struct area_root));
	if (OID_IS_NULL(root))
		goto close;
	area->root = pmemobj_direct(root);
	if (pmemobj_zalloc(area->pool, &area->root->words, words * sizeof(uint64_t), TYPE_AREA) ||
	    pmemobj_zalloc(area->pool, &area->root->slots, slots * sizeof(PMEMoid), TYPE_SLOTS))
		goto close;
	area->words = pmemobj_direct(area->root->words);
	area->slots = pmemobj_direct(area->root->slots);
	return area;
close:
	pmemobj_close(area->pool);
fail:
	free(area);
	return NULL;
}

void
bench_area_close(struct bench_area *area)
{
	pmemobj_close(area->pool);
	free(area);
}

/* ---- The tree of the example ---- */

PMEMobjpool *
bench_tree_create(const char *path, size_t bytes, int touched)
{
	PMEMobjpool *pool = create(path, bytes, touched);
	int new_pool = 1;
	if (pool && art_tree_init(pool, &new_pool)) {
		pmemobj_close(pool);
		return NULL;
	}
	return pool;
}

void
bench_tree_close(PMEMobjpool *pool)
{
	pmemobj_close(pool);
}

/*
 * Inserts keys[ends[i - 1] .. ends[i]] with the value ids[i]. Each key is followed by a NUL that belongs to it,
 * since the example overwrites the last byte of key and value with one.
 */
void
bench_tree_insert(PMEMobjpool *pool, const unsigned char *keys, const uint32_t *ends, const uint64_t *ids, size_t count)
{
	uint32_t start = 0;
	for (size_t i = 0; i < count; i++) {
		unsigned char value[sizeof(uint64_t) + 1];
		memcpy(value, &ids[i], sizeof(uint64_t));
		value[sizeof(uint64_t)] = '\0';
		art_insert(pool, keys + start, (int)(ends[i] - start), value, sizeof(value));
		start = ends[i];
	}
}

/* Looks all keys up and folds their values into a digest; ENOENT if one is missing. */
int
bench_tree_lookup(PMEMobjpool *pool, const unsigned char *keys, const uint32_t *ends, size_t count, uint64_t *digest)
{
	uint32_t start = 0;
	uint64_t fold = 0;
	for (size_t i = 0; i < count; i++) {
		TOID(var_string) found = art_search(pool, keys + start, (int)(ends[i] - start));
		if (TOID_IS_NULL(found))
			return ENOENT;
		uint64_t value;
		memcpy(&value, D_RO(found)->s, sizeof(value));
		fold = (fold << 5 | fold >> 59) ^ value;
		start = ends[i];
	}
	*digest = fold;
	return 0;
}

/* ---- A table of records: the cheapest durable put that the library allows ---- */

/*
 * Buckets of records with linear probing inside the bucket; one lock each, held over the transaction. A put snapshots
 * exactly one range. There is no tree, no allocation and no growth to pay for.
 */
enum { VALUE = 100, BUCKET_RECORDS = 512 };

struct record {
	uint64_t key;
	uint32_t used;
	unsigned char value[VALUE];
	unsigned char pad[128 - 8 - 4 - VALUE];
};

struct bench_table {
	PMEMobjpool *pool;
	struct record *records;
	size_t buckets;
	pthread_mutex_t *locks;
};

static struct record *
place(struct bench_table *table, size_t bucket, uint64_t key)
{
	struct record *first = &table->records[bucket * BUCKET_RECORDS];
	for (size_t i = 0; i < BUCKET_RECORDS; i++) {
		struct record *record = &first[(key + i) % BUCKET_RECORDS];
		if (!record->used || record->key == key)
			return record;
	}
	return NULL;
}

static size_t
bucket_of(const struct bench_table *table, uint64_t key)
{
	return (size_t)((key * 0x9e3779b97f4a7c15ULL) >> 32) % table->buckets;
}

int
bench_table_put(struct bench_table *table, uint64_t key, const unsigned char *value)
{
	size_t bucket = bucket_of(table, key);
	int failed = 0;
	pthread_mutex_lock(&table->locks[bucket]);
	struct record *record = place(table, bucket, key);
	if (!record) {
		pthread_mutex_unlock(&table->locks[bucket]);
		return ENOSPC;
	}
	TX_BEGIN(table->pool) {
		pmemobj_tx_add_range_direct(record, sizeof(*record));
		record->key = key;
		record->used = 1;
		memcpy(record->value, value, VALUE);
	} TX_ONABORT {
		failed = pmemobj_tx_errno();
	} TX_END
	pthread_mutex_unlock(&table->locks[bucket]);
	return failed;
}

int
bench_table_get(struct bench_table *table, uint64_t key, unsigned char *value)
{
	size_t bucket = bucket_of(table, key);
	pthread_mutex_lock(&table->locks[bucket]);
	const struct record *record = place(table, bucket, key);
	int found = record && record->used;
	if (found)
		memcpy(value, record->value, VALUE);
	pthread_mutex_unlock(&table->locks[bucket]);
	return found ? 0 : ENOENT;
}

struct bench_table *
bench_table_create(const char *path, size_t bytes, size_t buckets)
{
	struct bench_table *table = calloc(1, sizeof(*table));
	if (!table)
		return NULL;
	table->buckets = buckets;
	table->locks = calloc(buckets, sizeof(*table->locks));
	if (!table->locks)
		goto fail;
	for (size_t i = 0; i < buckets; i++)
		pthread_mutex_init(&table->locks[i], NULL);
	table->pool = create(path, bytes, 1);
	if (!table->pool)
		goto fail;
	PMEMoid root = pmemobj_root(table->pool, buckets * BUCKET_RECORDS * sizeof(struct record));
	if (OID_IS_NULL(root)) {
		pmemobj_close(table->pool);
		goto fail;
	}
	table->records = pmemobj_direct(root);
	return table;
fail:
	free(table->locks);
	free(table);
	return NULL;
}

void
bench_table_close(struct bench_table *table)
{
	pmemobj_close(table->pool);
	free(table->locks);
	free(table);
}
