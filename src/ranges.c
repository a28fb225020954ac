/*
 * ranges.c
 *		Where messages went since the last record.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

#include "outbox.h"
#include "ranges.h"

typedef struct RangeKey
{
	char topic[OUTBOX_TOPIC_MAX + 1];
	int partition;
} RangeKey;

typedef struct RangeEntry
{
	RangeKey key;
	int64 first;
	int64 last;
} RangeEntry;

static RangeEntry *find_entry(const char *topic, int partition);
static uint32 hash_key(const void *key, Size size);
static int match_key(const void *a, const void *b, Size size);

static MemoryContext context = NULL;
static HTAB *table = NULL;
static RangeEntry *last = NULL; /* the next message mostly has it, too */

void
RangesInit(void)
{
	context = AllocSetContextCreate(TopMemoryContext, "outbox ranges",
									ALLOCSET_DEFAULT_SIZES);
}

static HTAB *
make_table(void)
{
	HASHCTL ctl = {0};

	ctl.keysize = sizeof(RangeKey);
	ctl.entrysize = sizeof(RangeEntry);
	ctl.hash = hash_key;
	ctl.match = match_key;
	ctl.hcxt = context;
	return hash_create("outbox ranges", 64, &ctl,
					   HASH_ELEM | HASH_FUNCTION | HASH_COMPARE |
						   HASH_CONTEXT);
}

void
RangesAdd(const char *topic, int partition, int64 offset)
{
	if (last == NULL || last->key.partition != partition ||
		strcmp(last->key.topic, topic) != 0)
		last = find_entry(topic, partition);
	last->first = Min(last->first, offset);
	last->last = Max(last->last, offset);
}

static RangeEntry *
find_entry(const char *topic, int partition)
{
	RangeKey key;
	RangeEntry *entry;
	bool found;

	if (table == NULL)
		table = make_table();
	strlcpy(key.topic, topic, sizeof(key.topic));
	key.partition = partition;
	entry = hash_search(table, &key, HASH_ENTER, &found);
	if (!found)
	{
		entry->first = PG_INT64_MAX;
		entry->last = PG_INT64_MIN;
	}
	return entry;
}

OffsetRange *
RangesList(int *n)
{
	HASH_SEQ_STATUS status;
	RangeEntry *entry;
	OffsetRange *list;

	*n = 0;
	if (table == NULL)
		return NULL;
	list = palloc(sizeof(OffsetRange) * (hash_get_num_entries(table) + 1));
	hash_seq_init(&status, table);
	while ((entry = hash_seq_search(&status)) != NULL)
	{
		OffsetRange *range = &list[(*n)++];

		range->topic = entry->key.topic;
		range->partition = entry->key.partition;
		range->first = entry->first;
		range->last = entry->last;
	}
	return list;
}

void
RangesReset(void)
{
	if (table != NULL)
		hash_destroy(table);
	table = NULL;
	last = NULL;
}

/* The name alone: what stands behind its end is arbitrary. */
static uint32
hash_key(const void *key, Size size)
{
	const RangeKey *k = key;

	return hash_combine(string_hash(k->topic, sizeof(k->topic)),
						murmurhash32((uint32) k->partition));
}

static int
match_key(const void *a, const void *b, Size size)
{
	const RangeKey *x = a;
	const RangeKey *y = b;

	return x->partition != y->partition || strcmp(x->topic, y->topic) != 0;
}
