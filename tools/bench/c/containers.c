/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Containers on libpmemobj, a whole lap of a bench in one call: the B-tree and the hash map that the library's package brings as
 * examples, and an array and a queue as its example of a queue has them, with numbers in the places of allocated entries. Each
 * change is a transaction. Functions return 0, or the error number.
 */
#include "btree_map.c"
#include "hashmap_tx.c"

enum { TYPE_NUMBERS = 1, ROOM_MIN = 4, QUEUE_ROOM = 1024 };

struct containers_root {
	TOID(struct btree_map) tree;
	PMEMoid map;
	PMEMoid array;
	uint64_t room;
	uint64_t len;
	uint64_t front;
	uint64_t back;
	uint64_t queue[QUEUE_ROOM];
};

struct bench_containers {
	PMEMobjpool *pool;
	struct containers_root *root;
};

static int
failed_with(void)
{
	return errno ? errno : EIO;
}

/* Stores a number to a place that holds none yet, so that there is nothing to save. */
static void
store_new(uint64_t *place, uint64_t value)
{
	pmemobj_tx_xadd_range_direct(place, sizeof(*place), POBJ_XADD_NO_SNAPSHOT);
	*place = value;
}

static void
store(uint64_t *place, uint64_t value)
{
	pmemobj_tx_add_range_direct(place, sizeof(*place));
	*place = value;
}

static void
grow(struct containers_root *root)
{
	uint64_t room = root->room ? 2 * root->room : ROOM_MIN;
	PMEMoid old = root->array;
	PMEMoid array = pmemobj_tx_alloc(room * sizeof(uint64_t), TYPE_NUMBERS);
	pmemobj_tx_add_range_direct(&root->array, sizeof(root->array));
	if (!OID_IS_NULL(old)) {
		memcpy(pmemobj_direct(array), pmemobj_direct(old), root->len * sizeof(uint64_t));
		pmemobj_tx_free(old);
	}
	root->array = array;
	store(&root->room, room);
}

int
bench_containers_push(struct bench_containers *all, const uint64_t *values, size_t count)
{
	struct containers_root *root = all->root;
	for (size_t i = 0; i < count; i++) {
		int failed = 0;
		TX_BEGIN(all->pool) {
			if (root->len == root->room)
				grow(root);
			store_new((uint64_t *)pmemobj_direct(root->array) + root->len, values[i]);
			store(&root->len, root->len + 1);
		} TX_ONABORT {
			failed = failed_with();
		} TX_END
		if (failed)
			return failed;
	}
	return 0;
}

/* Puts each number into the queue, and takes the first one out; folds those into a digest. */
int
bench_containers_push_pop(struct bench_containers *all, const uint64_t *values, size_t count, uint64_t *digest)
{
	struct containers_root *root = all->root;
	for (size_t i = 0; i < count; i++) {
		int failed = 0;
		TX_BEGIN(all->pool) {
			store_new(&root->queue[root->back % QUEUE_ROOM], values[i]);
			store(&root->back, root->back + 1);
		} TX_ONABORT {
			failed = failed_with();
		} TX_END
		if (failed)
			return failed;
		uint64_t first = root->queue[root->front % QUEUE_ROOM];
		TX_BEGIN(all->pool) {
			store(&root->front, root->front + 1);
		} TX_ONABORT {
			failed = failed_with();
		} TX_END
		if (failed)
			return failed;
		*digest = (*digest << 5 | *digest >> 59) ^ first;
	}
	return 0;
}

/* The examples store the offsets of objects; here they are the values themselves. */
static PMEMoid
value_of(uint64_t value)
{
	return (PMEMoid){1, value};
}

int
bench_containers_insert_tree(struct bench_containers *all, const uint64_t *keys, const uint64_t *values, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (btree_map_insert(all->pool, all->root->tree, keys[i], value_of(values[i])))
			return failed_with();
	return 0;
}

int
bench_containers_insert_map(struct bench_containers *all, const uint64_t *keys, const uint64_t *values, size_t count)
{
	TOID(struct hashmap_tx) map;
	TOID_ASSIGN(map, all->root->map);
	for (size_t i = 0; i < count; i++)
		if (hm_tx_insert(all->pool, map, keys[i], value_of(values[i])) < 0)
			return failed_with();
	return 0;
}

/* Number `index` of the array. */
uint64_t
bench_containers_number(const struct bench_containers *all, uint64_t index)
{
	return ((const uint64_t *)pmemobj_direct(all->root->array))[index];
}

/* The value of a key in the tree, and in the map; 0 without one. */
uint64_t
bench_containers_in_tree(const struct bench_containers *all, uint64_t key)
{
	return btree_map_get(all->pool, all->root->tree, key).off;
}

uint64_t
bench_containers_in_map(const struct bench_containers *all, uint64_t key)
{
	TOID(struct hashmap_tx) map;
	TOID_ASSIGN(map, all->root->map);
	return hm_tx_get(all->pool, map, key).off;
}

struct bench_containers *
bench_containers_create(const char *path, size_t bytes, int touched)
{
	struct bench_containers *all = calloc(1, sizeof(*all));
	if (!all)
		return NULL;
	if (pmemobj_ctl_set(NULL, "prefault.at_create", &touched))
		goto fail;
	all->pool = pmemobj_create(path, "lode-bench", bytes, 0600);
	if (!all->pool)
		goto fail;
	PMEMoid root = pmemobj_root(all->pool, sizeof(struct containers_root));
	if (OID_IS_NULL(root))
		goto close;
	all->root = pmemobj_direct(root);
	if (btree_map_create(all->pool, &all->root->tree, NULL))
		goto close;
	int failed = 0;
	TX_BEGIN(all->pool) {
		TOID(struct hashmap_tx) map = TX_ZNEW(struct hashmap_tx);
		pmemobj_tx_add_range_direct(&all->root->map, sizeof(all->root->map));
		all->root->map = map.oid;
		create_hashmap(all->pool, map, 1);
	} TX_ONABORT {
		failed = 1;
	} TX_END
	if (!failed)
		return all;
close:
	pmemobj_close(all->pool);
fail:
	free(all);
	return NULL;
}

void
bench_containers_close(struct bench_containers *all)
{
	pmemobj_close(all->pool);
	free(all);
}
