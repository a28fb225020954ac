/*
 * leaf.h
 *		The leaves of the log: partitions of outbox.message, and tables that
 *		left the tree with their rows.
 */
#ifndef OUTBOX_LEAF_H
#define OUTBOX_LEAF_H

#include "postgres.h"

#include "access/relscan.h"
#include "executor/tuptable.h"
#include "utils/relcache.h"

typedef struct LogLeaf
{
	Oid relid;
	Oid storage; /* changes when the leaf is rewritten */

	/* Set while a read is open. */
	Relation rel;
	Relation index; /* set with scan */
	IndexScanDesc scan;
	TupleTableSlot *slot;
} LogLeaf;

/* Needs the lock on outbox.message. */
extern LogLeaf *LeafList(MemoryContext context, int *n);

/* Opens the leaf's index on (lane, xid, seq); raises where it has none. */
extern Relation LeafIndexOpen(Relation leaf);

#endif
