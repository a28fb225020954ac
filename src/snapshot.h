/*
 * snapshot.h
 *		Progress as a snapshot of stored xids, and the differences of two.
 */
#ifndef OUTBOX_SNAPSHOT_H
#define OUTBOX_SNAPSHOT_H

#include "postgres.h"

#include "access/transam.h"
#include "utils/snapshot.h"

/* In-progress xids in ascending order, all in [xmin, xmax). */
typedef struct Progress
{
	uint64 xmin;
	uint64 xmax;
	int nxip;
	uint64 xip[FLEXIBLE_ARRAY_MEMBER];
} Progress;

/* Half-open range of stored xids. */
typedef struct XidRange
{
	uint64 lo;
	uint64 hi;
} XidRange;

extern Progress *ProgressEmpty(MemoryContext context);
extern Progress *ProgressCopy(const Progress *progress, MemoryContext context);
extern bool ProgressEqual(const Progress *a, const Progress *b);

/* base: OUTBOX_LIFE_BASE of the current life. */
extern Progress *ProgressFromSnapshot(Snapshot snapshot, uint64 base,
									  MemoryContext context);

/* From and to the type pg_snapshot. */
extern Progress *ProgressFromDatum(Datum value, MemoryContext context);
extern Datum ProgressToDatum(const Progress *progress);

extern bool ProgressSees(const Progress *progress, uint64 xid);

/*
 * Ranges that together hold every xid which `target` sees and `then` does
 * not, ascending and apart, some others between them: whoever scans checks
 * each xid.  palloc'd; the count in *n.
 */
extern XidRange *ProgressDifference(const Progress *then,
									const Progress *target, int *n);

/* The full xid of an xid that is not far from the next one. */
extern uint64 WidenXid(TransactionId xid, FullTransactionId next);

#endif
