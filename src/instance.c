/*
 * instance.c
 *		The cached state of outbox.instance.
 *
 * The cache is filled with the latest snapshot, never the transaction's: a
 * REPEATABLE READ transaction must not write rows of a life that has ended.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/table.h"
#include "access/tableam.h"
#include "commands/trigger.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "catalog.h"
#include "guc.h"
#include "instance.h"
#include "outbox.h"

/* Columns of outbox.instance. */
enum
{
	INST_ID = 1,
	INST_SOURCE,
	INST_LIFE,
	INST_STARTED_IN,
	INST_IDENTITY
};

static void load(Instance *fresh, MemoryContext context);
static void on_relcache(Datum arg, Oid relid);

static bool registered = false;
static bool valid = false;
static Oid cached_relid = InvalidOid;
static MemoryContext cache_context = NULL;
static Instance cache;

PG_FUNCTION_INFO_V1(outbox_instance_changed);
PG_FUNCTION_INFO_V1(outbox_stored_life);

const Instance *
InstanceGet(void)
{
	MemoryContext context;
	Instance fresh;

	if (!registered)
	{
		CacheRegisterRelcacheCallback(on_relcache, (Datum) 0);
		registered = true;
	}
	if (valid)
		return &cache;

	context = AllocSetContextCreate(CurrentMemoryContext, "outbox instance",
									ALLOCSET_SMALL_SIZES);
	cached_relid = CatalogGet(false)->instance;
	valid = true;
	PG_TRY();
	{
		load(&fresh, context);
	}
	PG_CATCH();
	{
		valid = false;
		PG_RE_THROW();
	}
	PG_END_TRY();

	MemoryContextSetParent(context, TopMemoryContext);
	if (cache_context != NULL)
		MemoryContextDelete(cache_context);
	cache_context = context;
	cache = fresh;
	return &cache;
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

static void
load(Instance *fresh, MemoryContext context)
{
	Relation rel = table_open(cached_relid, AccessShareLock);
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
	TableScanDesc scan = table_beginscan(rel, snapshot, 0, NULL);
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	Oid started_in = InvalidOid;
	int rows = 0;

	memset(fresh, 0, sizeof(*fresh));
	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		bool isnull;
		int life = DatumGetInt32(slot_getattr(slot, INST_LIFE, &isnull));
		Datum value;

		rows++;
		if (life < fresh->life)
			continue;
		fresh->life = life;
		value = slot_getattr(slot, INST_STARTED_IN, &isnull);
		started_in = isnull ? InvalidOid : DatumGetObjectId(value);
		value = slot_getattr(slot, INST_SOURCE, &isnull);
		fresh->source =
			MemoryContextStrdup(context, TextDatumGetCString(value));
		value = slot_getattr(slot, INST_IDENTITY, &isnull);
		fresh->identity =
			isnull ? NULL
				   : MemoryContextStrdup(context, TextDatumGetCString(value));
	}
	ExecDropSingleTupleTableSlot(slot);
	table_endscan(scan);
	UnregisterSnapshot(snapshot);
	table_close(rel, AccessShareLock);

	if (rows == 0)
		ereport(
			ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("table \"outbox.instance\" is empty"),
			 errdetail("It has to have the row that the installation made."),
			 errhint(
				 "Restore the row, or drop the extension and create it again.")));
	fresh->fresh = rows == 1 && !OidIsValid(started_in);
	fresh->started = rows == 1 && started_in == MyDatabaseId;
	if (!fresh->fresh && !fresh->started)
		fresh->life++;
}

static void
on_relcache(Datum arg, Oid relid)
{
	if (!OidIsValid(relid) || relid == cached_relid)
		valid = false;
}

/* Statement trigger: every backend reads the table again. */
Datum
outbox_instance_changed(PG_FUNCTION_ARGS)
{
	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
						errmsg("function \"%s\" was not called by a trigger",
							   "instance_changed")));
	CacheInvalidateRelcache(((TriggerData *) fcinfo->context)->tg_relation);
	return PointerGetDatum(NULL);
}

Datum
outbox_stored_life(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(InstanceGet()->life);
}
