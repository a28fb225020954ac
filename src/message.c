/*
 * message.c
 *		The rules that every message meets on its way into the log, the
 *		defaults of its columns, and the wake-up at commit.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "commands/sequence.h"
#include "commands/trigger.h"
#include "executor/tuptable.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/timestamp.h"
#include "utils/xid8.h"

#include "catalog.h"
#include "headers.h"
#include "guc.h"
#include "instance.h"
#include "message.h"
#include "murmur2.h"
#include "route.h"
#include "shmem.h"
#include "utf8.h"

static void require_text(Message *m, int attr, const char *what);
static void check_size(Message *m, Size headers_size);
static void refuse_timing(Message *m);
static void request_start(void);
static void on_xact(XactEvent event, void *arg);
static void on_subxact(SubXactEvent event, SubTransactionId mine,
					   SubTransactionId parent, void *arg);

/* What this backend's defaults returned last: the trigger accepts no other. */
static int64 last_seq = 0;
static TimestampTz last_created_at = 0;
static uint64 last_xid = 0;

/* Of the current transaction. */
static bool callbacks_registered = false;
static uint32 wake_lanes = 0;
static bool wake_workers = false;
static bool wake_launcher = false;
static bool start_requested = false;

PG_FUNCTION_INFO_V1(outbox_next_seq);
PG_FUNCTION_INFO_V1(outbox_next_created_at);
PG_FUNCTION_INFO_V1(outbox_current_xid);
PG_FUNCTION_INFO_V1(outbox_message_complete);

Datum
outbox_next_seq(PG_FUNCTION_ARGS)
{
	last_seq = nextval_internal(CatalogGet(false)->message_seq, false);
	PG_RETURN_INT64(last_seq);
}

Datum
outbox_next_created_at(PG_FUNCTION_ARGS)
{
	last_created_at = GetCurrentTimestamp();
	PG_RETURN_TIMESTAMPTZ(last_created_at);
}

Datum
outbox_current_xid(PG_FUNCTION_ARGS)
{
	last_xid = InstanceXidBase() +
			   U64FromFullTransactionId(GetTopFullTransactionId());
	PG_RETURN_FULLTRANSACTIONID(FullTransactionIdFromU64(last_xid));
}

void
MessageIdentify(Message *m)
{
	LOCAL_FCINFO(fcinfo, 0);

	InitFunctionCallInfoData(*fcinfo, NULL, 0, InvalidOid, NULL, NULL);
	MessageSet(m, MSG_SEQ, outbox_next_seq(fcinfo));
	MessageSet(m, MSG_CREATED_AT, outbox_next_created_at(fcinfo));
	MessageSet(m, MSG_XID, outbox_current_xid(fcinfo));
}

uint64
MessageOwnXid(void)
{
	FullTransactionId xid = GetTopFullTransactionIdIfAny();

	return FullTransactionIdIsValid(xid)
			   ? InstanceXidBase() + U64FromFullTransactionId(xid)
			   : 0;
}

static void
register_callbacks(void)
{
	if (callbacks_registered)
		return;
	RegisterXactCallback(on_xact, NULL);
	RegisterSubXactCallback(on_subxact, NULL);
	callbacks_registered = true;
}

void
MessageComplete(Message *m)
{
	char *aggregate_type;
	char *event_type;
	char *given = NULL;
	Utf8 key;
	int lane;

	require_text(m, MSG_AGGREGATE_TYPE, "aggregate_type");
	require_text(m, MSG_AGGREGATE_ID, "aggregate_id");
	require_text(m, MSG_EVENT_TYPE, "event_type");
	refuse_timing(m);
	if (!MessageIsNull(m, MSG_PAYLOAD) && !MessageIsNull(m, MSG_PAYLOAD_BYTES))
		ereport(
			ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("a message cannot have both payload and payload_bytes"),
			 errhint(
				 "Give JSON in payload, or any bytes in payload_bytes; neither for a tombstone.")));
	check_size(m, MessageIsNull(m, MSG_HEADERS)
					  ? 0
					  : HeadersCheck(MessageValue(m, MSG_HEADERS),
									 !MessageIsNull(m, MSG_PAYLOAD_BYTES)));

	aggregate_type = TextDatumGetCString(MessageValue(m, MSG_AGGREGATE_TYPE));
	event_type = TextDatumGetCString(MessageValue(m, MSG_EVENT_TYPE));
	if (!MessageIsNull(m, MSG_TOPIC))
		given = TextDatumGetCString(MessageValue(m, MSG_TOPIC));
	MessageSet(
		m, MSG_TOPIC,
		CStringGetTextDatum(RouteTopic(aggregate_type, event_type, given)));

	key = Utf8FromDatum(MessageValue(
		m, MessageIsNull(m, MSG_KEY) ? MSG_AGGREGATE_ID : MSG_KEY));
	lane = KeyLane(key.data, key.len);
	MessageSet(m, MSG_LANE, Int16GetDatum(lane));

	register_callbacks();
	wake_lanes |= 1U << lane;
	if (!start_requested && InstanceGet()->fresh)
		request_start();
}

static void
require_text(Message *m, int attr, const char *what)
{
	if (MessageIsNull(m, attr))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
						errmsg("%s of a message cannot be null", what)));
	if (VARSIZE_ANY_EXHDR(DatumGetPointer(MessageValue(m, attr))) == 0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("%s of a message cannot be empty", what)));
}

/* The relay cannot keep a time yet, and silence would break the promise. */
static void
refuse_timing(Message *m)
{
	if (MessageIsNull(m, MSG_DELIVER_AT) && MessageIsNull(m, MSG_EXPIRES_AT))
		return;
	ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					errmsg("%s is not supported yet",
						   MessageIsNull(m, MSG_DELIVER_AT) ? "expires_at"
															: "deliver_at"),
					errhint("Enqueue the message without it.")));
}

static void
check_size(Message *m, Size headers_size)
{
	Size size = headers_size;

	size += Utf8Length(MessageValue(
		m, MessageIsNull(m, MSG_KEY) ? MSG_AGGREGATE_ID : MSG_KEY));
	if (!MessageIsNull(m, MSG_PAYLOAD))
		size += Utf8Length(MessageValue(m, MSG_PAYLOAD));
	else if (!MessageIsNull(m, MSG_PAYLOAD_BYTES))
		size += ByteLength(MessageValue(m, MSG_PAYLOAD_BYTES));
	if (size > (Size) outbox_max_message_bytes)
		ereport(
			ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
			 errmsg("message is too large"),
			 errdetail(
				 "Key, headers and payload have %zu bytes; outbox.max_message_bytes is %d.",
				 size, outbox_max_message_bytes),
			 errhint(
				 "Store the content elsewhere and send a reference to it.")));
}

/* Stands or falls with the message that asks. */
static void
request_start(void)
{
	Relation rel =
		table_open(CatalogGet(false)->start_request, RowExclusiveLock);
	TupleTableSlot *slot = table_slot_create(rel, NULL);

	ExecClearTuple(slot);
	slot->tts_values[0] = ObjectIdGetDatum(MyDatabaseId);
	slot->tts_values[1] =
		TimestampTzGetDatum(GetCurrentTransactionStartTimestamp());
	memset(slot->tts_isnull, false, sizeof(bool) * 2);
	ExecStoreVirtualTuple(slot);
	simple_table_tuple_insert(rel, slot);
	ExecDropSingleTupleTableSlot(slot);
	table_close(rel, RowExclusiveLock);
	start_requested = true;
	wake_workers = true;
}

bool
MessageEnqueuedHere(void)
{
	return wake_lanes != 0;
}

void
MessageWakeAtCommit(void)
{
	register_callbacks();
	wake_workers = true;
}

void
MessageWakeLauncherAtEnd(void)
{
	register_callbacks();
	wake_launcher = true;
}

/*
 * PostgreSQL calls back after the commit has become visible, so that whoever
 * is woken here sees it.
 */
static void
on_xact(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_COMMIT:
			if (wake_lanes != 0)
				ShmemWakeLanes(wake_lanes);
			if (wake_workers)
				ShmemWakeWorkers(MyDatabaseId);
			break;
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			break;
		default:
			return;
	}
	if (wake_launcher)
		ShmemWakeLauncher();
	wake_lanes = 0;
	wake_workers = false;
	wake_launcher = false;
	start_requested = false;
}

static void
on_subxact(SubXactEvent event, SubTransactionId mine, SubTransactionId parent,
		   void *arg)
{
	if (event == SUBXACT_EVENT_ABORT_SUB)
		start_requested = false;
}

/*
 * Row trigger on the log.  A row that carries another transaction's xid was
 * restored or replicated and passes as it is.
 */
Datum
outbox_message_complete(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;
	TupleDesc tupdesc;
	Message m;
	Datum *values;
	bool *isnull;
	HeapTuple tuple;

	if (!CALLED_AS_TRIGGER(fcinfo) ||
		!TRIGGER_FIRED_FOR_ROW(trigger->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" was not called by a row trigger",
						"message_complete")));

	tuple = trigger->tg_trigtuple;
	tupdesc = RelationGetDescr(trigger->tg_relation);
	values = palloc(sizeof(Datum) * tupdesc->natts);
	isnull = palloc(sizeof(bool) * tupdesc->natts);
	heap_deform_tuple(tuple, tupdesc, values, isnull);
	memcpy(m.values, values, sizeof(m.values));
	memcpy(m.isnull, isnull, sizeof(m.isnull));

	if (MessageIsNull(&m, MSG_SEQ) || MessageIsNull(&m, MSG_XID) ||
		DatumGetInt64(MessageValue(&m, MSG_SEQ)) != last_seq ||
		DatumGetTimestampTz(MessageValue(&m, MSG_CREATED_AT)) !=
			last_created_at ||
		DatumGetUInt64(MessageValue(&m, MSG_XID)) != last_xid)
	{
		if (!CompatOwnsRelation(RelationGetRelid(trigger->tg_relation),
								GetUserId()))
			ereport(
				ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg(
					 "columns seq, created_at and xid of a message cannot be given"),
				 errhint("Leave them out, or write DEFAULT.")));
		if (MessageIsNull(&m, MSG_XID) ||
			DatumGetUInt64(MessageValue(&m, MSG_XID)) != MessageOwnXid())
			return PointerGetDatum(tuple);
	}

	MessageComplete(&m);
	memcpy(values, m.values, sizeof(m.values));
	memcpy(isnull, m.isnull, sizeof(m.isnull));
	return PointerGetDatum(heap_form_tuple(tupdesc, values, isnull));
}
