/*
 * leaf.c
 *		The leaves of the log and their indexes.
 */
#include "postgres.h"

#include "access/genam.h"
#include "catalog/pg_am.h"
#include "catalog/pg_inherits.h"
#include "executor/tuptable.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "catalog.h"
#include "leaf.h"
#include "outbox.h"
#include "table_cache.h"

/* Columns of outbox.leaf. */
enum
{
	LEAF_RELATION = 1,
	LEAF_PARENT,
	LEAF_LOWER_BOUND,
	LEAF_UPPER_BOUND,
	LEAF_ATTACHED,
	LEAF_STATE,
	LEAF_CLOSE_AT
};

static void visit_row(TupleTableSlot *slot, void *arg);
static void visit_closed_bound(TupleTableSlot *slot, void *arg);
static bool is_of_log(TupleTableSlot *slot);
static bool is_lane_index(Relation index);

static TableCache closed_cache;
static TimestampTz closed_bound;

LogLeaf *
LeafList(MemoryContext context, int *n)
{
	List *children =
		find_inheritance_children(CatalogGet(false)->message, NoLock);
	List *registered = NIL;
	LogLeaf *leaves;
	ListCell *cell;

	TableVisit(CatalogGet(false)->leaf, visit_row, &registered);
	leaves = MemoryContextAllocZero(
		context, sizeof(LogLeaf) *
					 (list_length(children) + list_length(registered) + 1));
	*n = 0;
	foreach(cell, registered)
	{
		LogLeaf *leaf = lfirst(cell);

		leaves[(*n)++] = *leaf;
		children = list_delete_oid(children, leaf->relid);
	}
	foreach(cell, children)
		leaves[(*n)++].relid = lfirst_oid(cell);
	list_free_deep(registered);
	list_free(children);
	return leaves;
}

/* Registered leaves of the log that are still there. */
static void
visit_row(TupleTableSlot *slot, void *arg)
{
	List **registered = arg;
	bool isnull;
	LogLeaf *leaf;
	Datum close_at;

	if (!is_of_log(slot))
		return;
	leaf = palloc0(sizeof(LogLeaf));
	leaf->relid = DatumGetObjectId(slot_getattr(slot, LEAF_RELATION, &isnull));
	close_at = slot_getattr(slot, LEAF_CLOSE_AT, &isnull);
	if (!isnull)
		leaf->close_at = DatumGetUInt64(close_at);
	if (get_rel_name(leaf->relid) != NULL)
		*registered = lappend(*registered, leaf);
}

static bool
is_of_log(TupleTableSlot *slot)
{
	bool isnull;

	return DatumGetObjectId(slot_getattr(slot, LEAF_PARENT, &isnull)) ==
		   CatalogGet(false)->message;
}

TimestampTz
LeafClosedBound(void)
{
	TimestampTz bound = DT_NOBEGIN;

	if (!closed_cache.valid)
	{
		TableCacheFill(&closed_cache, CatalogGet(false)->leaf,
					   visit_closed_bound, &bound);
		closed_bound = bound;
	}
	return closed_bound;
}

static void
visit_closed_bound(TupleTableSlot *slot, void *arg)
{
	TimestampTz *bound = arg;
	bool isnull;
	Datum upper;

	if (!is_of_log(slot) ||
		!DatumGetBool(slot_getattr(slot, LEAF_ATTACHED, &isnull)) ||
		strcmp(SlotText(slot, LEAF_STATE), "open") == 0)
		return;
	upper = slot_getattr(slot, LEAF_UPPER_BOUND, &isnull);
	if (!isnull)
		*bound = Max(*bound, DatumGetTimestampTz(upper));
}

Relation
LeafIndexOpen(Relation leaf)
{
	List *oids = RelationGetIndexList(leaf);
	ListCell *cell;

	foreach(cell, oids)
	{
		Relation index = index_open(lfirst_oid(cell), AccessShareLock);

		if (is_lane_index(index))
		{
			list_free(oids);
			return index;
		}
		index_close(index, AccessShareLock);
	}
	ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
					errmsg("table \"%s\" has no index on (lane, xid, seq)",
						   RelationGetRelationName(leaf)),
					errdetail("The relay cannot read it without."),
					errhint("Run CREATE INDEX ON outbox.%s (lane, xid, seq).",
							RelationGetRelationName(leaf))));
}

static bool
is_lane_index(Relation index)
{
	Form_pg_index form = index->rd_index;

	return index->rd_rel->relam == BTREE_AM_OID && form->indisvalid &&
		   form->indnkeyatts == 3 && form->indkey.values[0] == MSG_LANE &&
		   form->indkey.values[1] == MSG_XID &&
		   form->indkey.values[2] == MSG_SEQ &&
		   RelationGetIndexPredicate(index) == NIL;
}
