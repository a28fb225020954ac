/*
 * monitor.c
 *		SQL-callable functions that tell what shared memory knows.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "announce.h"
#include "catalog.h"
#include "instance.h"
#include "shmem.h"
#include "snapshot.h"

#define STAT_COLUMNS 11

PG_FUNCTION_INFO_V1(outbox_is_preloaded);
PG_FUNCTION_INFO_V1(outbox_want_record);
PG_FUNCTION_INFO_V1(outbox_stored_snapshot);
PG_FUNCTION_INFO_V1(outbox_extension_created);
PG_FUNCTION_INFO_V1(outbox_stat_get);
PG_FUNCTION_INFO_V1(outbox_configuration_error);

Datum
outbox_is_preloaded(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(ShmemReady());
}

Datum
outbox_want_record(PG_FUNCTION_ARGS)
{
	ShmemWantRecord();
	PG_RETURN_VOID();
}

/* What has committed now, in the form of the log's xids. */
Datum
outbox_stored_snapshot(PG_FUNCTION_ARGS)
{
	Progress *now = ProgressFromSnapshot(
		GetLatestSnapshot(), InstanceXidBase(), CurrentMemoryContext);

	PG_RETURN_DATUM(ProgressToDatum(now));
}

Datum
outbox_extension_created(PG_FUNCTION_ARGS)
{
	AnnounceToLauncher();
	if (!ShmemReady())
	{
		int level = client_min_messages;

		/* CREATE EXTENSION keeps the notices of its script to itself. */
		if (level == WARNING)
			client_min_messages = NOTICE;
		ereport(
			NOTICE,
			(errmsg("messages are accepted, but none is published yet"),
			 errdetail(
				 "The server was started without the library of the extension."),
			 errhint(
				 "Add outbox to shared_preload_libraries and restart the server.")));
		client_min_messages = level;
	}
	PG_RETURN_VOID();
}

static void
set_timestamp(Datum *value, bool *isnull, pg_atomic_uint64 *at)
{
	TimestampTz t = (TimestampTz) pg_atomic_read_u64(at);

	*value = TimestampTzGetDatum(t);
	*isnull = t == 0;
}

static void
set_shared(DatabaseEntry *db, Datum *values, bool *isnull)
{
	int workers = 0;
	int owned = 0;
	char error[sizeof(db->last_error)];
	TimestampTz error_at;

	LWLockAcquire(Outbox->lock, LW_SHARED);
	for (int i = 0; i < Outbox->nslots; i++)
		workers += Outbox->slots[i].in_use && Outbox->slots[i].pid != 0 &&
				   Outbox->slots[i].database == MyDatabaseId;
	for (int i = 0; i < OUTBOX_LANES; i++)
		owned += db->owner[i] >= 0;
	strlcpy(error, db->last_error, sizeof(error));
	error_at = db->last_error_at;
	LWLockRelease(Outbox->lock);

	values[0] = Int32GetDatum(workers);
	values[1] = Int32GetDatum(owned);
	values[2] = Int64GetDatum(pg_atomic_read_u64(&db->counters.published));
	values[3] =
		Int64GetDatum(pg_atomic_read_u64(&db->counters.published_bytes));
	values[4] = Int64GetDatum(pg_atomic_read_u64(&db->counters.failed));
	values[5] = Int64GetDatum(pg_atomic_read_u64(&db->counters.batches));
	values[6] = Int64GetDatum(pg_atomic_read_u64(&db->counters.producers));
	memset(isnull, false, 7 * sizeof(bool));
	set_timestamp(&values[7], &isnull[7], &db->counters.last_published);
	set_timestamp(&values[8], &isnull[8], &db->counters.last_failed);
	if (error_at != 0)
	{
		values[9] = CStringGetTextDatum(error);
		values[10] = TimestampTzGetDatum(error_at);
		isnull[9] = isnull[10] = false;
	}
}

/* All null where nothing runs for this database. */
Datum
outbox_stat_get(PG_FUNCTION_ARGS)
{
	TupleDesc tupdesc;
	Datum values[STAT_COLUMNS] = {0};
	bool isnull[STAT_COLUMNS];
	DatabaseEntry *db = ShmemReady() ? ShmemMyDatabase() : NULL;

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	memset(isnull, true, sizeof(isnull));
	if (db != NULL)
		set_shared(db, values, isnull);
	PG_RETURN_DATUM(HeapTupleGetDatum(
		heap_form_tuple(BlessTupleDesc(tupdesc), values, isnull)));
}

/* What the workers say of it, which alone have read the file. */
Datum
outbox_configuration_error(PG_FUNCTION_ARGS)
{
	TupleDesc tupdesc;
	Datum values[2] = {0};
	bool isnull[2] = {true, false};
	DatabaseEntry *db = ShmemReady() ? ShmemMyDatabase() : NULL;

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	values[1] = BoolGetDatum(false);
	if (db != NULL)
	{
		char reason[sizeof(db->config_error)];

		LWLockAcquire(Outbox->lock, LW_SHARED);
		strlcpy(reason, db->config_error, sizeof(reason));
		values[1] = BoolGetDatum(db->config_blocks);
		LWLockRelease(Outbox->lock);
		isnull[0] = reason[0] == '\0';
		if (!isnull[0])
			values[0] = CStringGetTextDatum(reason);
	}
	PG_RETURN_DATUM(HeapTupleGetDatum(
		heap_form_tuple(BlessTupleDesc(tupdesc), values, isnull)));
}
