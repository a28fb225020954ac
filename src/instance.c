/*
 * instance.c
 *		The cached state of outbox.instance.
 */
#include "postgres.h"

#include "executor/tuptable.h"
#include "miscadmin.h"

#include "catalog.h"
#include "guc.h"
#include "instance.h"
#include "outbox.h"
#include "table_cache.h"

/* Columns of outbox.instance. */
enum
{
	INST_ID = 1,
	INST_SOURCE,
	INST_LIFE,
	INST_STARTED_IN,
	INST_IDENTITY
};

/* What one reading of the table has found so far. */
typedef struct Loaded
{
	int rows;
	Instance newest;
	Oid started_in;
} Loaded;

static void visit_row(TupleTableSlot *slot, void *arg);

static TableCache cache;
static Instance current;

PG_FUNCTION_INFO_V1(outbox_stored_life);

const Instance *
InstanceGet(void)
{
	Loaded loaded = {0};

	if (cache.valid)
		return &current;

	TableCacheFill(&cache, CatalogGet(false)->instance, visit_row, &loaded);
	if (loaded.rows == 0)
	{
		cache.valid = false;
		ereport(
			ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("table \"outbox.instance\" is empty"),
			 errdetail("It has to have the row that the installation made."),
			 errhint(
				 "Restore the row, or drop the extension and create it again.")));
	}
	current = loaded.newest;
	current.fresh = loaded.rows == 1 && !OidIsValid(loaded.started_in);
	current.started = loaded.rows == 1 && loaded.started_in == MyDatabaseId;
	if (!current.fresh && !current.started)
		current.life++;
	return &current;
}

uint64
InstanceXidBase(void)
{
	return OUTBOX_LIFE_BASE(InstanceGet()->life);
}

bool
InstanceIdentityMatches(const Instance *instance)
{
	if (outbox_identity == NULL || outbox_identity[0] == '\0')
		return true;
	return instance->identity != NULL &&
		   strcmp(instance->identity, outbox_identity) == 0;
}

/* The row of the highest life counts. */
static void
visit_row(TupleTableSlot *slot, void *arg)
{
	Loaded *loaded = arg;
	bool isnull;
	int life = DatumGetInt32(slot_getattr(slot, INST_LIFE, &isnull));
	Datum value;

	loaded->rows++;
	if (life < loaded->newest.life)
		return;
	loaded->newest.life = life;
	loaded->newest.source = SlotText(slot, INST_SOURCE);
	loaded->newest.identity = SlotText(slot, INST_IDENTITY);
	value = slot_getattr(slot, INST_STARTED_IN, &isnull);
	loaded->started_in = isnull ? InvalidOid : DatumGetObjectId(value);
}

Datum
outbox_stored_life(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(InstanceGet()->life);
}
