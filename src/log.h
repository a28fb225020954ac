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

/* Where a message lies.  Worth something only under the same layout. */
typedef struct LogEntry
{
	int64 seq;
	ItemPointerData tid;
	uint16 leaf;
} LogEntry;

/* A place in the order of the index: (xid, seq) of a lane. */
typedef struct LogPosition
{
	uint64 xid;
	int64 seq;
} LogPosition;

/* False ends the scan. */
typedef bool (*LogVisitor)(void *arg, uint64 xid, const LogEntry *entry);

typedef enum LogReadResult
{
	LOG_READ_OK,
	LOG_READ_BUSY, /* a leaf's lock was refused: try again soon */
	LOG_READ_GONE  /* the extension is not there any more */
} LogReadResult;

extern void LogInit(void);

/*
 * Between the two an open transaction; LogReadEnd() before its end. Leaves that
 * hold nothing above `oldest`, a stored xid, are not touched: the xmin of the
 * progress that lags most.
 */
extern LogReadResult LogReadBegin(uint64 oldest);
extern void LogReadEnd(void);

/* After an error, when the transaction has been aborted. */
extern void LogReadAbort(void);

/* Of the open read: its snapshot, in the read's memory. */
extern const Progress *LogTarget(void);

/* Rises when leaves come, go or are rewritten. */
extern uint64 LogLayout(void);

extern int LogLeafCount(void);

/* All that the leaf holds has left the lane whose progress has this xmin. */
extern bool LogLeafIsPast(int leaf, uint64 xmin);

/*
 * Visits one lane's entries of a leaf with lo <= xid < hi, by (xid, seq), from
 * the index alone: also those that were never committed. With `after`, only
 * what stands behind it. False where the visitor has ended the scan.
 */
extern bool LogScan(int leaf, int lane, uint64 lo, uint64 hi,
					const LogPosition *after, LogVisitor visit, void *arg);

/*
 * Before each fetch: the entries that will be fetched, the next one first.
 * Brings later rows near while the caller is busy with earlier ones.
 */
extern void LogFetchAhead(const LogEntry *entries, int n);

/*
 * The row of an entry, after its commit has become durable on disk.  NULL
 * where the row was never committed.  Valid until the next fetch from the
 * same leaf.
 */
extern TupleTableSlot *LogFetch(const LogEntry *entry);

/* Lets the next read move the border below which commits are durable. */
extern void LogWantHorizon(void);

#endif
