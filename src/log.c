/*
 * log.c
 *		Reading the log by direct scans of its leaves.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relscan.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "access/xlog.h"
#include "catalog/pg_inherits.h"
#include "miscadmin.h"
#include "replication/message.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "catalog.h"
#include "instance.h"
#include "leaf.h"
#include "log.h"
#include "outbox.h"

/* How often locking starts anew because the tree changed meanwhile. */
#define LOCK_ATTEMPTS 5

/*
 * How many entries ahead of the fetch its line pointer and its row are brought
 * near, and how much of a row; the pages between are remembered.
 */
#define AHEAD_POINTER 12
#define AHEAD_ROW 5
#define AHEAD_PAGES 16
#define AHEAD_BYTES 512

static bool lock_leaves(uint64 oldest);
static void list_leaves(void);
static bool take_snapshot(void);
static void close_leaves(void);
static void open_leaf(LogLeaf *leaf);
static BlockNumber count_blocks(LogLeaf *leaf);
static void begin_scan(LogLeaf *leaf);
static void bring_pointer(const LogEntry *entry);
static void bring_row(const LogEntry *entry);
static void make_durable(uint64 xid);
static void move_horizon(void);

/* What the reader knows of the leaves; all in reader_context. */
static MemoryContext reader_context = NULL;
static LogLeaf *leaves = NULL;
static int nleaves = 0;
static uint64 leaves_generation = 0; /* CatalogGeneration() they are of */
static uint64 layout = 1;

/* Of the open read. */
static MemoryContext read_context = NULL;
static Progress *target = NULL;
static Snapshot snapshot = NULL;

/* Commits below it are durable: stored xid, 0 = not yet known. */
static uint64 horizon = 0;
static bool horizon_stale = true;
static uint64 durable_xid = 0; /* the last one looked at */

void
LogInit(void)
{
	reader_context = AllocSetContextCreate(TopMemoryContext, "outbox log",
										   ALLOCSET_DEFAULT_SIZES);
	read_context = AllocSetContextCreate(reader_context, "outbox log read",
										 ALLOCSET_DEFAULT_SIZES);
}

LogReadResult
LogReadBegin(uint64 oldest)
{
	const OutboxCatalog *catalog = CatalogGet(true);
	int attempts = 0;

	if (catalog == NULL)
		return LOG_READ_GONE;

	/* Conditionally: whoever alters the log only delays the read. */
	if (!ConditionalLockRelationOid(catalog->message, AccessShareLock) ||
		!ConditionalLockRelationOid(catalog->message_default, AccessShareLock))
		return LOG_READ_BUSY;
	do
	{
		if (CatalogGet(true) == NULL)
			return LOG_READ_GONE;
		if (++attempts > LOCK_ATTEMPTS)
			return LOG_READ_BUSY;
		if (leaves_generation != CatalogGeneration())
			list_leaves();
		if (!lock_leaves(oldest))
			return LOG_READ_BUSY;
	} while (leaves_generation != CatalogGeneration());

	for (int i = 0; i < nleaves; i++)
		open_leaf(&leaves[i]);

	if (!take_snapshot())
	{
		close_leaves();
		return LOG_READ_BUSY;
	}
	if (horizon_stale)
		move_horizon();
	return LOG_READ_OK;
}

/* An old list stays if a new one cannot be had: it must never be empty. */
static void
list_leaves(void)
{
	uint64 generation = CatalogGeneration();
	int n;
	LogLeaf *list = LeafList(reader_context, &n);

	if (leaves != NULL)
		pfree(leaves);
	leaves = list;
	nleaves = n;
	leaves_generation = generation;
	layout++;
}

/*
 * Attaching a leaf does not conflict with our locks. Whoever has inserted into
 * a leaf that came after the list was made, and is seen by the snapshot, did so
 * after the invalidation was sent: it is found here.
 */
static bool
take_snapshot(void)
{
	uint64 base = InstanceXidBase();

	PushActiveSnapshot(GetTransactionSnapshot());
	AcceptInvalidationMessages();
	if (leaves_generation != CatalogGeneration())
	{
		PopActiveSnapshot();
		return false;
	}
	MemoryContextReset(read_context);
	snapshot = GetActiveSnapshot();
	target = ProgressFromSnapshot(snapshot, base, read_context);
	durable_xid = 0;
	return true;
}

static bool
lock_leaves(uint64 oldest)
{
	for (int i = 0; i < nleaves; i++)
	{
		leaves[i].past = LogLeafIsPast(i, oldest);
		if (leaves[i].past)
			continue;
		if (!ConditionalLockRelationOid(leaves[i].relid, AccessShareLock))
			return false;
	}
	return true;
}

static void
open_leaf(LogLeaf *leaf)
{
	leaf->rel = NULL;
	leaf->nblocks = InvalidBlockNumber;
	leaf->scan = NULL;
	leaf->slot = NULL;
	if (leaf->past)
		return;
	leaf->rel = table_open(leaf->relid, NoLock);
	if (leaf->storage != RelationStorageId(leaf->rel))
	{
		leaf->storage = RelationStorageId(leaf->rel);
		layout++;
	}
}

static void
close_leaves(void)
{
	for (int i = 0; i < nleaves; i++)
	{
		LogLeaf *leaf = &leaves[i];

		if (leaf->slot != NULL)
			ExecDropSingleTupleTableSlot(leaf->slot);
		if (leaf->scan != NULL)
		{
			index_endscan(leaf->scan);
			index_close(leaf->index, NoLock);
		}
		if (leaf->rel != NULL)
			table_close(leaf->rel, NoLock);
	}
	LogReadAbort();
}

void
LogReadEnd(void)
{
	close_leaves();
	PopActiveSnapshot();
}

void
LogReadAbort(void)
{
	for (int i = 0; i < nleaves; i++)
	{
		leaves[i].rel = NULL;
		leaves[i].scan = NULL;
		leaves[i].slot = NULL;
	}
	target = NULL;
	snapshot = NULL;
}

const Progress *
LogTarget(void)
{
	return target;
}

uint64
LogLayout(void)
{
	return layout;
}

int
LogLeafCount(void)
{
	return nleaves;
}

bool
LogLeafIsPast(int leaf, uint64 xmin)
{
	return leaves[leaf].close_at != 0 && leaves[leaf].close_at <= xmin;
}

/*
 * Asked for after the snapshot was taken, so that all it sees lies below; and
 * nobody shortens the leaf while we hold its lock.
 */
static BlockNumber
count_blocks(LogLeaf *leaf)
{
	if (leaf->nblocks == InvalidBlockNumber)
		leaf->nblocks = RelationGetNumberOfBlocks(leaf->rel);
	return leaf->nblocks;
}

static bool
scan_keys(int leaf, ScanKey keys, int nkeys, LogVisitor visit, void *arg)
{
	IndexScanDesc scan = leaves[leaf].scan;
	LogEntry entry = {.leaf = leaf};
	ItemPointer tid;

	index_rescan(scan, keys, nkeys, NULL, 0);
	while ((tid = index_getnext_tid(scan, ForwardScanDirection)) != NULL)
	{
		bool isnull;
		uint64 xid = DatumGetUInt64(
			index_getattr(scan->xs_itup, 2, scan->xs_itupdesc, &isnull));

		CHECK_FOR_INTERRUPTS();
		entry.tid = *tid;
		entry.seq = DatumGetInt64(
			index_getattr(scan->xs_itup, 3, scan->xs_itupdesc, &isnull));
		if (!visit(arg, xid, &entry))
			return false;
	}
	return true;
}

bool
LogScan(int leaf, int lane, uint64 lo, uint64 hi, const LogPosition *after,
		LogVisitor visit, void *arg)
{
	ScanKeyData keys[3];

	if (count_blocks(&leaves[leaf]) == 0)
		return true;
	if (leaves[leaf].scan == NULL)
		begin_scan(&leaves[leaf]);
	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT2EQ,
				Int16GetDatum(lane));

	/* First the rest of the transaction that the position lies in. */
	if (after != NULL)
	{
		ScanKeyInit(&keys[1], 2, BTEqualStrategyNumber, F_XID8EQ,
					UInt64GetDatum(after->xid));
		ScanKeyInit(&keys[2], 3, BTGreaterStrategyNumber, F_INT8GT,
					Int64GetDatum(after->seq));
		if (!scan_keys(leaf, keys, lengthof(keys), visit, arg))
			return false;
		lo = after->xid + 1;
	}
	if (lo >= hi)
		return true;
	ScanKeyInit(&keys[1], 2, BTGreaterEqualStrategyNumber, F_XID8GE,
				UInt64GetDatum(lo));
	ScanKeyInit(&keys[2], 2, BTLessStrategyNumber, F_XID8LT,
				UInt64GetDatum(hi));
	return scan_keys(leaf, keys, lengthof(keys), visit, arg);
}

static void
begin_scan(LogLeaf *leaf)
{
	leaf->index = LeafIndexOpen(leaf->rel);
	leaf->scan = CompatIndexBeginScan(leaf->rel, leaf->index, snapshot, 3);
	leaf->scan->xs_want_itup = true;
}

/*
 * Hardly two rows of a lane lie on the same page, so that a fetch waits for
 * memory several times, one after the other: for longer than all the rest
 * takes.  The waits of several rows overlap if they begin early.
 */
void
LogFetchAhead(const LogEntry *entries, int n)
{
	if (n > AHEAD_POINTER)
		bring_pointer(&entries[AHEAD_POINTER]);
	if (n > AHEAD_ROW)
		bring_row(&entries[AHEAD_ROW]);
}

/* Where bring_pointer() leaves the page for bring_row(). */
static Buffer *
page_of(const LogEntry *entry)
{
	static Buffer pages[AHEAD_PAGES];

	return &pages[(uintptr_t) entry / sizeof(LogEntry) % AHEAD_PAGES];
}

static void
bring_pointer(const LogEntry *entry)
{
	LogLeaf *leaf = &leaves[entry->leaf];
	BlockNumber block = ItemPointerGetBlockNumber(&entry->tid);
	Buffer buffer = InvalidBuffer;

	if (leaf->rel->rd_tableam == GetHeapamTableAmRoutine() &&
		block < count_blocks(leaf))
		buffer = PrefetchBuffer(leaf->rel, MAIN_FORKNUM, block).recent_buffer;
	if (BufferIsValid(buffer))
	{
		Page page = BufferGetPage(buffer);

		CompatPrefetchMemory(page);
		CompatPrefetchMemory(
			PageGetItemId(page, ItemPointerGetOffsetNumber(&entry->tid)));
	}
	*page_of(entry) = buffer;
}

/* Without the page's lock: what is read may be wrong, and only costs. */
static void
bring_row(const LogEntry *entry)
{
	Relation rel = leaves[entry->leaf].rel;
	OffsetNumber offset = ItemPointerGetOffsetNumber(&entry->tid);
	Buffer buffer = *page_of(entry);
	Page page;

	if (!BufferIsValid(buffer) ||
		!CompatReadRecentBuffer(rel, ItemPointerGetBlockNumber(&entry->tid),
								buffer))
		return;
	page = BufferGetPage(buffer);
	if (offset <= PageGetMaxOffsetNumber(page))
	{
		ItemIdData id = *PageGetItemId(page, offset);

		for (int i = 0; i < Min(id.lp_len, AHEAD_BYTES); i += 64)
			CompatPrefetchMemory((char *) page + id.lp_off + i);
	}
	ReleaseBuffer(buffer);
}

TupleTableSlot *
LogFetch(const LogEntry *entry)
{
	LogLeaf *leaf = &leaves[entry->leaf];
	ItemPointerData tid = entry->tid;
	bool isnull;

	/* VACUUM may have cut off the end with rows that were never committed. */
	if (ItemPointerGetBlockNumber(&tid) >= count_blocks(leaf))
		return NULL;
	if (leaf->slot == NULL)
		leaf->slot = table_slot_create(leaf->rel, NULL);
	if (!table_tuple_fetch_row_version(leaf->rel, &tid, snapshot, leaf->slot))
		return NULL;
	slot_getsomeattrs(leaf->slot, MSG_NATTS);

	/* The place of a row that was never committed may have been given away. */
	if (DatumGetInt64(leaf->slot->tts_values[MSG_SEQ - 1]) != entry->seq)
		return NULL;
	make_durable(DatumGetUInt64(slot_getattr(leaf->slot, MSG_XID, &isnull)));
	return leaf->slot;
}

/*
 * A commit with synchronous_commit = off is visible before it is durable: a
 * crash now would leave a message in Kafka that the database never sent.
 * Old xids must not be asked for: their status may have been truncated.
 */
static void
make_durable(uint64 xid)
{
	XLogRecPtr lsn;

	if (xid == durable_xid || xid < horizon)
		return;
	lsn = TransactionIdGetCommitLSN((TransactionId) xid);
	if (!XLogRecPtrIsInvalid(lsn))
		XLogFlush(lsn);
	durable_xid = xid;
}

/*
 * Every commit that the open read sees stands in the WAL before a record
 * that is written now.
 */
static void
move_horizon(void)
{
	XLogFlush(CompatLogMessage("outbox"));
	horizon = target->xmin;
	horizon_stale = false;
}

void
LogWantHorizon(void)
{
	horizon_stale = true;
}
