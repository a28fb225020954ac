/*
 * insert.c
 *		Puts messages into the log.
 *
 * The right to call enqueue() is the right to enqueue: the role needs none on
 * the table, and row security does not apply.  Heap and indexes are written
 * directly where nobody has added triggers, constraints, columns or rules;
 * else an INSERT runs, so that they work.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_am.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "parser/analyze.h"
#include "parser/parser.h"
#include "partitioning/partbounds.h"
#include "partitioning/partdesc.h"
#include "rewrite/rewriteHandler.h"
#include "storage/lmgr.h"
#include "tcop/dest.h"
#include "tcop/tcopprot.h"
#include "tcop/utility.h"
#include "utils/memutils.h"
#include "utils/partcache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "catalog.h"
#include "insert.h"
#include "leaf.h"
#include "message_id.h"

struct LogInsert
{
	MemoryContext context;
	Relation parent;
	Relation leaf; /* open for as long as messages fall into it */
	bool direct;   /* the leaf is as we made it */
	ResultRelInfo *result;
	TupleTableSlot *slot;
	EState *estate;
};

/* The columns' types, by MessageAttr - 1. */
static const Oid column_types[MSG_NATTS] = {
	INT8OID,  TIMESTAMPTZOID, XID8OID,		  INT2OID,		 TEXTOID,
	TEXTOID,  TEXTOID,		  TEXTOID,		  TEXTOID,		 JSONOID,
	BYTEAOID, JSONBOID,		  TIMESTAMPTZOID, TIMESTAMPTZOID};

/* The lane is left to the row trigger, which sees the final key. */
static const char insertion[] =
	"INSERT INTO outbox.message (seq, created_at, xid, "
	"aggregate_type, aggregate_id, event_type, topic, key, "
	"payload, payload_bytes, headers, deliver_at, expires_at) "
	"VALUES ($1, $2, $3, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)";

static Relation open_log(void);
static void open_leaf(LogInsert *insert, Oid relid);
static void close_leaf(LogInsert *insert);
static EState *choose_estate(ResultRelInfo *result);
static Oid choose_leaf(Relation parent, Datum created_at);
static bool is_plain(Relation parent, Relation leaf);
static void insert_directly(LogInsert *insert, Message *m);
static bool insert_by_query(Message *m);
static uint64 run(PlannedStmt *stmt, ParamListInfo params);

/* Serves ExecInsertIndexTuples() through the backend's whole life. */
static EState *shared_estate = NULL;

LogInsert *
LogInsertBegin(void)
{
	LogInsert *insert = palloc0(sizeof(LogInsert));

	insert->context = CurrentMemoryContext;
	insert->parent = open_log();
	return insert;
}

/* Whoever held the lock before may have dropped the extension, or made it anew. */
static Relation
open_log(void)
{
	for (;;)
	{
		Oid relid = CatalogGet(false)->message;

		LockRelationOid(relid, RowExclusiveLock);
		if (CatalogGet(false)->message == relid)
			return table_open(relid, NoLock);
		UnlockRelationOid(relid, RowExclusiveLock);
	}
}

bool
LogInsertMessage(LogInsert *insert, Message *m, pg_uuid_t *id)
{
	/* The leaf may have been closed before its lock was ours. */
	do
	{
		Oid relid;

		MessageDate(m);
		relid = choose_leaf(insert->parent, MessageValue(m, MSG_CREATED_AT));
		if (insert->leaf == NULL || RelationGetRelid(insert->leaf) != relid)
			open_leaf(insert, relid);
	} while (DatumGetTimestampTz(MessageValue(m, MSG_CREATED_AT)) <
			 LeafClosedBound());

	if (insert->direct)
	{
		MessageComplete(m);
		MessageNumber(m);
		insert_directly(insert, m);
	}
	else
	{
		/* The row trigger completes it, after the users' own triggers. */
		MessageNumber(m);
		MessageIssue(m);
		if (!insert_by_query(m))
			return false;
	}
	MessageIdMake(id, DatumGetTimestampTz(MessageValue(m, MSG_CREATED_AT)),
				  DatumGetUInt64(MessageValue(m, MSG_XID)),
				  DatumGetInt64(MessageValue(m, MSG_SEQ)));
	return true;
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
	MemoryContext caller = MemoryContextSwitchTo(insert->context);

	close_leaf(insert);
	insert->leaf = table_open(relid, RowExclusiveLock);
	insert->direct = is_plain(insert->parent, insert->leaf);
	if (insert->direct)
	{
		insert->result = makeNode(ResultRelInfo);
		InitResultRelInfo(insert->result, insert->leaf, 0, NULL, 0);
		ExecOpenIndices(insert->result, false);
		insert->slot = table_slot_create(insert->leaf, NULL);
		insert->estate = choose_estate(insert->result);
	}
	MemoryContextSwitchTo(caller);
}

/* Expressions of users' indexes are compiled into the state: it must end. */
static EState *
choose_estate(ResultRelInfo *result)
{
	for (int i = 0; i < result->ri_NumIndices; i++)
	{
		IndexInfo *info = result->ri_IndexRelationInfo[i];

		if (info->ii_Expressions != NIL || info->ii_Predicate != NIL)
			return CreateExecutorState();
	}
	if (shared_estate == NULL)
	{
		MemoryContext caller = MemoryContextSwitchTo(TopMemoryContext);

		shared_estate = CreateExecutorState();
		MemoryContextSwitchTo(caller);
	}
	return shared_estate;
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
		if (insert->estate != shared_estate)
			FreeExecutorState(insert->estate);
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

/* Types as we made them, and no NOT NULL that MessageComplete() can break. */
static bool
has_plain_columns(TupleDesc desc)
{
	if (desc->natts != MSG_NATTS)
		return false;
	for (int i = 0; i < MSG_NATTS; i++)
	{
		Form_pg_attribute attr = TupleDescAttr(desc, i);

		if (attr->atttypid != column_types[i] || attr->atttypmod != -1 ||
			attr->attisdropped || (attr->attnotnull && i + 1 >= MSG_KEY))
			return false;
	}
	return true;
}

static bool
is_plain(Relation parent, Relation leaf)
{
	TupleConstr *constr = leaf->rd_att->constr;

	return leaf->rd_rel->relkind == RELKIND_RELATION &&
		   leaf->rd_rel->relam == HEAP_TABLE_AM_OID &&
		   parent->rd_att->natts == MSG_NATTS &&
		   has_plain_columns(leaf->rd_att) && !leaf->rd_rel->relhasrules &&
		   !parent->rd_rel->relhasrules &&
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
	CompatInsertIndexTuples(insert->result, slot, insert->estate);
	ResetPerTupleExprContext(insert->estate);
}

/*
 * Runs the INSERT with the table's rights, but as the caller: what the users'
 * triggers may do and which functions they find must not depend on who calls
 * enqueue().  False where a trigger or rule has dropped the message.
 */
static bool
insert_by_query(Message *m)
{
	ParamListInfo params = makeParamList(MSG_NATTS);
	uint64 inserted = 0;
	Query *query;
	List *stmts;
	ListCell *cell;

	for (int i = 0; i < MSG_NATTS; i++)
		params->params[i] = (ParamExternData){
			m->values[i], m->isnull[i], PARAM_FLAG_CONST, column_types[i]};

	CommandCounterIncrement();
	PushActiveSnapshot(GetTransactionSnapshot());
	query = parse_analyze_fixedparams(
		linitial_node(RawStmt, raw_parser(insertion, RAW_PARSE_DEFAULT)),
		insertion, column_types, MSG_NATTS, NULL);
	CompatCheckAsUser(query, BOOTSTRAP_SUPERUSERID);
	stmts = pg_plan_queries(QueryRewrite(query), insertion, 0, params);
	PopActiveSnapshot();

	foreach(cell, stmts)
	{
		PlannedStmt *stmt = lfirst_node(PlannedStmt, cell);

		CommandCounterIncrement();
		PushActiveSnapshot(GetTransactionSnapshot());
		UpdateActiveSnapshotCommandId();
		if (stmt->utilityStmt != NULL)
			ProcessUtility(stmt, insertion, false, PROCESS_UTILITY_QUERY,
						   params, NULL, None_Receiver, NULL);
		else
		{
			uint64 rows = run(stmt, params);

			if (stmt->canSetTag)
				inserted += rows;
		}
		PopActiveSnapshot();
	}
	CommandCounterIncrement();
	return inserted > 0;
}

static uint64
run(PlannedStmt *stmt, ParamListInfo params)
{
	QueryDesc *desc =
		CreateQueryDesc(stmt, insertion, GetActiveSnapshot(), InvalidSnapshot,
						None_Receiver, params, NULL, 0);
	uint64 rows;

	ExecutorStart(desc, 0);
	CompatExecutorRun(desc);
	rows = desc->estate->es_processed;
	ExecutorFinish(desc);
	ExecutorEnd(desc);
	FreeQueryDesc(desc);
	return rows;
}
