/*
 * enqueue.c
 *		The SQL-callable ways into the log, and what belongs to them.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"
#include "utils/xid8.h"

#include "announce.h"
#include "insert.h"
#include "message.h"
#include "message_id.h"
#include "murmur2.h"
#include "route.h"
#include "utf8.h"

/* Arguments of every enqueue function, in their order. */
enum
{
	ARG_AGGREGATE_TYPE,
	ARG_AGGREGATE_ID,
	ARG_EVENT_TYPE,
	ARG_PAYLOAD,
	ARG_HEADERS,
	ARG_TOPIC,
	ARG_KEY,
	ARG_DELIVER_AT,
	ARG_EXPIRES_AT
};

static void take_aggregate_id(FunctionCallInfo fcinfo, Message *m);
static void take_payload(FunctionCallInfo fcinfo, Message *m);
static Datum json_from_text(Datum value);
static void add_json_hint(void *arg);
static void check_writable(FunctionCallInfo fcinfo);

PG_FUNCTION_INFO_V1(outbox_enqueue);
PG_FUNCTION_INFO_V1(outbox_resolve);
PG_FUNCTION_INFO_V1(outbox_message_id);
PG_FUNCTION_INFO_V1(outbox_message_created_at);
PG_FUNCTION_INFO_V1(outbox_message_lane);
PG_FUNCTION_INFO_V1(outbox_is_own_xid);
PG_FUNCTION_INFO_V1(outbox_has_enqueued);
PG_FUNCTION_INFO_V1(outbox_wake);

/* Several names of SQL share this function. */
static void
check_writable(FunctionCallInfo fcinfo)
{
	char *command =
		XactReadOnly || IsInParallelMode()
			? psprintf("outbox.%s()", get_func_name(fcinfo->flinfo->fn_oid))
			: NULL;

	PreventCommandIfReadOnly(command);
	PreventCommandIfParallelMode(command);
}

Datum
outbox_enqueue(PG_FUNCTION_ARGS)
{
	static const struct
	{
		int arg;
		int attr;
	} plain[] = {
		{ARG_AGGREGATE_TYPE, MSG_AGGREGATE_TYPE},
		{ARG_EVENT_TYPE, MSG_EVENT_TYPE},
		{ARG_HEADERS, MSG_HEADERS},
		{ARG_TOPIC, MSG_TOPIC},
		{ARG_KEY, MSG_KEY},
		{ARG_DELIVER_AT, MSG_DELIVER_AT},
		{ARG_EXPIRES_AT, MSG_EXPIRES_AT},
	};
	Message m;
	LogInsert *insert;
	pg_uuid_t *id = palloc(sizeof(pg_uuid_t));
	bool accepted;

	check_writable(fcinfo);
	memset(m.isnull, true, sizeof(m.isnull));
	memset(m.values, 0, sizeof(m.values));
	for (int i = 0; i < lengthof(plain); i++)
	{
		if (!PG_ARGISNULL(plain[i].arg))
			MessageSet(&m, plain[i].attr, PG_GETARG_DATUM(plain[i].arg));
	}
	if (!PG_ARGISNULL(ARG_AGGREGATE_ID))
		take_aggregate_id(fcinfo, &m);
	if (!PG_ARGISNULL(ARG_PAYLOAD))
		take_payload(fcinfo, &m);

	insert = LogInsertBegin();
	accepted = LogInsertMessage(insert, &m, id);
	LogInsertEnd(insert);
	if (!accepted)
		PG_RETURN_NULL();
	PG_RETURN_UUID_P(id);
}

/* The fastpath interface calls without an expression. */
static Oid
argument_type(FunctionCallInfo fcinfo, int arg)
{
	Oid type = get_fn_expr_argtype(fcinfo->flinfo, arg);
	Oid *declared;
	int n;

	if (OidIsValid(type))
		return type;
	get_func_signature(fcinfo->flinfo->fn_oid, &declared, &n);
	return declared[arg];
}

/* Text as it is, any other type in its own text form. */
static void
take_aggregate_id(FunctionCallInfo fcinfo, Message *m)
{
	Oid type = argument_type(fcinfo, ARG_AGGREGATE_ID);
	Datum value = PG_GETARG_DATUM(ARG_AGGREGATE_ID);

	if (type != TEXTOID && type != VARCHAROID)
	{
		Oid output;
		bool is_varlena;

		getTypeOutputInfo(type, &output, &is_varlena);
		value = CStringGetTextDatum(OidOutputFunctionCall(output, value));
	}
	MessageSet(m, MSG_AGGREGATE_ID, value);
}

static void
take_payload(FunctionCallInfo fcinfo, Message *m)
{
	Oid type = argument_type(fcinfo, ARG_PAYLOAD);
	Datum value = PG_GETARG_DATUM(ARG_PAYLOAD);
	char *str;

	switch (type)
	{
		case BYTEAOID:
			MessageSet(m, MSG_PAYLOAD_BYTES, value);
			break;
		case JSONBOID:
			str = DatumGetCString(DirectFunctionCall1(jsonb_out, value));
			MessageSet(m, MSG_PAYLOAD, CStringGetTextDatum(str));
			break;
		case TEXTOID:
			MessageSet(m, MSG_PAYLOAD, json_from_text(value));
			break;
		case JSONOID:
			MessageSet(m, MSG_PAYLOAD, value);
			break;
		default:
			elog(ERROR, "unexpected type %u of a payload", type);
	}
}

static Datum
json_from_text(Datum value)
{
	ErrorContextCallback callback = {error_context_stack, add_json_hint, NULL};
	Datum json;

	error_context_stack = &callback;
	json = DirectFunctionCall1(json_in,
							   CStringGetDatum(TextDatumGetCString(value)));
	error_context_stack = callback.previous;
	return json;
}

static void
add_json_hint(void *arg)
{
	if (geterrcode() == ERRCODE_INVALID_TEXT_REPRESENTATION)
		errhint(
			"A payload of type text has to be JSON: make a string of other text by to_json(), or give bytes as bytea.");
}

Datum
outbox_resolve(PG_FUNCTION_ARGS)
{
	TupleDesc tupdesc;
	Datum values[7] = {0};
	bool isnull[7] = {false};
	char *aggregate_type;
	char *event_type;
	const Route *route;
	Datum key = (Datum) 0;

	for (int i = 0; i < 2; i++)
	{
		if (PG_ARGISNULL(i))
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("aggregate_type and event_type cannot be null")));
	}
	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	aggregate_type = text_to_cstring(PG_GETARG_TEXT_PP(0));
	event_type = text_to_cstring(PG_GETARG_TEXT_PP(1));

	values[0] = CStringGetTextDatum(RouteTopic(
		aggregate_type, event_type,
		PG_ARGISNULL(3) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(3))));
	if (!PG_ARGISNULL(4))
		key = PG_GETARG_DATUM(4);
	else if (!PG_ARGISNULL(2))
		key = PG_GETARG_DATUM(2);
	values[1] = key;
	isnull[1] = isnull[2] = key == (Datum) 0;
	if (key != (Datum) 0)
	{
		Utf8 k = Utf8FromDatum(key);

		values[2] = Int16GetDatum(KeyLane(k.data, k.len));
	}

	route = RouteFind(aggregate_type, event_type);
	values[3] = Int32GetDatum(route->route_id);
	isnull[3] = route->route_id == 0;
	isnull[4] = route->dead_letter_policy == NULL;
	if (!isnull[4])
		values[4] = CStringGetTextDatum(route->dead_letter_policy);
	isnull[5] = route->dead_letter_topic == NULL;
	if (!isnull[5])
		values[5] = CStringGetTextDatum(route->dead_letter_topic);
	values[6] = Int32GetDatum(route->max_attempts);
	isnull[6] = route->max_attempts == 0;
	PG_RETURN_DATUM(HeapTupleGetDatum(
		heap_form_tuple(BlessTupleDesc(tupdesc), values, isnull)));
}

Datum
outbox_message_id(PG_FUNCTION_ARGS)
{
	pg_uuid_t *id = palloc(sizeof(pg_uuid_t));

	MessageIdMake(id, PG_GETARG_TIMESTAMPTZ(0),
				  U64FromFullTransactionId(PG_GETARG_FULLTRANSACTIONID(1)),
				  PG_GETARG_INT64(2));
	PG_RETURN_UUID_P(id);
}

Datum
outbox_message_created_at(PG_FUNCTION_ARGS)
{
	PG_RETURN_TIMESTAMPTZ(MessageIdCreatedAt(PG_GETARG_UUID_P(0)));
}

Datum
outbox_message_lane(PG_FUNCTION_ARGS)
{
	Utf8 key = Utf8FromDatum(PG_GETARG_DATUM(0));

	PG_RETURN_INT16(KeyLane(key.data, key.len));
}

Datum
outbox_is_own_xid(PG_FUNCTION_ARGS)
{
	uint64 own = MessageOwnXid();

	PG_RETURN_BOOL(own != 0 && own == U64FromFullTransactionId(
										  PG_GETARG_FULLTRANSACTIONID(0)));
}

Datum
outbox_has_enqueued(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(AnnouncedLanes());
}

Datum
outbox_wake(PG_FUNCTION_ARGS)
{
	AnnounceToWorkers();
	PG_RETURN_VOID();
}
