/*
 * enqueue_batch.c
 *		Many messages in one call: outbox.enqueue_batch(json).
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "insert.h"
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

static void set_field(Message *m, int64 number, const char *name,
					  const char *raw, const char *text, const char *type);
static void insert_all(LogInsert *insert, Datum *ids, int64 *n);

PG_FUNCTION_INFO_V1(outbox_enqueue_batch);

/* A row an object and field, in the order of the array. */
static const char query[] =
	"SELECT o.n, k.key, k.value::pg_catalog.text, "
	"CASE pg_catalog.json_typeof(k.value) WHEN 'string' THEN k.value OPERATOR(pg_catalog.#>>) '{}' "
	"ELSE k.value::pg_catalog.text END, pg_catalog.json_typeof(k.value) "
	"FROM pg_catalog.json_array_elements($1) WITH ORDINALITY AS o(e, n) "
	"LEFT JOIN LATERAL pg_catalog.json_each(o.e) AS k ON true ORDER BY o.n";

Datum
outbox_enqueue_batch(PG_FUNCTION_ARGS)
{
	MemoryContext caller = CurrentMemoryContext;
	Oid types[1] = {JSONOID};
	Datum args[1] = {PG_GETARG_DATUM(0)};
	Datum *ids;
	int64 n = 0;
	LogInsert *insert;
	ArrayType *result;

	PreventCommandIfReadOnly("outbox.enqueue_batch()");
	PreventCommandIfParallelMode("outbox.enqueue_batch()");
	insert = LogInsertBegin();
	SPI_connect();
	if (SPI_execute_with_args(query, 1, types, args, NULL, true, 0) !=
		SPI_OK_SELECT)
		elog(ERROR, "could not read the array of messages");
	ids = palloc(sizeof(Datum) * (SPI_processed + 1));
	insert_all(insert, ids, &n);
	MemoryContextSwitchTo(caller);
	result = construct_array(ids, n, UUIDOID, UUID_LEN, false, TYPALIGN_CHAR);

	/* In this order: what it has opened lies in SPI's memory. */
	LogInsertEnd(insert);
	SPI_finish();
	PG_RETURN_ARRAYTYPE_P(result);
}

static int64
row_number(uint64 row)
{
	bool isnull;

	return DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[row],
									   SPI_tuptable->tupdesc, 1, &isnull));
}

static void
insert_all(LogInsert *insert, Datum *ids, int64 *n)
{
	SPITupleTable *rows = SPI_tuptable;
	uint64 nrows = SPI_processed;
	uint64 row = 0;

	while (row < nrows)
	{
		pg_uuid_t *id = palloc(sizeof(pg_uuid_t));
		int64 number;
		Message m;

		SPI_tuptable = rows;
		number = row_number(row);
		memset(m.isnull, true, sizeof(m.isnull));
		memset(m.values, 0, sizeof(m.values));
		for (; row < nrows && row_number(row) == number; row++)
		{
			HeapTuple tuple = rows->vals[row];
			char *name = SPI_getvalue(tuple, rows->tupdesc, 2);

			if (name != NULL)
				set_field(&m, number, name,
						  SPI_getvalue(tuple, rows->tupdesc, 3),
						  SPI_getvalue(tuple, rows->tupdesc, 4),
						  SPI_getvalue(tuple, rows->tupdesc, 5));
		}
		LogInsertMessage(insert, &m, id);
		ids[(*n)++] = UUIDPGetDatum(id);
	}
}

static void
set_field(Message *m, int64 number, const char *name, const char *raw,
		  const char *text, const char *type)
{
	int i = 0;
	Datum value = (Datum) 0;

	while (i < lengthof(fields) && strcmp(fields[i].name, name) != 0)
		i++;
	if (i == lengthof(fields))
		ereport(
			ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("message " INT64_FORMAT " has an unknown field \"%s\"",
					number, name),
			 errhint(
				 "Known are aggregate_type, aggregate_id, event_type, payload, payload_base64, "
				 "headers, topic, key, deliver_at and expires_at.")));
	if (!MessageIsNull(m, fields[i].attr))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("message " INT64_FORMAT " has the field \"%s\" twice",
						number, name)));

	/* A payload of null is the JSON value; a tombstone has no payload. */
	if (strcmp(type, "null") == 0 && fields[i].kind != FIELD_JSON)
		return;
	if (fields[i].kind != FIELD_JSON && fields[i].kind != FIELD_JSONB &&
		strcmp(type, "string") != 0 &&
		!(fields[i].kind == FIELD_TEXT && strcmp(type, "number") == 0))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("field \"%s\" of message " INT64_FORMAT
							   " is not a string",
							   name, number)));

	switch (fields[i].kind)
	{
		case FIELD_TEXT:
			value = CStringGetTextDatum(text);
			break;
		case FIELD_JSON:
			value = CStringGetTextDatum(raw);
			break;
		case FIELD_JSONB:
			value = DirectFunctionCall1(jsonb_in, CStringGetDatum(raw));
			break;
		case FIELD_BASE64:
			value =
				DirectFunctionCall2(binary_decode, CStringGetTextDatum(text),
									CStringGetTextDatum("base64"));
			break;
		case FIELD_TIMESTAMP:
			value = DirectFunctionCall3(timestamptz_in, CStringGetDatum(text),
										ObjectIdGetDatum(InvalidOid),
										Int32GetDatum(-1));
			break;
	}
	MessageSet(m, fields[i].attr, value);
}
