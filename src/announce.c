/*
 * announce.c
 *		What the current transaction tells others at its end.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "utils/timestamp.h"

#include "announce.h"
#include "catalog.h"
#include "shmem.h"
#include "table_cache.h"

/* Columns of outbox.start_request. */
enum
{
	START_DATABASE = 1,
	START_REQUESTED_AT
};

static void register_callbacks(void);
static void visit_request(TupleTableSlot *slot, void *arg);
static void insert_request(Oid relid);
static void on_xact(XactEvent event, void *arg);
static void on_subxact(SubXactEvent event, SubTransactionId mine,
					   SubTransactionId parent, void *arg);

/* Of the current transaction. */
static bool callbacks_registered = false;
static uint32 wake_lanes = 0;
static bool wake_workers = false;
static bool wake_launcher = false;
static bool start_requested = false;

void
AnnounceLane(int lane)
{
	register_callbacks();
	wake_lanes |= 1U << lane;
}

bool
AnnouncedLanes(void)
{
	return wake_lanes != 0;
}

void
AnnounceToWorkers(void)
{
	register_callbacks();
	wake_workers = true;
}

void
AnnounceToLauncher(void)
{
	register_callbacks();
	wake_launcher = true;
}

/*
 * The row stands or falls with the message that asks.  Another's that is there
 * already is enough: no worker may ever come to read them.
 */
void
AnnounceStart(void)
{
	Oid relid;
	bool found = false;

	if (start_requested)
		return;
	relid = CatalogGet(false)->start_request;
	TableVisit(relid, visit_request, &found);
	if (!found)
		insert_request(relid);
	AnnounceToWorkers();
	start_requested = true;
}

/* A copy made by CREATE DATABASE carries the requests of its template. */
static void
visit_request(TupleTableSlot *slot, void *arg)
{
	bool isnull;

	if (DatumGetObjectId(slot_getattr(slot, START_DATABASE, &isnull)) ==
		MyDatabaseId)
		*(bool *) arg = true;
}

static void
insert_request(Oid relid)
{
	Relation rel = table_open(relid, RowExclusiveLock);
	TupleTableSlot *slot = table_slot_create(rel, NULL);

	ExecClearTuple(slot);
	slot->tts_values[START_DATABASE - 1] = ObjectIdGetDatum(MyDatabaseId);
	slot->tts_values[START_REQUESTED_AT - 1] =
		TimestampTzGetDatum(GetCurrentTransactionStartTimestamp());
	memset(slot->tts_isnull, false, sizeof(bool) * START_REQUESTED_AT);
	ExecStoreVirtualTuple(slot);
	simple_table_tuple_insert(rel, slot);
	ExecDropSingleTupleTableSlot(slot);
	table_close(rel, RowExclusiveLock);
}

static void
register_callbacks(void)
{
	if (callbacks_registered)
		return;
	RegisterXactCallback(on_xact, NULL);
	RegisterSubXactCallback(on_subxact, NULL);
	callbacks_registered = true;
}

/*
 * PostgreSQL calls back after the commit has become visible, so that whoever
 * is woken here sees it.
 */
static void
on_xact(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_COMMIT:
			if (wake_lanes != 0)
				ShmemWakeLanes(wake_lanes);
			if (wake_workers)
				ShmemWakeWorkers(MyDatabaseId);
			break;
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			break;
		default:
			return;
	}
	if (wake_launcher)
		ShmemWakeLauncher();
	wake_lanes = 0;
	wake_workers = false;
	wake_launcher = false;
	start_requested = false;
}

/* The request may have gone with it: look again. */
static void
on_subxact(SubXactEvent event, SubTransactionId mine, SubTransactionId parent,
		   void *arg)
{
	if (event == SUBXACT_EVENT_ABORT_SUB)
		start_requested = false;
}
