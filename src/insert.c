/*
 * insert.c
 *		Puts messages into the log without SQL.
 *
 * The right to call enqueue() is the right to enqueue: the role needs none on
 * the table.  Heap and indexes are written directly where nobody has added
 * triggers, constraints, columns or rules; else an INSERT runs as the
 * table's owner, so that they work.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_am.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "partitioning/partbounds.h"
#include "partitioning/partdesc.h"
#include "utils/memutils.h"
#include "utils/partcache.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "catalog.h"
#include "insert.h"
#include "message_id.h"

struct LogInsert
{
	Relation parent;
	Relation leaf; /* open for as long as messages fall into it */
	bool direct;   /* the leaf is as we made it */
	ResultRelInfo *result;
	TupleTableSlot *slot;
};

static void open_leaf(LogInsert *insert, Oid relid);
static void close_leaf(LogInsert *insert);
static Oid choose_leaf(Relation parent, Datum created_at);
static bool is_plain(Relation parent, Relation leaf);
static void insert_directly(LogInsert *insert, Message *m);
static void insert_by_sql(Message *m);

/* Serves ExecInsertIndexTuples() through the backend's whole life. */
static EState *estate = NULL;

LogInsert *
LogInsertBegin(void)
{
	LogInsert *insert = palloc0(sizeof(LogInsert));

	insert->parent = table_open(CatalogGet(false)->message, RowExclusiveLock);
	if (estate == NULL)
	{
		MemoryContext caller = MemoryContextSwitchTo(TopMemoryContext);

		estate = CreateExecutorState();
		MemoryContextSwitchTo(caller);
	}
	return insert;
}

void
LogInsertMessage(LogInsert *insert, Message *m, pg_uuid_t *id)
{
	Oid relid;

	MessageComplete(m);
	MessageIdentify(m);
	relid = choose_leaf(insert->parent, MessageValue(m, MSG_CREATED_AT));
	if (insert->leaf == NULL || RelationGetRelid(insert->leaf) != relid)
		open_leaf(insert, relid);
	if (insert->direct)
		insert_directly(insert, m);
	else
		insert_by_sql(m);
	MessageIdMake(id, DatumGetTimestampTz(MessageValue(m, MSG_CREATED_AT)),
				  DatumGetUInt64(MessageValue(m, MSG_XID)),
				  DatumGetInt64(MessageValue(m, MSG_SEQ)));
}

void
LogInsertEnd(LogInsert *insert)
{
	close_leaf(insert);
	table_close(insert->parent, NoLock);
	pfree(insert);
}

static void
open_leaf(LogInsert *insert, Oid relid)
{
	close_leaf(insert);
	insert->leaf = table_open(relid, RowExclusiveLock);
	insert->direct = is_plain(insert->parent, insert->leaf);
	if (!insert->direct)
		return;
	insert->result = makeNode(ResultRelInfo);
	InitResultRelInfo(insert->result, insert->leaf, 0, NULL, 0);
	ExecOpenIndices(insert->result, false);
	insert->slot = table_slot_create(insert->leaf, NULL);
}

static void
close_leaf(LogInsert *insert)
{
	if (insert->leaf == NULL)
		return;
	if (insert->direct)
	{
		ExecCloseIndices(insert->result);
		ExecDropSingleTupleTableSlot(insert->slot);
	}
	table_close(insert->leaf, NoLock);
	insert->leaf = NULL;
}

static Oid
choose_leaf(Relation parent, Datum created_at)
{
	PartitionKey key = RelationGetPartitionKey(parent);
	PartitionDesc desc = RelationGetPartitionDesc(parent, true);
	int index = -1;

	if (desc->nparts > 0)
	{
		bool equal;
		int offset = partition_range_datum_bsearch(
			key->partsupfunc, key->partcollation, desc->boundinfo, 1,
			&created_at, &equal);

		index = desc->boundinfo->indexes[offset + 1];
		if (index < 0)
			index = desc->boundinfo->default_index;
	}
	if (index < 0)
		ereport(
			ERROR,
			(errcode(ERRCODE_CHECK_VIOLATION),
			 errmsg("no partition of relation \"%s\" found for row",
					RelationGetRelationName(parent)),
			 errhint(
				 "Attach the table \"outbox.message_default\" as its DEFAULT partition.")));
	return desc->oids[index];
}

/* Has triggers that an INSERT would fire, apart from our own row trigger. */
static bool
has_insert_triggers(Relation rel)
{
	TriggerDesc *desc = rel->trigdesc;
	int before_row = 0;

	if (desc == NULL)
		return false;
	if (desc->trig_insert_after_row || desc->trig_insert_instead_row ||
		desc->trig_insert_before_statement ||
		desc->trig_insert_after_statement || desc->trig_insert_new_table)
		return true;
	for (int i = 0; i < desc->numtriggers; i++)
		before_row +=
			TRIGGER_TYPE_MATCHES(desc->triggers[i].tgtype, TRIGGER_TYPE_ROW,
								 TRIGGER_TYPE_BEFORE, TRIGGER_TYPE_INSERT);
	return before_row > 1;
}

static bool
is_plain(Relation parent, Relation leaf)
{
	TupleConstr *constr = leaf->rd_att->constr;

	return leaf->rd_rel->relkind == RELKIND_RELATION &&
		   leaf->rd_rel->relam == HEAP_TABLE_AM_OID &&
		   leaf->rd_att->natts == MSG_NATTS &&
		   parent->rd_att->natts == MSG_NATTS &&
		   TupleDescAttr(leaf->rd_att, MSG_EVENT_TYPE - 1)->atttypid ==
			   TEXTOID &&
		   TupleDescAttr(leaf->rd_att, MSG_AGGREGATE_TYPE - 1)->atttypid ==
			   TEXTOID &&
		   TupleDescAttr(leaf->rd_att, MSG_AGGREGATE_ID - 1)->atttypid ==
			   TEXTOID &&
		   !leaf->rd_rel->relhasrules && !parent->rd_rel->relhasrules &&
		   (constr == NULL ||
			(constr->num_check == 0 && !constr->has_generated_stored)) &&
		   !has_insert_triggers(parent) && !has_insert_triggers(leaf);
}

static void
insert_directly(LogInsert *insert, Message *m)
{
	TupleTableSlot *slot = insert->slot;

	ExecClearTuple(slot);
	memcpy(slot->tts_values, m->values, sizeof(m->values));
	memcpy(slot->tts_isnull, m->isnull, sizeof(m->isnull));
	ExecStoreVirtualTuple(slot);
	table_tuple_insert(insert->leaf, slot, GetCurrentCommandId(true), 0, NULL);
	CompatInsertIndexTuples(insert->result, slot, estate);
	ResetPerTupleExprContext(estate);
}

static void
insert_by_sql(Message *m)
{
	static SPIPlanPtr plan = NULL;
	static Oid types[MSG_NATTS] = {
		INT8OID,  TIMESTAMPTZOID, XID8OID,		  INT2OID,		 TEXTOID,
		TEXTOID,  TEXTOID,		  TEXTOID,		  TEXTOID,		 JSONOID,
		BYTEAOID, JSONBOID,		  TIMESTAMPTZOID, TIMESTAMPTZOID};
	char nulls[MSG_NATTS];
	Oid role;
	int context;

	for (int i = 0; i < MSG_NATTS; i++)
		nulls[i] = m->isnull[i] ? 'n' : ' ';
	GetUserIdAndSecContext(&role, &context);
	SetUserIdAndSecContext(CatalogGet(false)->owner,
						   context | SECURITY_LOCAL_USERID_CHANGE);
	SPI_connect();
	if (plan == NULL)
	{
		plan = SPI_prepare(
			"INSERT INTO outbox.message (seq, created_at, xid, lane, "
			"aggregate_type, aggregate_id, event_type, topic, key, "
			"payload, payload_bytes, headers, deliver_at, expires_at) "
			"VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)",
			MSG_NATTS, types);
		if (plan == NULL || SPI_keepplan(plan) != 0)
			elog(ERROR, "could not prepare the insertion of a message");
	}
	if (SPI_execute_plan(plan, m->values, nulls, false, 0) != SPI_OK_INSERT)
		elog(ERROR, "could not insert a message");
	SPI_finish();
	SetUserIdAndSecContext(role, context);
}
