/*
 * table_cache.h
 *		A backend's copy of a small table, read again when it has changed.
 *
 * Always by the latest snapshot, never the transaction's: a cache that a
 * REPEATABLE READ transaction fills with old rows would stay stale.
 */
#ifndef OUTBOX_TABLE_CACHE_H
#define OUTBOX_TABLE_CACHE_H

#include "postgres.h"

#include "executor/tuptable.h"

/* What the visitor allocates belongs to the cache. */
typedef void (*TableVisitor)(TupleTableSlot *slot, void *arg);

typedef struct TableCache
{
	bool registered;
	bool valid;
	Oid relid;
	MemoryContext context;
} TableCache;

/*
 * Visits all rows. The old contents are freed only when that has succeeded;
 * from then on the cache is valid until the table's next invalidation.
 */
extern void TableCacheFill(TableCache *cache, Oid relid, TableVisitor visit,
						   void *arg);

/* The same without a cache, in the current memory context. */
extern void TableVisit(Oid relid, TableVisitor visit, void *arg);

/* A text column, palloc'd; NULL where it is null. */
extern char *SlotText(TupleTableSlot *slot, int attno);

#endif
