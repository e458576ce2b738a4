/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The floor: what memory alone costs a transaction with one fence.
 *
 * It does: store a record with a checksum past the cache into a ring, fence, store the changes in place, and note each
 * line that they touch once; when the ring is half full, flush each noted line once, fence, and persist a checkpoint.
 * It does not: locks, types, errors, threads, an allocator on the medium beyond one bit a block, recovery. A freed block
 * is used again at once, and the content of a new block is stored past the cache under the fence of its record.
 *
 * Area, ring and checkpoint lie in one file on tmpfs. Functions return 0, or the error number.
 *
 * The floor of blocks is at the end of this file.
 */
#include <cpuid.h>
#include <errno.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* RING: as long as a ring of a Lodestone pool that holds the same area. */
enum { LINE = 64, LINE_WORDS = 8, BLOCK_WORDS = 8, RING = 512 << 10, HEADER = 3, RECORD_MAX = 128 };

struct floor {
	unsigned char *base;
	size_t len;
	uint64_t *checkpoint;
	uint64_t *ring;
	uint64_t *words;
	uint64_t *slots; /* number of the block from 1, or 0 */
	uint64_t *blocks;
	uint64_t *bits;
	uint32_t *free; /* blocks that are free; the last one is used next */
	size_t free_count;
	size_t head; /* words of all records so far */
	size_t tail; /* words of the records that the checkpoint covers */
	uint64_t sequence;
	uint64_t stamp; /* what the next transaction stores */
	unsigned char *noted; /* for each line of the file, 1 if it is in `dirty` */
	uint32_t *dirty;
	size_t dirty_count;
	void (*flush)(const void *);
};

__attribute__((target("clwb"))) static void
flush_clwb(const void *line)
{
	_mm_clwb((void *)line);
}

__attribute__((target("clflushopt"))) static void
flush_clflushopt(const void *line)
{
	_mm_clflushopt((void *)line);
}

static void
flush_clflush(const void *line)
{
	_mm_clflush(line);
}

static void (*best_flush(void))(const void *)
{
	unsigned a = 0, b = 0, c = 0, d = 0;
	__get_cpuid_count(7, 0, &a, &b, &c, &d);
	return b & bit_CLWB ? flush_clwb : b & bit_CLFLUSHOPT ? flush_clflushopt : flush_clflush;
}

static void
checkpoint(struct floor *f)
{
	for (size_t i = 0; i < f->dirty_count; i++) {
		f->flush(f->base + (size_t)f->dirty[i] * LINE);
		f->noted[f->dirty[i]] = 0;
	}
	f->dirty_count = 0;
	_mm_sfence();
	*(volatile uint64_t *)f->checkpoint = f->sequence;
	f->flush(f->checkpoint);
	_mm_sfence();
	f->tail = f->head;
}

/* A record being built: its header comes first. */
struct record {
	uint64_t words[RECORD_MAX] __attribute__((aligned(LINE)));
	size_t len;
};

static void
entry(struct record *r, const uint64_t *at, uint64_t value)
{
	r->words[r->len++] = (uint64_t)(uintptr_t)at;
	r->words[r->len++] = value;
}

/* Makes a record durable: checksum, copy past the cache, fence. */
__attribute__((target("sse4.2"))) static void
commit(struct floor *f, struct record *r)
{
	size_t len = (r->len + LINE_WORDS - 1) & ~(size_t)(LINE_WORDS - 1);
	for (size_t i = r->len; i < len; i++)
		r->words[i] = 0;
	r->words[0] = ++f->sequence;
	r->words[1] = r->len;
	uint64_t sum = 0;
	for (size_t i = 0; i < r->len; i++)
		if (i != 2)
			sum = _mm_crc32_u64(sum, r->words[i]);
	r->words[2] = sum;
	const size_t ring_words = RING / sizeof(uint64_t);
	for (size_t line = 0; line < len; line += LINE_WORDS) {
		uint64_t *to = &f->ring[(f->head + line) % ring_words];
		for (size_t i = 0; i < LINE_WORDS; i++)
			_mm_stream_si64((long long *)&to[i], (long long)r->words[line + i]);
	}
	f->head += len;
	_mm_sfence();
}

/* Stores one change in place. */
static void
home(struct floor *f, uint64_t *at, uint64_t value)
{
	*(volatile uint64_t *)at = value;
	size_t line = (size_t)((unsigned char *)at - f->base) / LINE;
	if (!f->noted[line]) {
		f->noted[line] = 1;
		f->dirty[f->dirty_count++] = (uint32_t)line;
	}
}

static void
end(struct floor *f)
{
	if ((f->head - f->tail) * sizeof(uint64_t) > RING / 2)
		checkpoint(f);
}

/* Runs count / ranges transactions; each stores to the next `ranges` of the places. */
int
floor_change(struct floor *f, const uint32_t *places, size_t count, size_t ranges)
{
	if (HEADER + 2 * ranges > RECORD_MAX)
		return EINVAL;
	for (size_t i = 0; i + ranges <= count; i += ranges) {
		struct record r;
		r.len = HEADER;
		for (size_t k = 0; k < ranges; k++)
			entry(&r, &f->words[places[i + k]], f->stamp + k);
		commit(f, &r);
		for (size_t k = 0; k < ranges; k++)
			home(f, &f->words[places[i + k]], f->stamp + k);
		f->stamp += ranges;
		end(f);
	}
	return 0;
}

static uint64_t *
bits_of(struct floor *f, uint32_t block)
{
	return &f->bits[block / 64];
}

static uint64_t
bit_of(uint32_t block)
{
	return 1ULL << block % 64;
}

/* One transaction a slot: take a block, fill it, link it, free the one that was there. */
int
floor_replace(struct floor *f, const uint32_t *slots, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint64_t *slot = &f->slots[slots[i]];
		uint32_t block = f->free[--f->free_count];
		uint64_t old = *slot;
		uint64_t *content = &f->blocks[(size_t)block * BLOCK_WORDS];
		for (size_t k = 0; k < BLOCK_WORDS; k++)
			_mm_stream_si64((long long *)&content[k], (long long)(f->stamp + k));
		struct record r;
		r.len = HEADER;
		entry(&r, slot, block + 1);
		entry(&r, bits_of(f, block), bit_of(block));
		if (old)
			entry(&r, bits_of(f, (uint32_t)old - 1), ~bit_of((uint32_t)old - 1));
		commit(f, &r);
		home(f, slot, block + 1);
		home(f, bits_of(f, block), *bits_of(f, block) | bit_of(block));
		if (old) {
			uint32_t freed = (uint32_t)old - 1;
			home(f, bits_of(f, freed), *bits_of(f, freed) & ~bit_of(freed));
			f->free[f->free_count++] = freed;
		}
		f->stamp += BLOCK_WORDS;
		end(f);
	}
	return 0;
}

/* Two transactions a place: take a block and link it there; unlink it and free it. */
int
floor_alloc_free(struct floor *f, const uint32_t *places, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint64_t *place = &f->words[places[i]];
		uint32_t block = f->free[f->free_count - 1];
		uint64_t *bits = bits_of(f, block);
		struct record taken, freed;
		taken.len = HEADER;
		entry(&taken, bits, bit_of(block));
		entry(&taken, place, block + 1);
		commit(f, &taken);
		home(f, bits, *bits | bit_of(block));
		home(f, place, block + 1);
		end(f);
		freed.len = HEADER;
		entry(&freed, bits, ~bit_of(block));
		entry(&freed, place, 0);
		commit(f, &freed);
		home(f, bits, *bits & ~bit_of(block));
		home(f, place, 0);
		end(f);
	}
	return 0;
}

uint64_t
floor_word(const struct floor *f, uint32_t place)
{
	return f->words[place];
}

/* Word `index` of the block in a slot; 0 where there is none. */
uint64_t
floor_block_word(const struct floor *f, uint32_t slot, uint32_t index)
{
	uint64_t block = f->slots[slot];
	return block ? f->blocks[(block - 1) * BLOCK_WORDS + index] : 0;
}

static size_t
lines(size_t bytes)
{
	return (bytes + LINE - 1) / LINE * LINE;
}

void
floor_close(struct floor *f)
{
	if (f->base != MAP_FAILED)
		munmap(f->base, f->len);
	free(f->free);
	free(f->noted);
	free(f->dirty);
	free(f);
}

/* An area in a new file; `touched` brings its pages in. A null pointer and errno if that fails. */
struct floor *
floor_create(const char *path, size_t words, size_t slots, int touched)
{
	struct floor *f = calloc(1, sizeof(*f));
	if (!f)
		return NULL;
	size_t blocks = slots + 1, at = 0;
	size_t ring_at = (at += LINE), words_at = at += RING;
	size_t slots_at = at += lines(words * sizeof(uint64_t));
	size_t blocks_at = at += lines(slots * sizeof(uint64_t));
	size_t bits_at = at += lines(blocks * BLOCK_WORDS * sizeof(uint64_t));
	f->len = at + lines((blocks / 64 + 1) * sizeof(uint64_t));
	f->base = MAP_FAILED;
	int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (file >= 0 && ftruncate(file, (off_t)f->len) == 0)
		f->base = mmap(NULL, f->len, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (file >= 0)
		close(file);
	f->free = calloc(blocks, sizeof(*f->free));
	f->noted = calloc(f->len / LINE, 1);
	f->dirty = calloc(f->len / LINE, sizeof(*f->dirty));
	if (f->base == MAP_FAILED || !f->free || !f->noted || !f->dirty) {
		floor_close(f);
		return NULL;
	}
	if (touched)
		memset(f->base, 0, f->len);
	f->checkpoint = (uint64_t *)f->base;
	f->ring = (uint64_t *)(f->base + ring_at);
	f->words = (uint64_t *)(f->base + words_at);
	f->slots = (uint64_t *)(f->base + slots_at);
	f->blocks = (uint64_t *)(f->base + blocks_at);
	f->bits = (uint64_t *)(f->base + bits_at);
	for (size_t i = 0; i < blocks; i++)
		f->free[i] = (uint32_t)(blocks - 1 - i);
	f->free_count = blocks;
	f->stamp = 1;
	f->flush = best_flush();
	return f;
}

/*
 * The floor of blocks: a copy past the cache to the block's place, with the widest stores of the CPU, and one fence. It
 * has no map, no checksum and no lock, and a power cut leaves a mixture.
 */
struct floor_blocks {
	unsigned char *base;
	size_t len;
	size_t block_size;
	void (*copy)(unsigned char *, const unsigned char *, size_t);
};

__attribute__((target("avx512f"))) static void
copy_avx512(unsigned char *to, const unsigned char *from, size_t len)
{
	for (size_t at = 0; at < len; at += LINE)
		_mm512_stream_si512((__m512i *)(to + at), _mm512_loadu_si512(from + at));
}

__attribute__((target("avx2"))) static void
copy_avx2(unsigned char *to, const unsigned char *from, size_t len)
{
	for (size_t at = 0; at < len; at += LINE / 2)
		_mm256_stream_si256((__m256i *)(to + at), _mm256_loadu_si256((const __m256i *)(from + at)));
}

static void
copy_sse2(unsigned char *to, const unsigned char *from, size_t len)
{
	for (size_t at = 0; at < len; at += LINE / 4)
		_mm_stream_si128((__m128i *)(to + at), _mm_loadu_si128((const __m128i *)(from + at)));
}

/* Blocks in a file on tmpfs, which is made if it is missing; a null pointer and errno if that fails. */
struct floor_blocks *
floor_blocks_open(const char *path, size_t block_size, size_t count)
{
	struct floor_blocks *f = calloc(1, sizeof(*f));
	if (!f)
		return NULL;
	f->block_size = block_size;
	f->len = block_size * count;
	f->base = MAP_FAILED;
	int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (file >= 0 && ftruncate(file, (off_t)f->len) == 0)
		f->base = mmap(NULL, f->len, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (file >= 0)
		close(file);
	if (f->base == MAP_FAILED) {
		free(f);
		return NULL;
	}
	__builtin_cpu_init();
	f->copy = __builtin_cpu_supports("avx512f") ? copy_avx512
		  : __builtin_cpu_supports("avx2")  ? copy_avx2
						    : copy_sse2;
	return f;
}

/* Writes each block of `order`; the content is `block` with the next stamp at its start. */
void
floor_blocks_write(struct floor_blocks *f, const uint32_t *order, size_t count, unsigned char *block, uint64_t stamp)
{
	for (size_t i = 0; i < count; i++) {
		uint64_t word = stamp + i;
		memcpy(block, &word, sizeof(word));
		f->copy(f->base + order[i] * f->block_size, block, f->block_size);
		_mm_sfence();
	}
}

/* Reads each block of `order` into `block`, and folds its first word into the digest. */
uint64_t
floor_blocks_read(const struct floor_blocks *f, const uint32_t *order, size_t count, unsigned char *block, uint64_t digest)
{
	for (size_t i = 0; i < count; i++) {
		memcpy(block, f->base + order[i] * f->block_size, f->block_size);
		__asm__ volatile("" : : "r"(block) : "memory");
		uint64_t word;
		memcpy(&word, block, sizeof(word));
		digest = (digest << 5 | digest >> 59) ^ word;
	}
	return digest;
}

void
floor_blocks_close(struct floor_blocks *f)
{
	munmap(f->base, f->len);
	free(f);
}
