/*
 * writeback.c
 *		Writing progress behind: one row of outbox.batch for all lanes.
 */
#include "postgres.h"

#include "utils/timestamp.h"

#include "guc.h"
#include "ledger.h"
#include "ranges.h"
#include "writeback.h"

#define PATIENCE_MS 1000

static DatabaseEntry *database;
static Lane *lanes;

static TimestampTz written_at = 0;
static TimestampTz failing_since = 0; /* 0: the last record was written */
static bool hurry = false;

/* Not yet in a record. */
static int64 messages = 0;
static int64 bytes = 0;

void
WritebackInit(DatabaseEntry *db, Lane *worker_lanes)
{
	database = db;
	lanes = worker_lanes;
}

TimestampTz
WritebackDue(void)
{
	for (int i = 0; i < OUTBOX_LANES; i++)
	{
		if (lanes[i].owned && lanes[i].dirty)
			return hurry ? 0
						 : TimestampTzPlusMilliseconds(
							   written_at, outbox_progress_interval);
	}
	hurry = false;
	return DT_NOEND;
}

void
WritebackHurry(void)
{
	hurry = true;
}

bool
WritebackIsStuck(TimestampTz now)
{
	return failing_since != 0 &&
		   TimestampDifferenceExceeds(failing_since, now, PATIENCE_MS);
}

void
WritebackRun(TimestampTz now)
{
	LedgerRecord record = {0};
	int64 more_messages;
	int64 more_bytes;

	/* Kept until a record is written, should this one fail. */
	LaneTakeCounts(&more_messages, &more_bytes);
	messages += more_messages;
	bytes += more_bytes;

	for (int i = 0; i < OUTBOX_LANES; i++)
	{
		if (lanes[i].owned && lanes[i].dirty)
			record.lanes[record.nlanes++] = lanes[i].progress;
	}
	if (record.nlanes == 0)
		return;
	record.messages = messages;
	record.bytes = bytes;
	record.ranges = RangesList(&record.nranges);

	if (failing_since == 0)
		failing_since = now;
	written_at = now;
	LedgerWrite(&record);
	failing_since = 0;
	hurry = false;

	for (int i = 0; i < record.nlanes; i++)
		lanes[record.lanes[i].lane].dirty = false;
	RangesReset();
	pg_atomic_fetch_add_u64(&database->counters.batches, 1);
	pg_atomic_fetch_add_u64(&database->counters.published, messages);
	pg_atomic_fetch_add_u64(&database->counters.published_bytes, bytes);
	if (messages > 0)
		pg_atomic_write_u64(&database->counters.last_published, now);
	messages = bytes = 0;
}
