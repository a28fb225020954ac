/*
 * walk.c
 *		Walking a difference of one lane in the order of seq.
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "walk.h"

/*
 * The bounds can be given at build time: with small ones a short test goes all
 * the ways of a large walk.
 */
#ifndef WALK_DIRECT_MAX
#define WALK_DIRECT_MAX 32768 /* up to so many are collected at once */
#define WALK_BLOCK_SIZE 4096  /* of so many the first pass keeps one seq */
#define WALK_CHUNK_SIZE 8192  /* so many are given out at once */
#define WALK_HEAP_MAX 65536	  /* more are not held back */
#endif

typedef enum WalkMode
{
	WALK_WHOLE,	   /* the chunk is all there is */
	WALK_STREAM,   /* the second pass */
	WALK_SMALLEST, /* a pass for each chunk */
} WalkMode;

struct Walk
{
	MemoryContext context;
	int lane;
	const Progress *then;
	const Progress *target;
	int64 after_seq; /* smaller ones have been given out */
	uint64 layout;
	WalkMode mode;
	bool ended;	 /* nothing is left behind the chunk */
	bool broken; /* an error ended WalkNext() half-way */

	LogEntry *chunk;
	int nchunk;

	XidRange *ranges;
	int nranges;

	/* While streaming: the smallest seq of each block and all behind it. */
	int64 *rest_min;
	int nblocks;
	int blocks_read;
	int leaf; /* where the second pass goes on */
	int range;
	LogPosition position;
	bool scanned; /* the second pass is through */
	LogEntry *heap;
	int nheap;
};

/* One scan of the index over all leaves and ranges. */
typedef struct Pass
{
	const Progress *then;
	const Progress *target;
	int64 after_seq;

	LogEntry *entries; /* the first ones, or the smallest */
	int n;
	int64 bound; /* entries from here on are of no use */

	int64 total;
	int64 *block_min; /* NULL until there are more than WALK_DIRECT_MAX */
	int block_capacity;
} Pass;

static void scan_all(Pass *pass, int lane, const XidRange *ranges, int nranges,
					 LogVisitor visit);
static bool visit_first(void *arg, uint64 xid, const LogEntry *entry);
static bool visit_smallest(void *arg, uint64 xid, const LogEntry *entry);
static bool visit_block(void *arg, uint64 xid, const LogEntry *entry);
static void start_stream(Walk *walk, Pass *pass);
static void fill_stream(Walk *walk);
static void fill_smallest(Walk *walk);
static void read_block(Walk *walk);
static void heap_push(Walk *walk, const LogEntry *entry);
static LogEntry heap_pop(Walk *walk);

/* Entries of the pass under way; kept, since most passes find few. */
static LogEntry *buffer = NULL;

#define BUFFER_SIZE (2 * WALK_DIRECT_MAX)

static int
compare_entries(const void *a, const void *b)
{
	int64 x = ((const LogEntry *) a)->seq;
	int64 y = ((const LogEntry *) b)->seq;

	return x < y ? -1 : x > y;
}

static inline bool
belongs(const Progress *then, const Progress *target, uint64 xid)
{
	return !ProgressSees(then, xid) && ProgressSees(target, xid);
}

Walk *
WalkBegin(MemoryContext parent, int lane, const Progress *then,
		  const Progress *target, int64 after_seq)
{
	Pass pass = {.then = then, .target = target, .after_seq = after_seq};
	int nranges;
	XidRange *ranges = ProgressDifference(then, target, &nranges);
	MemoryContext context;
	Walk *walk;

	if (buffer == NULL)
		buffer = MemoryContextAlloc(TopMemoryContext,
									sizeof(LogEntry) * BUFFER_SIZE);
	pass.entries = buffer;
	scan_all(&pass, lane, ranges, nranges, visit_first);
	if (pass.total == 0)
	{
		pfree(ranges);
		return NULL;
	}

	context =
		AllocSetContextCreate(parent, "outbox walk", ALLOCSET_SMALL_SIZES);
	walk = MemoryContextAllocZero(context, sizeof(Walk));
	walk->context = context;
	walk->lane = lane;
	walk->then = then;
	walk->target = target;
	walk->after_seq = after_seq;
	walk->layout = LogLayout();
	walk->nranges = nranges;
	walk->ranges = MemoryContextAlloc(context, sizeof(XidRange) * nranges);
	memcpy(walk->ranges, ranges, sizeof(XidRange) * nranges);
	pfree(ranges);

	if (pass.total > WALK_DIRECT_MAX)
		start_stream(walk, &pass);
	else
	{
		walk->mode = WALK_WHOLE;
		walk->nchunk = pass.n;
		walk->chunk = MemoryContextAlloc(context, sizeof(LogEntry) * pass.n);
		memcpy(walk->chunk, buffer, sizeof(LogEntry) * pass.n);
		qsort(walk->chunk, pass.n, sizeof(LogEntry), compare_entries);
	}
	return walk;
}

void
WalkEnd(Walk *walk)
{
	MemoryContextDelete(walk->context);
}

bool
WalkIsLarge(const Walk *walk)
{
	return walk->mode != WALK_WHOLE;
}

bool
WalkIsCurrent(const Walk *walk)
{
	return walk->layout == LogLayout() && !walk->broken;
}

/*
 * What an error interrupts cannot go on: entries have left the heap that nobody
 * was given.
 */
LogEntry *
WalkNext(Walk *walk, int *n, bool *last)
{
	walk->broken = true;
	if (walk->mode == WALK_WHOLE)
	{
		if (walk->ended)
			walk->nchunk = 0;
		walk->ended = true;
	}
	if (walk->mode == WALK_STREAM)
		fill_stream(walk);
	if (walk->mode == WALK_SMALLEST)
		fill_smallest(walk);
	walk->broken = false;

	*n = walk->nchunk;
	*last = walk->ended;
	if (walk->nchunk == 0)
		return NULL;
	walk->after_seq = walk->chunk[walk->nchunk - 1].seq;
	return walk->chunk;
}

static void
scan_all(Pass *pass, int lane, const XidRange *ranges, int nranges,
		 LogVisitor visit)
{
	for (int leaf = 0; leaf < LogLeafCount() && nranges > 0; leaf++)
	{
		if (LogLeafIsPast(leaf, pass->then->xmin))
			continue;
		for (int r = 0; r < nranges; r++)
			LogScan(leaf, lane, ranges[r].lo, ranges[r].hi, NULL, visit, pass);
	}
}

/* Keeps the entries while they are few, then only each block's smallest. */
static bool
visit_first(void *arg, uint64 xid, const LogEntry *entry)
{
	Pass *pass = arg;
	int64 block;

	if (entry->seq <= pass->after_seq ||
		!belongs(pass->then, pass->target, xid))
		return true;
	block = pass->total++ / WALK_BLOCK_SIZE;
	if (pass->total <= WALK_DIRECT_MAX)
	{
		pass->entries[pass->n++] = *entry;
		return true;
	}
	if (pass->block_min == NULL)
	{
		pass->block_capacity = 4 * WALK_DIRECT_MAX / WALK_BLOCK_SIZE;
		pass->block_min = palloc(sizeof(int64) * pass->block_capacity);
		for (int i = 0; i < pass->block_capacity; i++)
			pass->block_min[i] = PG_INT64_MAX;
		for (int i = 0; i < pass->n; i++)
			pass->block_min[i / WALK_BLOCK_SIZE] = Min(
				pass->block_min[i / WALK_BLOCK_SIZE], pass->entries[i].seq);
	}
	if (block == pass->block_capacity)
	{
		pass->block_capacity *= 2;
		pass->block_min =
			repalloc(pass->block_min, sizeof(int64) * pass->block_capacity);
		for (int i = block; i < pass->block_capacity; i++)
			pass->block_min[i] = PG_INT64_MAX;
	}
	pass->block_min[block] = Min(pass->block_min[block], entry->seq);
	return true;
}

static void
start_stream(Walk *walk, Pass *pass)
{
	walk->mode = WALK_STREAM;
	walk->nblocks = (pass->total + WALK_BLOCK_SIZE - 1) / WALK_BLOCK_SIZE;
	walk->rest_min =
		MemoryContextAlloc(walk->context, sizeof(int64) * (walk->nblocks + 1));
	walk->rest_min[walk->nblocks] = PG_INT64_MAX;
	for (int i = walk->nblocks - 1; i >= 0; i--)
		walk->rest_min[i] = Min(pass->block_min[i], walk->rest_min[i + 1]);
	pfree(pass->block_min);
	walk->chunk =
		MemoryContextAlloc(walk->context, sizeof(LogEntry) * WALK_CHUNK_SIZE);
	walk->heap = MemoryContextAlloc(
		walk->context, sizeof(LogEntry) * (WALK_HEAP_MAX + WALK_BLOCK_SIZE));
}

/*
 * Entries that were never committed may have been vacuumed since the first
 * pass. Then a block reaches farther than it did, and the smallest seq that is
 * expected behind it is too small: more is held back than need be, never less.
 */
static void
fill_stream(Walk *walk)
{
	walk->nchunk = 0;
	while (walk->nchunk < WALK_CHUNK_SIZE)
	{
		int64 bound = walk->rest_min[Min(walk->blocks_read, walk->nblocks)];

		if (walk->nheap > 0 && (walk->scanned || walk->heap[0].seq < bound))
			walk->chunk[walk->nchunk++] = heap_pop(walk);
		else if (walk->scanned)
			break;
		else if (walk->nheap <= WALK_HEAP_MAX)
			read_block(walk);
		else if (walk->nchunk > 0)
			break;
		else
		{
			pfree(walk->heap);
			pfree(walk->chunk);
			walk->chunk = MemoryContextAlloc(
				walk->context, sizeof(LogEntry) * WALK_DIRECT_MAX);
			walk->mode = WALK_SMALLEST;
			return;
		}
	}
	walk->ended = walk->scanned && walk->nheap == 0;
}

/* What the second pass reads in one go. */
typedef struct Block
{
	Walk *walk;
	int n;
} Block;

static bool
visit_block(void *arg, uint64 xid, const LogEntry *entry)
{
	Block *block = arg;
	Walk *walk = block->walk;

	walk->position.xid = xid;
	walk->position.seq = entry->seq;
	if (entry->seq > walk->after_seq && belongs(walk->then, walk->target, xid))
	{
		heap_push(walk, entry);
		block->n++;
	}
	return block->n < WALK_BLOCK_SIZE;
}

static void
read_block(Walk *walk)
{
	Block block = {walk, 0};

	while (walk->leaf < LogLeafCount())
	{
		XidRange *range = &walk->ranges[walk->range];

		if (LogLeafIsPast(walk->leaf, walk->then->xmin))
		{
			walk->leaf++;
			continue;
		}
		if (!LogScan(walk->leaf, walk->lane, range->lo, range->hi,
					 walk->position.xid == 0 ? NULL : &walk->position,
					 visit_block, &block))
		{
			walk->blocks_read++;
			return;
		}
		walk->position.xid = 0;
		if (++walk->range == walk->nranges)
		{
			walk->range = 0;
			walk->leaf++;
		}
	}
	walk->scanned = true;
}

static bool
visit_smallest(void *arg, uint64 xid, const LogEntry *entry)
{
	Pass *pass = arg;

	if (entry->seq <= pass->after_seq || entry->seq >= pass->bound ||
		!belongs(pass->then, pass->target, xid))
		return true;
	if (pass->n == BUFFER_SIZE)
	{
		qsort(pass->entries, pass->n, sizeof(LogEntry), compare_entries);
		pass->n = WALK_DIRECT_MAX;
		pass->bound = pass->entries[pass->n - 1].seq;
		if (entry->seq >= pass->bound)
			return true;
	}
	pass->total++;
	pass->entries[pass->n++] = *entry;
	return true;
}

static void
fill_smallest(Walk *walk)
{
	Pass pass = {.then = walk->then,
				 .target = walk->target,
				 .after_seq = walk->after_seq,
				 .entries = buffer,
				 .bound = PG_INT64_MAX};

	scan_all(&pass, walk->lane, walk->ranges, walk->nranges, visit_smallest);
	qsort(pass.entries, pass.n, sizeof(LogEntry), compare_entries);
	walk->ended = pass.n <= WALK_DIRECT_MAX && pass.bound == PG_INT64_MAX;
	walk->nchunk = Min(pass.n, WALK_DIRECT_MAX);
	memcpy(walk->chunk, pass.entries, sizeof(LogEntry) * walk->nchunk);
}

static void
heap_push(Walk *walk, const LogEntry *entry)
{
	LogEntry *heap = walk->heap;
	int i = walk->nheap++;

	while (i > 0 && heap[(i - 1) / 2].seq > entry->seq)
	{
		heap[i] = heap[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	heap[i] = *entry;
}

static LogEntry
heap_pop(Walk *walk)
{
	LogEntry *heap = walk->heap;
	LogEntry top = heap[0];
	LogEntry last = heap[--walk->nheap];
	int i = 0;

	for (;;)
	{
		int child = 2 * i + 1;

		if (child >= walk->nheap)
			break;
		if (child + 1 < walk->nheap && heap[child + 1].seq < heap[child].seq)
			child++;
		if (heap[child].seq >= last.seq)
			break;
		heap[i] = heap[child];
		i = child;
	}
	heap[i] = last;
	return top;
}
