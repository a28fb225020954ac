/*
 * leaf.h
 *		The leaves of the log: partitions of outbox.message, and tables that
 *		left the tree with their rows.
 */
#ifndef OUTBOX_LEAF_H
#define OUTBOX_LEAF_H

#include "postgres.h"

#include "access/genam.h"
#include "datatype/timestamp.h"
#include "executor/tuptable.h"
#include "storage/block.h"
#include "utils/relcache.h"

typedef struct LogLeaf
{
	Oid relid;
	Oid storage;	 /* changes when the leaf is rewritten */
	uint64 close_at; /* it holds no xid from here on; 0 = not closed */

	/* Set while a read is open. */
	bool past; /* not touched by it; the rest is NULL */
	Relation rel;
	BlockNumber nblocks; /* InvalidBlockNumber = not yet asked for */
	Relation index;		 /* set with scan */
	IndexScanDesc scan;
	TupleTableSlot *slot;
} LogLeaf;

/* Needs the lock on outbox.message. */
extern LogLeaf *LeafList(MemoryContext context, int *n);

/*
 * Messages get no time before it: leaves below have been closed. Needs the
 * lock on outbox.message; DT_NOBEGIN where none has been.
 */
extern TimestampTz LeafClosedBound(void);

/* Opens the leaf's index on (lane, xid, seq); raises where it has none. */
extern Relation LeafIndexOpen(Relation leaf);

#endif
