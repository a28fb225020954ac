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
	LEAF_STATE
};

static void visit_row(TupleTableSlot *slot, void *arg);
static bool is_lane_index(Relation index);

LogLeaf *
LeafList(MemoryContext context, int *n)
{
	List *oids = find_inheritance_children(CatalogGet(false)->message, NoLock);
	LogLeaf *leaves;
	ListCell *cell;

	TableVisit(CatalogGet(false)->leaf, visit_row, &oids);
	leaves = MemoryContextAllocZero(context,
									sizeof(LogLeaf) * (list_length(oids) + 1));
	*n = 0;
	foreach(cell, oids)
		leaves[(*n)++].relid = lfirst_oid(cell);
	list_free(oids);
	return leaves;
}

/* Tables that left the tree with their rows. */
static void
visit_row(TupleTableSlot *slot, void *arg)
{
	List **oids = arg;
	bool isnull;
	Oid relid = DatumGetObjectId(slot_getattr(slot, LEAF_RELATION, &isnull));
	Oid parent = DatumGetObjectId(slot_getattr(slot, LEAF_PARENT, &isnull));

	if (parent == CatalogGet(false)->message &&
		strcmp(SlotText(slot, LEAF_STATE), "detached") == 0 &&
		get_rel_name(relid) != NULL)
		*oids = list_append_unique_oid(*oids, relid);
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
