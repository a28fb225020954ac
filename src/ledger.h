/*
 * ledger.h
 *		The progress ledger: outbox.batch.
 */
#ifndef OUTBOX_LEDGER_H
#define OUTBOX_LEDGER_H

#include "postgres.h"

#include "outbox.h"
#include "snapshot.h"

/*
 * A lane's progress.  Without target: all that `then` sees has left the log.
 * With it, also what `target` sees up to last_seq.
 */
typedef struct LaneProgress
{
	int lane;
	Progress *then;
	Progress *target; /* NULL outside a walk */
	int64 last_seq;
} LaneProgress;

/* Where messages went since the last record. */
typedef struct OffsetRange
{
	const char *topic;
	int partition;
	int64 first;
	int64 last;
} OffsetRange;

typedef struct LedgerRecord
{
	int nlanes;
	LaneProgress lanes[OUTBOX_LANES];
	int64 messages;
	int64 bytes;
	int nranges;
	OffsetRange *ranges;
} LedgerRecord;

/*
 * The newest progress of each of the lanes, allocated in `context`; in a
 * transaction of its own.
 */
extern void LedgerLoad(uint32 lanes, LaneProgress *progress,
					   MemoryContext context);

/* Writes one row, in a transaction of its own. */
extern void LedgerWrite(const LedgerRecord *record);

#endif
