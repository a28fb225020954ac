/*
 * lane.c
 *		One lane in its owner's memory.
 *
 * A difference is walked by seq and sent batch by batch; at most one batch is
 * in flight.  Progress moves with each acknowledgement that closes the gap
 * behind it.
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "lane.h"
#include "ranges.h"
#include "record.h"

static bool prepare(Lane *lane);
static void end_walk(Lane *lane);
static bool begin_walk(Lane *lane);
static void drop_entries(Lane *lane);
static void drop_walk(Lane *lane);
static void advance(Lane *lane, Producer *producer);
static bool send_entry(Lane *lane, int index, LaneSender *sender,
					   int64 *bytes);
static void grow_window(Lane *lane, int size);
static void count_mark(const EntryMark *mark, Producer *producer);

static int64 passed_messages = 0;
static int64 passed_bytes = 0;

void
LaneInit(Lane *lane, int number)
{
	memset(lane, 0, sizeof(*lane));
	lane->number = number;
	lane->context = AllocSetContextCreate(TopMemoryContext, "outbox lane",
										  ALLOCSET_DEFAULT_SIZES);
}

void
LaneTake(Lane *lane, const LaneProgress *loaded)
{
	lane->progress = *loaded;
	lane->progress.then = ProgressCopy(loaded->then, lane->context);
	if (loaded->target != NULL)
		lane->progress.target = ProgressCopy(loaded->target, lane->context);
	lane->owned = true;
	lane->wanted = true;
}

void
LaneDrop(Lane *lane)
{
	MemoryContext context = lane->context;
	int number = lane->number;

	MemoryContextReset(context);
	memset(lane, 0, sizeof(*lane));
	lane->number = number;
	lane->context = context;
}

bool
LaneIsReady(const Lane *lane, TimestampTz now)
{
	return lane->owned && !lane->releasing && lane->in_flight == 0 &&
		   lane->retry_at <= now &&
		   (lane->wanted || lane->progress.target != NULL);
}

int64
LaneWalkPosition(const Lane *lane, TimestampTz now)
{
	if (lane->walk == NULL || !WalkIsLarge(lane->walk) || lane->releasing ||
		lane->retry_at > now)
		return PG_INT64_MAX;
	return lane->window_end < lane->nentries
			   ? lane->entries[lane->window_end].seq
			   : lane->progress.last_seq;
}

/* Sees to it that there are entries to send; false where nothing is left. */
static bool
prepare(Lane *lane)
{
	LaneProgress *p = &lane->progress;

	if (lane->walk != NULL && !WalkIsCurrent(lane->walk))
		drop_walk(lane);
	while (lane->entries == NULL)
	{
		if (p->target == NULL && !begin_walk(lane))
			return false;
		if (lane->walk == NULL)
			lane->walk = WalkBegin(lane->context, lane->number, p->then,
								   p->target, p->last_seq);
		if (lane->walk != NULL)
			lane->entries = WalkNext(lane->walk, &lane->nentries, &lane->last);
		lane->window_start = lane->window_end = lane->done = 0;
		if (lane->entries == NULL)
			end_walk(lane);
	}
	return true;
}

/* A new snapshot; where it brings nothing, progress moves on in memory. */
static bool
begin_walk(Lane *lane)
{
	LaneProgress *p = &lane->progress;
	Progress *target = ProgressCopy(LogTarget(), lane->context);

	lane->walk =
		WalkBegin(lane->context, lane->number, p->then, target, PG_INT64_MIN);
	lane->wanted = false;
	if (lane->walk == NULL)
	{
		pfree(p->then);
		p->then = target;
		return false;
	}
	p->target = target;
	p->last_seq = 0;
	return true;
}

/* The difference is through: all that the target sees has left the log. */
static void
end_walk(Lane *lane)
{
	LaneProgress *p = &lane->progress;

	drop_walk(lane);
	pfree(p->then);
	p->then = p->target;
	p->target = NULL;
	p->last_seq = 0;
	lane->dirty = true;
	lane->wanted = true;
	if (lane->ahead != NULL)
		pfree(lane->ahead);
	lane->ahead = NULL;
	lane->nahead = 0;
}

static void
drop_entries(Lane *lane)
{
	Assert(lane->in_flight == 0);
	lane->entries = NULL;
	lane->nentries = lane->window_start = lane->window_end = lane->done = 0;
}

static void
drop_walk(Lane *lane)
{
	drop_entries(lane);
	if (lane->walk != NULL)
		WalkEnd(lane->walk);
	lane->walk = NULL;
}

static bool
is_ahead(const Lane *lane, int64 seq)
{
	int lo = 0;
	int hi = lane->nahead;

	while (lo < hi)
	{
		int mid = (lo + hi) / 2;

		if (lane->ahead[mid] < seq)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < lane->nahead && lane->ahead[lo] == seq;
}

void
LaneRead(Lane *lane, LaneSender *sender)
{
	int64 bytes = 0;

	/* An error may have ended the last read before its own call of this. */
	advance(lane, sender->producer);
	while (lane->in_flight == 0 && !sender->queue_full && prepare(lane))
	{
		int max_rows = lane->careful > 0 ? 1 : sender->max_rows;

		lane->window_start = lane->window_end = lane->done;
		while (lane->window_end < lane->nentries &&
			   lane->window_end - lane->window_start < max_rows &&
			   bytes < sender->max_bytes)
		{
			int index = lane->window_end - lane->window_start;

			grow_window(lane, index + 1);
			LogFetchAhead(&lane->entries[lane->window_end],
						  lane->nentries - lane->window_end);
			if (!send_entry(lane, index, sender, &bytes))
				break;
			lane->window_end++;
		}
		advance(lane, sender->producer);
		if (lane->blamed_code != 0)
			break;
	}
}

static void
grow_window(Lane *lane, int size)
{
	if (size <= lane->capacity)
		return;
	if (lane->capacity == 0)
	{
		lane->capacity = 64;
		lane->state = MemoryContextAlloc(lane->context, lane->capacity);
		lane->marks = MemoryContextAlloc(lane->context,
										 sizeof(EntryMark) * lane->capacity);
		return;
	}
	lane->capacity *= 2;
	lane->state = repalloc(lane->state, lane->capacity);
	lane->marks = repalloc(lane->marks, sizeof(EntryMark) * lane->capacity);
}

static int
find_topic(LaneSender *sender, Utf8 name)
{
	if (sender->topic >= 0 && sender->topic_len == name.len &&
		memcmp(sender->topic_name, name.data, name.len) == 0)
		return sender->topic;

	sender->topic =
		ProducerTopic(sender->producer, pnstrdup(name.data, name.len));
	sender->topic_len = -1;
	if (name.len <= OUTBOX_TOPIC_MAX)
	{
		sender->topic_len = name.len;
		memcpy(sender->topic_name, name.data, name.len);
	}
	return sender->topic;
}

/* False where the producer does not take it now. */
static bool
send_entry(Lane *lane, int index, LaneSender *sender, int64 *bytes)
{
	const LogEntry *entry = &lane->entries[lane->window_end];
	MemoryContext caller = CurrentMemoryContext;
	TupleTableSlot *slot = NULL;
	ProducerRecord record;
	Utf8 topic;
	int code = 0;

	lane->state[index] = ENTRY_DONE;
	lane->marks[index].topic = -1;
	if (!is_ahead(lane, entry->seq))
		slot = LogFetch(entry);
	if (slot == NULL)
		return true;

	MemoryContextSwitchTo(sender->scratch);
	RecordBuild(slot, sender->source, &record, &topic);
	record.topic = find_topic(sender, topic);
	record.opaque = LaneOpaque(lane, sender->generation, index);
	switch (record.topic < 0 ? PRODUCER_REFUSED
							 : ProducerSend(sender->producer, &record, &code))
	{
		case PRODUCER_SENT:
			lane->state[index] = ENTRY_SENT;
			lane->marks[index].bytes = record.key_len + record.value_len;
			*bytes += record.key_len + record.value_len;
			lane->in_flight++;
			sender->sent++;
			break;
		case PRODUCER_QUEUE_FULL:
			sender->queue_full = true;
			break;
		case PRODUCER_REFUSED:
			/* A producer that is at its end says nothing of the message. */
			if (ProducerWasPurged(code))
				sender->queue_full = true;
			else
				lane->blamed_code = code != 0 ? code : -1;
			break;
	}
	MemoryContextSwitchTo(caller);
	MemoryContextReset(sender->scratch);
	return lane->state[index] == ENTRY_SENT;
}

void
LaneAcknowledge(Lane *lane, int index, const ProducerEvent *event,
				Producer *producer)
{
	EntryMark *mark = &lane->marks[index];

	Assert(lane->state[index] == ENTRY_SENT);
	lane->state[index] = ENTRY_DONE;
	mark->topic = event->topic;
	mark->partition = event->partition;
	mark->offset = event->offset;
	lane->in_flight--;
	if (lane->careful > 0)
		lane->careful--;
	advance(lane, producer);
}

void
LaneFail(Lane *lane, int index, const ProducerEvent *event)
{
	Assert(lane->state[index] == ENTRY_SENT);
	lane->state[index] = ENTRY_NEW;
	lane->in_flight--;
	if (!ProducerWasPurged(event->code))
		lane->careful =
			Max(lane->careful, lane->window_end - lane->window_start);
}

static void
count_mark(const EntryMark *mark, Producer *producer)
{
	if (mark->topic < 0)
		return;
	passed_messages++;
	passed_bytes += mark->bytes;
	if (mark->offset >= 0)
		RangesAdd(ProducerTopicName(producer, mark->topic), mark->partition,
				  mark->offset);
}

/* Moves progress over what is done without a gap. */
static void
advance(Lane *lane, Producer *producer)
{
	while (lane->done < lane->window_end &&
		   lane->state[lane->done - lane->window_start] == ENTRY_DONE)
	{
		count_mark(&lane->marks[lane->done - lane->window_start], producer);
		lane->progress.last_seq = lane->entries[lane->done].seq;
		lane->done++;
		lane->dirty = true;
	}
	if (lane->in_flight == 0 && lane->entries != NULL &&
		lane->done == lane->nentries)
	{
		bool last = lane->last;

		drop_entries(lane);
		if (last)
			end_walk(lane);
	}
}

void
LaneReset(Lane *lane, Producer *producer)
{
	int n = 0;
	int64 *ahead;
	int64 last = PG_INT64_MIN;

	lane->in_flight = 0;
	if (lane->entries == NULL)
		return;

	ahead = MemoryContextAlloc(
		lane->context,
		sizeof(int64) * (lane->window_end - lane->done + lane->nahead + 1));
	for (int i = lane->done; i < lane->window_end; i++)
	{
		int index = i - lane->window_start;

		last = lane->entries[i].seq;
		if (lane->state[index] != ENTRY_DONE)
			continue;
		ahead[n++] = last;
		count_mark(&lane->marks[index], producer);
	}
	for (int i = 0; i < lane->nahead; i++)
	{
		if (lane->ahead[i] > last)
			ahead[n++] = lane->ahead[i];
	}
	if (lane->ahead != NULL)
		pfree(lane->ahead);
	lane->ahead = ahead;
	lane->nahead = n;
	lane->window_start = lane->window_end = lane->done;
}

void
LaneTakeCounts(int64 *messages, int64 *bytes)
{
	*messages = passed_messages;
	*bytes = passed_bytes;
	passed_messages = passed_bytes = 0;
}
