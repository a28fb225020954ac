/*
 * lane.h
 *		One lane in its owner's memory: progress, what is known of the
 *		difference, and the batch in flight.
 */
#ifndef OUTBOX_LANE_H
#define OUTBOX_LANE_H

#include "postgres.h"

#include "datatype/timestamp.h"

#include "ledger.h"
#include "log.h"
#include "producer.h"
#include "walk.h"

typedef enum EntryState
{
	ENTRY_NEW,
	ENTRY_SENT,
	ENTRY_DONE /* acknowledged, or never committed */
} EntryState;

/* Of an entry of the window, once it is acknowledged. */
typedef struct EntryMark
{
	int topic; /* -1: nothing was sent */
	int partition;
	int64 offset;
	int bytes;
} EntryMark;

typedef struct Lane
{
	int number;
	bool owned;
	bool releasing;		   /* goes to another worker: send no more */
	bool wanted;		   /* something may be new: take a snapshot */
	MemoryContext context; /* of all that follows */

	LaneProgress progress;
	bool dirty; /* differs from what the ledger says */

	/* The walk over then -> target, and the entries of it at hand, by seq. */
	Walk *walk;
	LogEntry *entries;
	int nentries;
	bool last; /* none follow behind these */

	/* The batch: entries [window_start, window_end), done up to `done`. */
	int window_start;
	int window_end;
	int done;
	int in_flight;
	int capacity; /* of the two arrays */
	uint8 *state;
	EntryMark *marks;

	/* Acknowledged ahead of a failed message: not to be sent again. */
	int64 *ahead;
	int nahead;

	/*
	 * So many messages go one by one: a broker refuses whole sets, also for
	 * one message in it, or because the set alone is too large.
	 */
	int careful;

	/* Failing now? */
	int attempts;
	TimestampTz retry_at;
	int blamed_code; /* of the failure that is being handled */
	bool blame_told; /* it stands in the log already */
} Lane;

/* What LaneRead() sends with, and what it tells. */
typedef struct LaneSender
{
	Producer *producer;
	uint16 generation; /* of the producer */
	const char *source;
	MemoryContext scratch; /* reset after each record */
	int max_rows;
	int64 max_bytes;
	int sent;
	bool queue_full;

	/* The topic of the last record: most have the same. */
	int topic; /* -1: none yet */
	int topic_len;
	char topic_name[OUTBOX_TOPIC_MAX];
} LaneSender;

extern void LaneInit(Lane *lane, int number);
extern void LaneTake(Lane *lane, const LaneProgress *loaded);
extern void LaneDrop(Lane *lane);

/* Has, or may have, something to send, and nothing in flight. */
extern bool LaneIsReady(const Lane *lane, TimestampTz now);

/* The seq that a large walk reads next; PG_INT64_MAX where there is none. */
extern int64 LaneWalkPosition(const Lane *lane, TimestampTz now);

/* Within an open read: hands the next batch over. */
extern void LaneRead(Lane *lane, LaneSender *sender);

/* A delivery report of the batch, by its index in the window. */
extern void LaneAcknowledge(Lane *lane, int index, const ProducerEvent *event,
							Producer *producer);
extern void LaneFail(Lane *lane, int index, const ProducerEvent *event);

/* The producer is gone: what was in flight has to be sent again. */
extern void LaneReset(Lane *lane, Producer *producer);

/* Messages and bytes that passed the progress since the last call. */
extern void LaneTakeCounts(int64 *messages, int64 *bytes);

static inline uint64
LaneOpaque(const Lane *lane, uint16 generation, int index)
{
	return (uint64) generation << 48 | (uint64) lane->number << 32 |
		   (uint32) index;
}

#endif
