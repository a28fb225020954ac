/*
 * enqueue_batch.c
 *		Many messages in one call: outbox.enqueue_batch(json).
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "insert.h"
#include "json_scan.h"
#include "message.h"

/* How a field of an object becomes a column. */
typedef enum FieldKind
{
	FIELD_TEXT, /* a string or a number */
	FIELD_JSON, /* any value, byte for byte */
	FIELD_JSONB,
	FIELD_BASE64,
	FIELD_TIMESTAMP
} FieldKind;

static const struct
{
	const char *name;
	int attr;
	FieldKind kind;
} fields[] = {
	{"aggregate_type", MSG_AGGREGATE_TYPE, FIELD_TEXT},
	{"aggregate_id", MSG_AGGREGATE_ID, FIELD_TEXT},
	{"event_type", MSG_EVENT_TYPE, FIELD_TEXT},
	{"payload", MSG_PAYLOAD, FIELD_JSON},
	{"payload_base64", MSG_PAYLOAD_BYTES, FIELD_BASE64},
	{"headers", MSG_HEADERS, FIELD_JSONB},
	{"topic", MSG_TOPIC, FIELD_TEXT},
	{"key", MSG_KEY, FIELD_TEXT},
	{"deliver_at", MSG_DELIVER_AT, FIELD_TIMESTAMP},
	{"expires_at", MSG_EXPIRES_AT, FIELD_TIMESTAMP},
};

/* Where we are, for the context of errors. */
typedef struct Place
{
	int64 message;
	const char *field; /* NULL: none in particular */
} Place;

typedef struct Ids
{
	Datum *items;
	bool *isnull;
	int count;
	int room;
} Ids;

static void enqueue_all(JsonScan *scan, Ids *ids, Place *place);
static void read_message(JsonScan *scan, Message *m, Place *place);
static int find_field(const char *name, const Place *place);
static void set_field(Message *m, int field, JsonSpan value,
					  const Place *place);
static Datum field_value(FieldKind kind, JsonSpan value);
static void add_id(Ids *ids, MemoryContext context, const pg_uuid_t *id);
static void error_context(void *arg);

PG_FUNCTION_INFO_V1(outbox_enqueue_batch);

Datum
outbox_enqueue_batch(PG_FUNCTION_ARGS)
{
	text *messages = PG_GETARG_TEXT_PP(0);
	JsonScan scan = {VARDATA_ANY(messages),
					 VARDATA_ANY(messages) + VARSIZE_ANY_EXHDR(messages)};
	Ids ids = {0};
	Place place = {0};
	ErrorContextCallback callback = {error_context_stack, error_context,
									 &place};
	int dims[1];
	int lower[1] = {1};

	PreventCommandIfReadOnly("outbox.enqueue_batch()");
	PreventCommandIfParallelMode("outbox.enqueue_batch()");
	if (JsonScanPeek(&scan) != '[')
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("messages are not a JSON array"),
						errdetail("They are of type %s.",
								  JsonSpanType((JsonSpan){scan.at, 1})),
						errhint("Give an array of objects, one a message.")));

	error_context_stack = &callback;
	enqueue_all(&scan, &ids, &place);
	error_context_stack = callback.previous;

	if (ids.count == 0)
		PG_RETURN_ARRAYTYPE_P(construct_empty_array(UUIDOID));
	dims[0] = ids.count;
	PG_RETURN_ARRAYTYPE_P(construct_md_array(ids.items, ids.isnull, 1, dims,
											 lower, UUIDOID, UUID_LEN, false,
											 TYPALIGN_CHAR));
}

static void
enqueue_all(JsonScan *scan, Ids *ids, Place *place)
{
	MemoryContext caller = CurrentMemoryContext;
	MemoryContext context = AllocSetContextCreate(
		caller, "outbox message of a batch", ALLOCSET_DEFAULT_SIZES);
	LogInsert *insert = LogInsertBegin();

	JsonScanSkip(scan, '[');
	while (JsonScanPeek(scan) != ']')
	{
		Message m;
		pg_uuid_t id;

		CHECK_FOR_INTERRUPTS();
		place->message++;
		MemoryContextSwitchTo(context);
		read_message(scan, &m, place);
		add_id(ids, caller, LogInsertMessage(insert, &m, &id) ? &id : NULL);
		MemoryContextSwitchTo(caller);
		MemoryContextReset(context);
		if (!JsonScanSkip(scan, ','))
			break;
	}
	LogInsertEnd(insert);
	MemoryContextDelete(context);
}

static void
read_message(JsonScan *scan, Message *m, Place *place)
{
	uint32 seen = 0;

	memset(m->isnull, true, sizeof(m->isnull));
	memset(m->values, 0, sizeof(m->values));
	if (JsonScanPeek(scan) != '{')
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("message " INT64_FORMAT " is not a JSON object",
							   place->message),
						errdetail("It is of type %s.",
								  JsonSpanType((JsonSpan){scan->at, 1})),
						errhint("Give an array of objects, one a message.")));

	JsonScanSkip(scan, '{');
	while (JsonScanPeek(scan) == '"')
	{
		char *name = JsonSpanText(JsonScanValue(scan));
		int field = find_field(name, place);

		if (seen & (1U << field))
			ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
							errmsg("message " INT64_FORMAT
								   " has the field \"%s\" twice",
								   place->message, name),
							errhint("Give each field once.")));
		seen |= 1U << field;
		JsonScanSkip(scan, ':');
		place->field = name;
		set_field(m, field, JsonScanValue(scan), place);
		place->field = NULL;
		JsonScanSkip(scan, ',');
	}
	JsonScanSkip(scan, '}');

	if (!MessageIsNull(m, MSG_PAYLOAD) && !MessageIsNull(m, MSG_PAYLOAD_BYTES))
		ereport(
			ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("message " INT64_FORMAT
					" has both payload and payload_base64",
					place->message),
			 errhint(
				 "Give JSON in payload, or any bytes in payload_base64; neither for a tombstone.")));
}

static int
find_field(const char *name, const Place *place)
{
	for (int i = 0; i < lengthof(fields); i++)
	{
		if (strcmp(fields[i].name, name) == 0)
			return i;
	}
	ereport(
		ERROR,
		(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
		 errmsg("message " INT64_FORMAT " has an unknown field \"%s\"",
				place->message, name),
		 errhint(
			 "Known are aggregate_type, aggregate_id, event_type, payload, payload_base64, "
			 "headers, topic, key, deliver_at and expires_at.")));
}

static void
set_field(Message *m, int field, JsonSpan value, const Place *place)
{
	FieldKind kind = fields[field].kind;
	const char *type = JsonSpanType(value);

	/* A payload of null is the JSON value; a tombstone has no payload. */
	if (strcmp(type, "null") == 0 && kind != FIELD_JSON)
		return;
	if (kind != FIELD_JSON && kind != FIELD_JSONB &&
		strcmp(type, "string") != 0 &&
		!(kind == FIELD_TEXT && strcmp(type, "number") == 0))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("field \"%s\" of message " INT64_FORMAT
							   " is not a string%s",
							   fields[field].name, place->message,
							   kind == FIELD_TEXT ? " or number" : ""),
						errdetail("It is of type %s.", type)));
	MessageSet(m, fields[field].attr, field_value(kind, value));
}

static Datum
field_value(FieldKind kind, JsonSpan value)
{
	switch (kind)
	{
		case FIELD_TEXT:
			return CStringGetTextDatum(JsonSpanText(value));
		case FIELD_JSON:
			return PointerGetDatum(
				cstring_to_text_with_len(value.data, value.len));
		case FIELD_JSONB:
			return DirectFunctionCall1(
				jsonb_in, CStringGetDatum(pnstrdup(value.data, value.len)));
		case FIELD_BASE64:
			return DirectFunctionCall2(
				binary_decode, CStringGetTextDatum(JsonSpanText(value)),
				CStringGetTextDatum("base64"));
		case FIELD_TIMESTAMP:
			return DirectFunctionCall3(
				timestamptz_in, CStringGetDatum(JsonSpanText(value)),
				ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1));
	}
	pg_unreachable();
}

/* NULL for a message that a user's own trigger did not let in. */
static void
add_id(Ids *ids, MemoryContext context, const pg_uuid_t *id)
{
	MemoryContext caller = MemoryContextSwitchTo(context);

	if (ids->count == ids->room)
	{
		ids->room = ids->room == 0 ? 64 : 2 * ids->room;
		if (ids->items == NULL)
		{
			ids->items = palloc(sizeof(Datum) * ids->room);
			ids->isnull = palloc(sizeof(bool) * ids->room);
		}
		else
		{
			ids->items = repalloc_huge(ids->items, sizeof(Datum) * ids->room);
			ids->isnull = repalloc_huge(ids->isnull, sizeof(bool) * ids->room);
		}
	}
	ids->isnull[ids->count] = id == NULL;
	if (id != NULL)
	{
		pg_uuid_t *copy = palloc(sizeof(pg_uuid_t));

		*copy = *id;
		ids->items[ids->count] = UUIDPGetDatum(copy);
	}
	ids->count++;
	MemoryContextSwitchTo(caller);
}

static void
error_context(void *arg)
{
	const Place *place = arg;

	if (place->field != NULL)
		errcontext("field \"%s\" of message " INT64_FORMAT " of a batch",
				   place->field, place->message);
	else if (place->message > 0)
		errcontext("message " INT64_FORMAT " of a batch", place->message);
}
