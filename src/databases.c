/*
 * databases.c
 *		What the launcher knows of the server's databases, and when each may
 *		have a worker.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
#include "storage/lmgr.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "databases.h"

#define RESTART_INTERVAL CLOCK_MS(1000)
#define BACKOFF_MAX CLOCK_MS(60000)
#define PROBE_INTERVAL CLOCK_MS(60000) /* should a wake-up have been lost */

static void WakeUp(Database *db);
static int MissingWorker(Oid database);
static Clock ErrorDelay(Database *db, Clock started, Clock now);

static HTAB *databases;

void
DatabasesInit(void)
{
	HASHCTL ctl;

	ctl.keysize = sizeof(Oid);
	ctl.entrysize = sizeof(Database);
	ctl.hcxt = TopMemoryContext;
	databases = hash_create("outbox databases", 64, &ctl,
							HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

Database *
DatabasesFind(Oid database)
{
	return hash_search(databases, &database, HASH_FIND, NULL);
}

void
DatabasesTakeWakeups(void)
{
	Oid wanted = pg_atomic_exchange_u32(&Outbox->probe_wanted, InvalidOid);
	HASH_SEQ_STATUS seq;
	Database *db;

	if (wanted == InvalidOid)
		return;
	hash_seq_init(&seq, databases);
	while ((db = hash_seq_search(&seq)) != NULL)
	{
		if (wanted == OUTBOX_PROBE_ALL || wanted == db->oid)
			WakeUp(db);
	}
}

static void
WakeUp(Database *db)
{
	db->absent = false;
	db->look_again = true;
	db->backoff = 0;
	db->not_before = 0;
}

bool
DatabasesList(void)
{
	Relation rel;
	TableScanDesc scan;
	HeapTuple tuple;
	HASH_SEQ_STATUS seq;
	Database *db;

	StartTransactionCommand();
	if (!ConditionalLockRelationOid(DatabaseRelationId, AccessShareLock))
	{
		CommitTransactionCommand();
		return false;
	}
	hash_seq_init(&seq, databases);
	while ((db = hash_seq_search(&seq)) != NULL)
		db->listed = false;

	PushActiveSnapshot(GetTransactionSnapshot());
	rel = table_open(DatabaseRelationId, NoLock);
	scan = table_beginscan_catalog(rel, 0, NULL);
	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		Form_pg_database form = (Form_pg_database) GETSTRUCT(tuple);
		bool found;

		/* A limit below -1: left behind by an interrupted DROP DATABASE. */
		if (!form->datallowconn || form->datistemplate ||
			form->datconnlimit < -1)
			continue;
		db = hash_search(databases, &form->oid, HASH_ENTER, &found);
		if (!found)
			memset((char *) db + sizeof(Oid), 0,
				   sizeof(Database) - sizeof(Oid));
		db->name = form->datname;
		db->listed = true;
	}
	table_endscan(scan);
	table_close(rel, NoLock);
	PopActiveSnapshot();
	CommitTransactionCommand();
	return true;
}

void
DatabasesForget(void)
{
	HASH_SEQ_STATUS seq;
	Database *db;

	for (int i = 0; i < OUTBOX_MAX_DATABASES; i++)
	{
		Oid oid = pg_atomic_read_u32(&Outbox->databases[i].database);

		if (!OidIsValid(oid))
			continue;
		db = DatabasesFind(oid);
		if (db == NULL || !db->listed || db->absent)
			ShmemForgetDatabase(oid);
	}

	hash_seq_init(&seq, databases);
	while ((db = hash_seq_search(&seq)) != NULL)
	{
		if (!db->listed)
			(void) hash_search(databases, &db->oid, HASH_REMOVE, NULL);
	}
}

Database *
DatabasesNext(Clock now, int *number, Urgency *urgency)
{
	HASH_SEQ_STATUS seq;
	Database *db;
	Database *best = NULL;

	hash_seq_init(&seq, databases);
	while ((db = hash_seq_search(&seq)) != NULL)
	{
		int missing = db->listed ? MissingWorker(db->oid) : -1;
		Urgency this_urgency;

		if (missing < 0)
			db->due_since = 0;
		if (missing < 0 || now < db->not_before)
			continue;
		if (db->due_since == 0)
			db->due_since = now;

		if (missing > 0)
			this_urgency = FURTHER_WORKER;
		else
			this_urgency = db->absent ? PROBE : FIRST_WORKER;
		if (best == NULL || this_urgency < *urgency ||
			(this_urgency == *urgency && db->due_since < best->due_since))
		{
			best = db;
			*number = missing;
			*urgency = this_urgency;
		}
	}
	return best;
}

/*
 * The lowest number of a worker that the database shall have and has not; -1
 * if there is none.  Only the first worker can tell how many are wanted.
 */
static int
MissingWorker(Oid database)
{
	uint32 present = 0;
	int wanted = 1;
	int missing = 0;

	LWLockAcquire(Outbox->lock, LW_SHARED);
	for (int i = 0; i < Outbox->nslots; i++)
	{
		WorkerSlot *slot = &Outbox->slots[i];

		if (!slot->in_use || slot->database != database)
			continue;
		present |= 1U << slot->number;
		if (slot->number == 0 && slot->pid != 0)
		{
			DatabaseEntry *entry = ShmemFindDatabase(database);

			wanted = entry != NULL ? entry->workers_wanted : 1;
		}
	}
	LWLockRelease(Outbox->lock);

	/* More workers than lanes would have nothing to do. */
	wanted = Max(1, Min(wanted, OUTBOX_LANES));
	while (missing < wanted && (present & (1U << missing)) != 0)
		missing++;
	return missing < wanted ? missing : -1;
}

void
DatabasesNoteExit(const WorkerSlot *ended, Clock started, bool reported)
{
	Clock now = ClockNow();
	WorkerExit reason = reported ? ended->exit : WORKER_EXIT_ERROR;
	Database *db = DatabasesFind(ended->database);
	Clock delay = RESTART_INTERVAL;

	if (db == NULL)
		return;
	if (reported && reason != WORKER_EXIT_NO_EXTENSION)
		db->absent = false;
	if (reason != WORKER_EXIT_ERROR && reason != WORKER_EXIT_NONE)
		db->backoff = 0;

	switch (reason)
	{
		case WORKER_EXIT_NONE:
			break;
		case WORKER_EXIT_RESTART:
			/* At once, but not in a circle. */
			if (now - started >= RESTART_INTERVAL)
				delay = 0;
			break;
		case WORKER_EXIT_NO_EXTENSION:
			/* That it is absent is the first worker's to say. */
			if (ended->number == 0)
			{
				db->absent = !db->look_again;
				delay = db->absent ? PROBE_INTERVAL : 0;
			}
			break;
		case WORKER_EXIT_SURPLUS:
			delay = 0;
			break;
		case WORKER_EXIT_ERROR:
			delay = ErrorDelay(db, started, now);
			break;
	}
	db->not_before = Max(db->not_before, now + delay);
}

static Clock
ErrorDelay(Database *db, Clock started, Clock now)
{
	if (db->backoff == 0 || now - started >= BACKOFF_MAX)
		db->backoff = RESTART_INTERVAL;
	else
		db->backoff = Min(db->backoff * 2, BACKOFF_MAX);
	return db->backoff;
}

bool
DatabasesBusy(Oid database)
{
	LOCKTAG tag;
	LockAcquireResult result;

	/* The lock that a connection takes; it ends with the transaction. */
	StartTransactionCommand();
	SET_LOCKTAG_OBJECT(tag, InvalidOid, DatabaseRelationId, database, 0);
	result = LockAcquire(&tag, RowExclusiveLock, false, true);
	CommitTransactionCommand();
	return result == LOCKACQUIRE_NOT_AVAIL;
}
