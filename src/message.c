/*
 * message.c
 *		The rules that every message meets on its way into the log, and the
 *		defaults of its columns.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_trigger.h"
#include "commands/sequence.h"
#include "commands/trigger.h"
#include "miscadmin.h"
#include "replication/origin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/timestamp.h"
#include "utils/xid8.h"

#include "announce.h"
#include "catalog.h"
#include "headers.h"
#include "guc.h"
#include "instance.h"
#include "leaf.h"
#include "message.h"
#include "murmur2.h"
#include "route.h"
#include "utf8.h"

static void issue(int64 *list, int *next, int64 value);
static bool take_issued(int64 *list, int64 value);
static bool issued_here(const Message *m);
static void require_text(Message *m, int attr, const char *what,
						 const char *hint);
static void check_size(Message *m, Size headers_size);
static void refuse_timing(Message *m);
static void refuse_later_triggers(TriggerData *data);

/*
 * What this backend's defaults returned last and no row has taken yet: the
 * trigger accepts nothing else.  More than one, since an expression or a
 * trigger of the same row may enqueue something itself.
 */
#define ISSUED 8
static int64 issued_seqs[ISSUED];
static int64 issued_times[ISSUED];
static int next_issued_seq = 0;
static int next_issued_time = 0;

PG_FUNCTION_INFO_V1(outbox_next_seq);
PG_FUNCTION_INFO_V1(outbox_next_created_at);
PG_FUNCTION_INFO_V1(outbox_current_xid);
PG_FUNCTION_INFO_V1(outbox_message_complete);

Datum
outbox_next_seq(PG_FUNCTION_ARGS)
{
	int64 seq = nextval_internal(CatalogGet(false)->message_seq, false);

	issue(issued_seqs, &next_issued_seq, seq);
	PG_RETURN_INT64(seq);
}

/* A clock that went back must not reach what has been closed. */
static TimestampTz
current_time(void)
{
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz bound = LeafClosedBound();

	return now >= bound ? now : bound + now % USECS_PER_SEC;
}

Datum
outbox_next_created_at(PG_FUNCTION_ARGS)
{
	TimestampTz at = current_time();

	issue(issued_times, &next_issued_time, at);
	PG_RETURN_TIMESTAMPTZ(at);
}

Datum
outbox_current_xid(PG_FUNCTION_ARGS)
{
	PG_RETURN_FULLTRANSACTIONID(FullTransactionIdFromU64(
		InstanceXidBase() +
		U64FromFullTransactionId(GetTopFullTransactionId())));
}

void
MessageDate(Message *m)
{
	MessageSet(m, MSG_CREATED_AT, TimestampTzGetDatum(current_time()));
}

void
MessageNumber(Message *m)
{
	MessageSet(m, MSG_SEQ,
			   Int64GetDatum(
				   nextval_internal(CatalogGet(false)->message_seq, false)));
	MessageSet(m, MSG_XID,
			   FullTransactionIdGetDatum(FullTransactionIdFromU64(
				   InstanceXidBase() +
				   U64FromFullTransactionId(GetTopFullTransactionId()))));
}

void
MessageIssue(const Message *m)
{
	issue(issued_times, &next_issued_time,
		  DatumGetTimestampTz(MessageValue(m, MSG_CREATED_AT)));
	issue(issued_seqs, &next_issued_seq,
		  DatumGetInt64(MessageValue(m, MSG_SEQ)));
}

static void
issue(int64 *list, int *next, int64 value)
{
	list[*next] = value;
	*next = (*next + 1) % ISSUED;
}

/* Each value serves one row: two rows with the same id would be one message. */
static bool
take_issued(int64 *list, int64 value)
{
	for (int i = 0; i < ISSUED; i++)
	{
		if (list[i] == value && value != 0)
		{
			list[i] = 0;
			return true;
		}
	}
	return false;
}

static bool
issued_here(const Message *m)
{
	return !MessageIsNull(m, MSG_SEQ) && !MessageIsNull(m, MSG_CREATED_AT) &&
		   !MessageIsNull(m, MSG_XID) &&
		   take_issued(issued_seqs, DatumGetInt64(MessageValue(m, MSG_SEQ))) &&
		   take_issued(issued_times,
					   DatumGetTimestampTz(MessageValue(m, MSG_CREATED_AT))) &&
		   DatumGetUInt64(MessageValue(m, MSG_XID)) == MessageOwnXid();
}

uint64
MessageOwnXid(void)
{
	FullTransactionId xid = GetTopFullTransactionIdIfAny();

	return FullTransactionIdIsValid(xid)
			   ? InstanceXidBase() + U64FromFullTransactionId(xid)
			   : 0;
}

void
MessageComplete(Message *m)
{
	char *aggregate_type;
	char *event_type;
	char *given = NULL;
	Utf8 key;
	int lane;

	require_text(m, MSG_AGGREGATE_TYPE, "aggregate_type",
				 "Name the kind of thing that the message is about.");
	require_text(m, MSG_AGGREGATE_ID, "aggregate_id",
				 "Tell which thing the message is about.");
	require_text(m, MSG_EVENT_TYPE, "event_type",
				 "Name what has happened to it.");
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

	AnnounceLane(lane);
	if (InstanceGet()->fresh)
		AnnounceStart();
}

static void
require_text(Message *m, int attr, const char *what, const char *hint)
{
	if (MessageIsNull(m, attr))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
						errmsg("%s of a message cannot be null", what),
						errhint("%s", hint)));
	if (VARSIZE_ANY_EXHDR(DatumGetPointer(MessageValue(m, attr))) == 0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("%s of a message cannot be empty", what),
						errhint("%s", hint)));

	/* Raises where a character has no form in UTF-8: the relay could not. */
	(void) Utf8FromDatum(MessageValue(m, attr));
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

/*
 * A restored row passes as it is.  Not so a replicated one: its xid is one of
 * another server, and would once be reached here.  In no lane it is never
 * published.
 */
static HeapTuple
pass_foreign(TriggerData *trigger, HeapTuple tuple)
{
	int attr = MSG_LANE;
	Datum value = Int16GetDatum(OUTBOX_NO_LANE);
	bool isnull = false;

	if (replorigin_session_origin == InvalidRepOriginId)
		return tuple;
	return heap_modify_tuple_by_cols(tuple,
									 RelationGetDescr(trigger->tg_relation), 1,
									 &attr, &value, &isnull);
}

/* Those of users come before, so that what they change is checked. */
static void
refuse_later_triggers(TriggerData *data)
{
	TriggerDesc *desc = data->tg_relation->trigdesc;
	const char *own = data->tg_trigger->tgname;

	for (int i = 0; i < desc->numtriggers; i++)
	{
		Trigger *other = &desc->triggers[i];

		if (TRIGGER_TYPE_MATCHES(other->tgtype, TRIGGER_TYPE_ROW,
								 TRIGGER_TYPE_BEFORE, TRIGGER_TYPE_INSERT) &&
			other->tgenabled != TRIGGER_DISABLED &&
			strcmp(other->tgname, own) > 0)
			ereport(
				ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg(
					 "trigger \"%s\" would change messages that have been checked",
					 other->tgname),
				 errdetail("BEFORE triggers run in the order of their names."),
				 errhint("Give it a name that sorts before \"%s\".", own)));
	}
}

/*
 * Row trigger on the log.  A row that carries another transaction's xid was
 * restored or replicated.  The xid of a row that comes with its lane may be
 * our own by chance, where both servers are young.
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
		!TRIGGER_FIRED_FOR_ROW(trigger->tg_event) ||
		!TRIGGER_FIRED_BEFORE(trigger->tg_event) ||
		!TRIGGER_FIRED_BY_INSERT(trigger->tg_event) ||
		RelationGetNamespace(trigger->tg_relation) !=
			CatalogGet(false)->schema ||
		RelationGetNumberOfAttributes(trigger->tg_relation) < MSG_NATTS)
		ereport(
			ERROR,
			(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
			 errmsg(
				 "function \"%s\" was not called by the row trigger of outbox.message",
				 "message_complete")));

	refuse_later_triggers(trigger);
	tuple = trigger->tg_trigtuple;
	tupdesc = RelationGetDescr(trigger->tg_relation);
	values = palloc(sizeof(Datum) * tupdesc->natts);
	isnull = palloc(sizeof(bool) * tupdesc->natts);
	heap_deform_tuple(tuple, tupdesc, values, isnull);
	memcpy(m.values, values, sizeof(m.values));
	memcpy(m.isnull, isnull, sizeof(m.isnull));

	if (!issued_here(&m))
	{
		if (!CompatOwnsRelation(RelationGetRelid(trigger->tg_relation),
								GetUserId()))
			ereport(
				ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg(
					 "columns seq, created_at and xid of a message cannot be given"),
				 errhint("Leave them out, or write DEFAULT.")));
		if (MessageIsNull(&m, MSG_XID) || !MessageIsNull(&m, MSG_LANE) ||
			DatumGetUInt64(MessageValue(&m, MSG_XID)) != MessageOwnXid())
			return PointerGetDatum(pass_foreign(trigger, tuple));
	}

	MessageComplete(&m);
	memcpy(values, m.values, sizeof(m.values));
	memcpy(isnull, m.isnull, sizeof(m.isnull));
	return PointerGetDatum(heap_form_tuple(tupdesc, values, isnull));
}
