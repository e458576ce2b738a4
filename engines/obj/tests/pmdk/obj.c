/*
 * PMDK's side of the tests: a random program on libpmemobj, and a listing of all objects.
 *
 * obj POOL work SEED STEPS END   makes the pool, or opens it, and takes steps; END is close, exit (inside of a
 *                                transaction), or kill (steps until the process is killed)
 * obj POOL list                  opens the pool, prints the root and each object, and closes it
 */
#include <libpmemobj.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SLOTS 200
#define SIZE (16 << 20)

TOID_DECLARE(struct item, 9000);

struct item {
	POBJ_LIST_ENTRY(struct item) entry;
	uint64_t number;
};

struct root {
	POBJ_LIST_HEAD(list, struct item) head;
	uint64_t counter;
	PMEMoid slots[SLOTS];
	unsigned char rest[];
};

static PMEMobjpool *pop;
static uint64_t state;

static uint64_t draw(uint64_t end)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (state >> 11) % end;
}

static size_t size(void)
{
	switch (draw(12)) {
	case 0: return 1 + draw(300000);
	case 1: return 1 + draw(40000);
	case 2: case 3: return 1 + draw(4000);
	case 4: return 300000 + draw(500000);
	default: return 1 + draw(300);
	}
}

static int fill(PMEMobjpool *p, void *ptr, void *arg)
{
	size_t len = *(size_t *)arg;
	memset(ptr, (int)len & 0xff, len);
	pmemobj_persist(p, ptr, len);
	return draw(20) == 0;
}

static struct root *root(PMEMoid *oid)
{
	*oid = pmemobj_root(pop, sizeof(struct root) + draw(2) * draw(3000));
	if (OID_IS_NULL(*oid)) /* no room to grow */
		*oid = pmemobj_root(pop, sizeof(struct root));
	return pmemobj_direct(*oid);
}

/* Classes of the program, one for each kind of header; the last one is aligned. */
static void classes(void)
{
	struct pobj_alloc_class_desc of[4] = {
		{ 200, 0, 500, POBJ_HEADER_LEGACY, 0 },
		{ 72, 0, 1000, POBJ_HEADER_NONE, 0 },
		{ 1000, 0, 300, POBJ_HEADER_COMPACT, 0 },
		{ 512, 512, 100, POBJ_HEADER_COMPACT, 0 },
	};
	for (int i = 0; i < 4; i++) {
		char name[64];
		snprintf(name, sizeof(name), "heap.alloc_class.%d.desc", 128 + i);
		if (pmemobj_ctl_set(pop, name, &of[i])) {
			fprintf(stderr, "%s\n", pmemobj_errormsg());
			exit(1);
		}
	}
}

static void atomic_step(struct root *r, PMEMoid *slot)
{
	size_t len = size();
	uint64_t type = draw(3) ? draw(5) : state;
	switch (draw(6)) {
	case 0:
		if (OID_IS_NULL(*slot))
			pmemobj_zalloc(pop, slot, len, type);
		break;
	case 1:
		pmemobj_free(slot);
		break;
	case 2:
		pmemobj_realloc(pop, slot, len, type);
		break;
	case 3:
		if (OID_IS_NULL(*slot)) {
			static const size_t max[4] = { 136, 72, 2000, 496 };
			unsigned which = draw(4);
			pmemobj_xalloc(pop, slot, 1 + draw(max[which]), type, POBJ_CLASS_ID(128 + which), NULL, NULL);
		}
		break;
	default:
		if (OID_IS_NULL(*slot))
			pmemobj_alloc(pop, slot, len, type, fill, &len);
	}
	r->counter++;
	pmemobj_persist(pop, &r->counter, sizeof(r->counter));
}

static void list_step(struct root *r)
{
	if (draw(3) && !POBJ_LIST_EMPTY(&r->head)) {
		TOID(struct item) first = POBJ_LIST_FIRST(&r->head);
		POBJ_LIST_REMOVE_FREE(pop, &r->head, first, entry);
	} else {
		(void)POBJ_LIST_INSERT_NEW_HEAD(pop, &r->head, entry, sizeof(struct item), NULL, NULL);
	}
}

/* A transaction of several changes; it may abort, end in the middle, or need more than the lane's log. */
static void transaction(struct root *r, int leaves)
{
	int changes = 1 + (int)draw(12);
	int is_large = draw(4) == 0;
	TX_BEGIN(pop) {
		pmemobj_tx_add_range_direct(&r->counter, sizeof(r->counter));
		r->counter += 1000;
		for (int i = 0; i < changes; i++) {
			PMEMoid *slot = &r->slots[draw(SLOTS)];
			size_t usable = OID_IS_NULL(*slot) ? 0 : pmemobj_alloc_usable_size(*slot);
			if (usable == 0) {
				pmemobj_tx_add_range_direct(slot, sizeof(*slot));
				*slot = pmemobj_tx_xalloc(size(), draw(5), POBJ_XALLOC_NO_ABORT | (draw(2) ? POBJ_XALLOC_ZERO : 0));
			} else if (draw(5) == 0) {
				pmemobj_tx_add_range_direct(slot, sizeof(*slot));
				pmemobj_tx_free(*slot);
				*slot = OID_NULL;
			} else {
				size_t len = is_large ? usable : (usable < 100 ? usable : 100);
				pmemobj_tx_add_range(*slot, 0, len);
				memset(pmemobj_direct(*slot), (int)draw(256), len);
			}
		}
		if (leaves)
			_exit(0);
		if (draw(4) == 0)
			pmemobj_tx_abort(1);
	} TX_END
}

static void step(void)
{
	PMEMoid oid;
	struct root *r = root(&oid);
	switch (draw(6)) {
	case 0: case 1:
		transaction(r, 0);
		break;
	case 2:
		list_step(r);
		break;
	default:
		atomic_step(r, &r->slots[draw(SLOTS)]);
	}
}

static uint64_t hash(const unsigned char *bytes, size_t len)
{
	uint64_t sum = 0xcbf29ce484222325;
	for (size_t i = 0; i < len; i++)
		sum = (sum ^ bytes[i]) * 0x100000001b3;
	return sum;
}

static void list(void)
{
	size_t len = pmemobj_root_size(pop);
	if (len) {
		PMEMoid oid = pmemobj_root(pop, len);
		printf("root %lu %zu %lx\n", oid.off, len, hash(pmemobj_direct(oid), len));
	}
	for (PMEMoid oid = pmemobj_first(pop); !OID_IS_NULL(oid); oid = pmemobj_next(oid)) {
		size_t usable = pmemobj_alloc_usable_size(oid);
		printf("%lu %lu %zu %lx\n", oid.off, pmemobj_type_num(oid), usable, hash(pmemobj_direct(oid), usable));
	}
}

int main(int argc, char **argv)
{
	pop = pmemobj_open(argv[1], NULL);
	if (pop == NULL && argc > 3)
		pop = pmemobj_create(argv[1], "random", SIZE, 0600);
	if (pop == NULL) {
		fprintf(stderr, "%s\n", pmemobj_errormsg());
		return 1;
	}
	if (argc <= 3) {
		list();
		pmemobj_close(pop);
		return 0;
	}
	classes();
	state = strtoull(argv[3], NULL, 10) * 0x9e3779b97f4a7c15 + 1;
	uint64_t steps = strtoull(argv[4], NULL, 10);
	int is_killed = strcmp(argv[5], "kill") == 0;
	for (uint64_t i = 0; i < steps || is_killed; i++) {
		step();
		if (is_killed && i == 20) {
			puts("ready");
			fflush(stdout);
		}
	}
	if (strcmp(argv[5], "exit") == 0) {
		PMEMoid oid;
		transaction(root(&oid), 1);
	}
	pmemobj_close(pop);
	return 0;
}
