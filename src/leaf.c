/*
 * leaf.c
 *		The leaves of the log and their indexes.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/pg_am.h"
#include "catalog/pg_inherits.h"
#include "executor/tuptable.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "catalog.h"
#include "leaf.h"
#include "outbox.h"

/* Columns of outbox.leaf. */
enum
{
	LEAF_RELATION = 1,
	LEAF_PARENT,
	LEAF_LOWER_BOUND,
	LEAF_UPPER_BOUND,
	LEAF_STATE
};

static List *detached_leaves(List *oids);
static bool is_lane_index(Relation index);

LogLeaf *
LeafList(MemoryContext context, int *n)
{
	List *oids = find_inheritance_children(CatalogGet(false)->message, NoLock);
	LogLeaf *leaves;
	ListCell *cell;

	oids = detached_leaves(oids);
	leaves = MemoryContextAllocZero(context,
									sizeof(LogLeaf) * (list_length(oids) + 1));
	*n = 0;
	foreach(cell, oids)
		leaves[(*n)++].relid = lfirst_oid(cell);
	list_free(oids);
	return leaves;
}

static List *
detached_leaves(List *oids)
{
	const OutboxCatalog *catalog = CatalogGet(false);
	Relation rel = table_open(catalog->leaf, AccessShareLock);
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
	TableScanDesc scan = table_beginscan(rel, snapshot, 0, NULL);
	TupleTableSlot *slot = table_slot_create(rel, NULL);

	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		bool isnull;
		Oid relid =
			DatumGetObjectId(slot_getattr(slot, LEAF_RELATION, &isnull));
		char *state;

		if (DatumGetObjectId(slot_getattr(slot, LEAF_PARENT, &isnull)) !=
			catalog->message)
			continue;
		state = TextDatumGetCString(slot_getattr(slot, LEAF_STATE, &isnull));
		if (strcmp(state, "detached") == 0 && get_rel_name(relid) != NULL)
			oids = list_append_unique_oid(oids, relid);
		pfree(state);
	}
	ExecDropSingleTupleTableSlot(slot);
	table_endscan(scan);
	UnregisterSnapshot(snapshot);
	table_close(rel, AccessShareLock);
	return oids;
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
