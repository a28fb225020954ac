/*
 * record.c
 *		From a row of the log to a Kafka record.
 */
#include "postgres.h"

#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "headers.h"
#include "message_id.h"
#include "outbox.h"
#include "record.h"
#include "utf8.h"

/* Headers of our own; the application's come after them. */
enum
{
	H_SPECVERSION,
	H_ID,
	H_SOURCE,
	H_TYPE,
	H_SUBJECT,
	H_TIME,
	H_AGGREGATE_TYPE,
	H_SEQUENCE,
	H_COUNT
};

static void format_time(TimestampTz at, char *buf);
static void add_header(void *arg, Utf8 name, Utf8 value, bool isnull);

#define HEADER(n)                              \
	{                                          \
		.name = (n), .name_len = sizeof(n) - 1 \
	}

static const ProducerHeader fixed_headers[H_COUNT] = {
	[H_SPECVERSION] = {.name = "ce_specversion",
					   .name_len = 14,
					   .value = "1.0",
					   .value_len = 3},
	[H_ID] = HEADER("ce_id"),
	[H_SOURCE] = HEADER("ce_source"),
	[H_TYPE] = HEADER("ce_type"),
	[H_SUBJECT] = HEADER("ce_subject"),
	[H_TIME] = HEADER("ce_time"),
	[H_AGGREGATE_TYPE] = HEADER("ce_aggregatetype"),
	[H_SEQUENCE] = HEADER("ce_sequence"),
};

/* Grows with the application's headers; kept for the next record. */
static ProducerHeader *headers = NULL;
static int nheaders = 0;
static int headers_capacity = 0;

static inline void
set(int header, const char *value, int len)
{
	headers[header].value = value;
	headers[header].value_len = len;
}

static inline Utf8
text_attr(TupleTableSlot *slot, int attr)
{
	return Utf8FromDatum(slot->tts_values[attr - 1]);
}

static inline bool
is_null(TupleTableSlot *slot, int attr)
{
	return slot->tts_isnull[attr - 1];
}

static void
set_fixed_headers(TupleTableSlot *slot, const char *source)
{
	static char id_text[MESSAGE_ID_STRLEN + 1];
	static char seq_text[32];
	static char time_text[64];
	TimestampTz created_at =
		DatumGetTimestampTz(slot->tts_values[MSG_CREATED_AT - 1]);
	int64 seq = DatumGetInt64(slot->tts_values[MSG_SEQ - 1]);
	pg_uuid_t id;
	Utf8 text;

	if (headers == NULL)
	{
		headers_capacity = H_COUNT + 8;
		headers = MemoryContextAlloc(TopMemoryContext, sizeof(ProducerHeader) *
														   headers_capacity);
		memcpy(headers, fixed_headers, sizeof(fixed_headers));
	}
	nheaders = H_COUNT;

	MessageIdMake(&id, created_at,
				  DatumGetUInt64(slot->tts_values[MSG_XID - 1]), seq);
	MessageIdFormat(&id, id_text);
	set(H_ID, id_text, MESSAGE_ID_STRLEN);
	text = Utf8FromBytes(source, strlen(source));
	set(H_SOURCE, text.data, text.len);
	text = text_attr(slot, MSG_EVENT_TYPE);
	set(H_TYPE, text.data, text.len);
	text = text_attr(slot, MSG_AGGREGATE_ID);
	set(H_SUBJECT, text.data, text.len);
	format_time(created_at, time_text);
	set(H_TIME, time_text, strlen(time_text));
	text = text_attr(slot, MSG_AGGREGATE_TYPE);
	set(H_AGGREGATE_TYPE, text.data, text.len);
	set(H_SEQUENCE, seq_text, pg_lltoa(seq, seq_text));
}

/*
 * Milliseconds since the epoch; never a time to come, as after a clock that was
 * ahead: brokers refuse those, and ce_time tells it anyway.
 */
static int64
kafka_timestamp(TimestampTz created_at)
{
	static TimestampTz now = 0;

	if (created_at > now)
		now = GetCurrentTimestamp();
	return UnixMicroseconds(Min(created_at, now)) / 1000;
}

void
RecordBuild(TupleTableSlot *slot, const char *source, ProducerRecord *record,
			Utf8 *topic)
{
	Utf8 key =
		text_attr(slot, is_null(slot, MSG_KEY) ? MSG_AGGREGATE_ID : MSG_KEY);
	const char *content_type = NULL;

	*topic = text_attr(slot, MSG_TOPIC);
	set_fixed_headers(slot, source);

	record->value = NULL;
	record->value_len = 0;
	if (!is_null(slot, MSG_PAYLOAD))
	{
		Utf8 value = text_attr(slot, MSG_PAYLOAD);

		record->value = value.data;
		record->value_len = value.len;
		content_type = "application/json";
	}
	else if (!is_null(slot, MSG_PAYLOAD_BYTES))
	{
		bytea *value =
			DatumGetByteaPP(slot->tts_values[MSG_PAYLOAD_BYTES - 1]);

		record->value = VARDATA_ANY(value);
		record->value_len = VARSIZE_ANY_EXHDR(value);
		content_type = "application/octet-stream";
	}

	if (!is_null(slot, MSG_HEADERS))
		HeadersVisit(slot->tts_values[MSG_HEADERS - 1], add_header,
					 &content_type);
	if (content_type != NULL)
		add_header(NULL,
				   (Utf8){HEADER_CONTENT_TYPE, strlen(HEADER_CONTENT_TYPE)},
				   (Utf8){content_type, strlen(content_type)}, false);

	record->key = key.data;
	record->key_len = key.len;
	record->timestamp_ms = kafka_timestamp(
		DatumGetTimestampTz(slot->tts_values[MSG_CREATED_AT - 1]));
	record->headers = headers;
	record->nheaders = nheaders;
}

/* arg: the content type that the application's own takes the place of. */
static void
add_header(void *arg, Utf8 name, Utf8 value, bool isnull)
{
	ProducerHeader *h;

	if (nheaders == headers_capacity)
	{
		headers_capacity *= 2;
		headers = repalloc(headers, sizeof(ProducerHeader) * headers_capacity);
	}
	h = &headers[nheaders++];
	h->name = name.data;
	h->name_len = name.len;
	h->value = isnull ? NULL : value.data;
	h->value_len = isnull ? 0 : value.len;
	if (arg != NULL && name.len == strlen(HEADER_CONTENT_TYPE) &&
		pg_strncasecmp(name.data, HEADER_CONTENT_TYPE, name.len) == 0)
		*(const char **) arg = NULL;
}

/* RFC 3339 in UTC with microseconds. */
static void
format_time(TimestampTz at, char *buf)
{
	static TimestampTz cached_second = PG_INT64_MIN;
	static char cached[48];
	static int cached_len = 0;
	int64 rest = at % USECS_PER_SEC;
	TimestampTz second;

	if (rest < 0)
		rest += USECS_PER_SEC;
	second = at - rest;
	if (second != cached_second)
	{
		struct pg_tm tm;
		fsec_t fsec;

		if (timestamp2tm(second, NULL, &tm, &fsec, NULL, NULL) != 0)
			ereport(ERROR, (errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
							errmsg("timestamp out of range")));
		cached_len =
			snprintf(cached, sizeof(cached), "%04d-%02d-%02dT%02d:%02d:%02d.",
					 tm.tm_year, tm.tm_mon, tm.tm_mday, tm.tm_hour, tm.tm_min,
					 tm.tm_sec);
		cached_second = second;
	}
	memcpy(buf, cached, cached_len);
	buf += cached_len;
	for (int i = 5; i >= 0; i--, rest /= 10)
		buf[i] = '0' + rest % 10;
	buf[6] = 'Z';
	buf[7] = '\0';
}
