/*
 * PMDK's side of the tests: where objects of a size go, and how many of them a pool takes.
 *
 * sizes POOL classes MAX         makes a pool; for sizes up to MAX, prints size, usable size, bytes of a block, chunks of
 *                                its run (or of the object, where the block has 0 bytes), each time one of these changes
 * sizes POOL fill LEN SEED KEEP  makes a pool of LEN bytes and allocates random sizes until one is refused; prints how many
 *                                objects it has, and their bytes; frees all but every KEEP-th, and goes on: 6 times
 * sizes POOL list                prints the root and each object
 */
#include <libpmemobj.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK 262144
#define REFUSALS 6
#define HEADERS (64 + 65528 * 8)

static uint64_t state;

static uint64_t draw(uint64_t end)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (state >> 11) % end;
}

static uint64_t size(void)
{
	switch (draw(16)) {
	case 0: return 1 + draw(600000);
	case 1: return 1 + draw(40000);
	case 2: case 3: case 4: return 1 + draw(4000);
	default: return 1 + draw(300);
	}
}

static PMEMobjpool *create(const char *path, size_t len)
{
	PMEMobjpool *pop = pmemobj_create(path, "heap", len, 0600);
	if (pop == NULL) {
		fprintf(stderr, "%s\n", pmemobj_errormsg());
		exit(1);
	}
	return pop;
}

static void classes(PMEMobjpool *pop, uint64_t max)
{
	const char *base = (const char *)pop;
	const char *zone = base + *(const uint64_t *)(base + 5136) + 1024;
	uint64_t last[3] = {0, 0, 0};
	for (uint64_t len = 1; len <= max; len += len < 5000 ? 1 : len < 300000 ? 13 : 1009) {
		PMEMoid oid;
		if (pmemobj_alloc(pop, &oid, len, 1, NULL, NULL))
			exit(1);
		uint64_t index = (oid.off - (uint64_t)(zone - base) - HEADERS) / CHUNK;
		uint64_t header = *(const uint64_t *)(zone + 64 + index * 8);
		if ((header & 0xffff) == 5) {
			index -= header >> 32;
			header = *(const uint64_t *)(zone + 64 + index * 8);
		}
		const char *run = zone + HEADERS + index * CHUNK;
		uint64_t found[3] = {pmemobj_alloc_usable_size(oid),
			(header & 0xffff) == 4 ? *(const uint64_t *)run : 0, header >> 32};
		if (memcmp(found, last, sizeof(found)) != 0)
			printf("%lu %lu %lu %lu\n", len, found[0], found[1], found[2]);
		memcpy(last, found, sizeof(found));
		pmemobj_free(&oid);
	}
}

static void fill(PMEMobjpool *pop, uint64_t keep)
{
	PMEMoid *objects = calloc(1 << 22, sizeof(PMEMoid));
	uint64_t count = 0, usable = 0;
	for (int refused = 0; refused < REFUSALS;) {
		if (pmemobj_alloc(pop, &objects[count], size(), 1, NULL, NULL) == 0) {
			usable += pmemobj_alloc_usable_size(objects[count++]);
			continue;
		}
		refused++;
		printf("%lu %lu\n", count, usable);
		uint64_t kept = 0;
		for (uint64_t i = 0; i < count; i++) {
			if (i % keep == 0) {
				objects[kept++] = objects[i];
			} else {
				usable -= pmemobj_alloc_usable_size(objects[i]);
				pmemobj_free(&objects[i]);
			}
		}
		count = kept;
	}
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	PMEMobjpool *pop;
	if (strcmp(argv[2], "classes") == 0 && argc == 4) {
		pop = create(argv[1], (size_t)2 << 30);
		classes(pop, strtoull(argv[3], NULL, 10));
	} else if (strcmp(argv[2], "fill") == 0 && argc == 6) {
		pop = create(argv[1], strtoull(argv[3], NULL, 10));
		state = strtoull(argv[4], NULL, 10);
		fill(pop, strtoull(argv[5], NULL, 10));
	} else if (strcmp(argv[2], "list") == 0) {
		pop = pmemobj_open(argv[1], NULL);
		if (pop == NULL) {
			fprintf(stderr, "%s\n", pmemobj_errormsg());
			return 1;
		}
		printf("root %lu\n", pmemobj_root_size(pop));
		PMEMoid oid;
		for (oid = pmemobj_first(pop); oid.off != 0; oid = pmemobj_next(oid))
			printf("%lu %lu %lu\n", oid.off, pmemobj_type_num(oid), pmemobj_alloc_usable_size(oid));
	} else {
		return 2;
	}
	pmemobj_close(pop);
	return 0;
}
