/*
 * table_cache.c
 *		A backend's copy of a small table.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/tableam.h"
#include "commands/trigger.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "table_cache.h"

static void on_relcache(Datum arg, Oid relid);

PG_FUNCTION_INFO_V1(outbox_table_changed);

void
TableCacheFill(TableCache *cache, Oid relid, TableVisitor visit, void *arg)
{
	MemoryContext caller = CurrentMemoryContext;
	MemoryContext fresh = AllocSetContextCreate(caller, "outbox table cache",
												ALLOCSET_SMALL_SIZES);

	if (!cache->registered)
	{
		CacheRegisterRelcacheCallback(on_relcache, PointerGetDatum(cache));
		cache->registered = true;
	}

	/* An invalidation while the table is read must not be lost. */
	cache->relid = relid;
	cache->valid = true;
	PG_TRY();
	{
		MemoryContextSwitchTo(fresh);
		TableVisit(relid, visit, arg);
		MemoryContextSwitchTo(caller);
	}
	PG_CATCH();
	{
		cache->valid = false;
		PG_RE_THROW();
	}
	PG_END_TRY();

	MemoryContextSetParent(fresh, TopMemoryContext);
	if (cache->context != NULL)
		MemoryContextDelete(cache->context);
	cache->context = fresh;
}

void
TableVisit(Oid relid, TableVisitor visit, void *arg)
{
	Relation rel = table_open(relid, AccessShareLock);
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
	TableScanDesc scan = table_beginscan(rel, snapshot, 0, NULL);
	TupleTableSlot *slot = table_slot_create(rel, NULL);

	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
		visit(slot, arg);
	ExecDropSingleTupleTableSlot(slot);
	table_endscan(scan);
	UnregisterSnapshot(snapshot);
	table_close(rel, AccessShareLock);
}

char *
SlotText(TupleTableSlot *slot, int attno)
{
	bool isnull;
	Datum value = slot_getattr(slot, attno, &isnull);

	return isnull ? NULL : TextDatumGetCString(value);
}

static void
on_relcache(Datum arg, Oid relid)
{
	TableCache *cache = (TableCache *) DatumGetPointer(arg);

	if (!OidIsValid(relid) || relid == cache->relid)
		cache->valid = false;
}

/* Statement trigger: every backend reads the table again. */
Datum
outbox_table_changed(PG_FUNCTION_ARGS)
{
	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
						errmsg("function \"%s\" was not called by a trigger",
							   "table_changed")));
	CacheInvalidateRelcache(((TriggerData *) fcinfo->context)->tg_relation);
	return PointerGetDatum(NULL);
}
