/*
 * log.h
 *		Reading the log: locks, snapshot, difference, direct scans.
 *
 * A read belongs to one short transaction of a worker that has no xid.  The
 * snapshot is taken after all locks: one that is older than a rewriting
 * ALTER TABLE would see an empty log, which would read as "all aborted".
 */
#ifndef OUTBOX_LOG_H
#define OUTBOX_LOG_H

#include "postgres.h"

#include "executor/tuptable.h"
#include "storage/itemptr.h"

#include "snapshot.h"

/* Entries that one collection keeps at most. */
#define LOG_COLLECT_MAX 131072

/* Where a message lies.  Worth something only under the same layout. */
typedef struct LogEntry
{
	int64 seq;
	ItemPointerData tid;
	uint16 leaf;
} LogEntry;

typedef struct LogCollection
{
	LogEntry *entries; /* by seq; palloc'd in the caller's context */
	int n;
	bool complete; /* nothing of the difference is missing */
} LogCollection;

typedef enum LogReadResult
{
	LOG_READ_OK,
	LOG_READ_BUSY, /* a leaf's lock was refused: try again soon */
	LOG_READ_GONE  /* the extension is not there any more */
} LogReadResult;

extern void LogInit(void);

/* Between the two an open transaction; LogReadEnd() before its end. */
extern LogReadResult LogReadBegin(void);
extern void LogReadEnd(void);

/* After an error, when the transaction has been aborted. */
extern void LogReadAbort(void);

/* Of the open read: its snapshot, in the read's memory. */
extern const Progress *LogTarget(void);

/* Rises when leaves come, go or are rewritten. */
extern uint64 LogLayout(void);

/*
 * The messages of a lane that `target` sees and `then` does not, with seq
 * above after_seq, by seq: all, or the first LOG_COLLECT_MAX.
 */
extern LogCollection LogCollect(int lane, const Progress *then,
								const Progress *target, int64 after_seq);

/*
 * The row of an entry, after its commit has become durable on disk.  NULL
 * where the row was never committed.  Valid until the next fetch from the
 * same leaf.
 */
extern TupleTableSlot *LogFetch(const LogEntry *entry);

/* Lets the next read move the border below which commits are durable. */
extern void LogWantHorizon(void);

#endif
