/*
 * shmem.c
 *		The segment that the launcher, the workers and the backends share.
 *
 * One LWLock guards slots and ownership, which change rarely.  What a backend
 * does at commit is atomics only: at worst it sets the latch of a process that
 * has nothing to do with it, which wakes up for nothing.
 */
#include "postgres.h"

#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "storage/shmem.h"

#include "guc.h"
#include "shmem.h"

#define TRANCHE_NAME "outbox"

static void RequestSegment(void);
static void StartSegment(void);
static void InitSegment(void);
static Size SegmentSize(void);
static void ResetDatabase(DatabaseEntry *db);
static void WakeOwners(DatabaseEntry *db, uint32 lanes);

OutboxShared *Outbox = NULL;

static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;

/* --- the segment --- */

void
ShmemInit(void)
{
	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = RequestSegment;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = StartSegment;
}

static void
RequestSegment(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();

	RequestAddinShmemSpace(SegmentSize());
	RequestNamedLWLockTranche(TRANCHE_NAME, 1);
}

/* Runs again after a crash, with a new and empty segment. */
static void
StartSegment(void)
{
	bool found;

	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	Outbox = ShmemInitStruct("outbox", SegmentSize(), &found);
	if (!found)
		InitSegment();
	LWLockRelease(AddinShmemInitLock);
}

static Size
SegmentSize(void)
{
	return add_size(offsetof(OutboxShared, slots),
					mul_size(outbox_max_workers, sizeof(WorkerSlot)));
}

static void
InitSegment(void)
{
	memset(Outbox, 0, SegmentSize());
	Outbox->lock = &GetNamedLWLockTranche(TRANCHE_NAME)->lock;
	Outbox->nslots = outbox_max_workers;
	pg_atomic_init_u32(&Outbox->launcher_proc, 0);
	pg_atomic_init_u32(&Outbox->probe_wanted, 0);

	for (int i = 0; i < OUTBOX_MAX_DATABASES; i++)
	{
		DatabaseEntry *db = &Outbox->databases[i];
		DatabaseCounters *counters = &db->counters;

		pg_atomic_init_u32(&db->database, InvalidOid);
		pg_atomic_init_u32(&db->dirty, 0);
		pg_atomic_init_u32(&db->record_wanted, 0);
		for (int lane = 0; lane < OUTBOX_LANES; lane++)
			pg_atomic_init_u32(&db->owner_proc[lane], 0);
		pg_atomic_init_u64(&counters->published, 0);
		pg_atomic_init_u64(&counters->published_bytes, 0);
		pg_atomic_init_u64(&counters->failed, 0);
		pg_atomic_init_u64(&counters->batches, 0);
		pg_atomic_init_u64(&counters->producers, 0);
		pg_atomic_init_u64(&counters->last_published, 0);
		pg_atomic_init_u64(&counters->last_failed, 0);
		ResetDatabase(db);
	}
}

/* --- databases --- */

DatabaseEntry *
ShmemFindDatabase(Oid database)
{
	for (int i = 0; i < OUTBOX_MAX_DATABASES; i++)
	{
		DatabaseEntry *db = &Outbox->databases[i];

		if (pg_atomic_read_u32(&db->database) == database)
			return db;
	}
	return NULL;
}

static void
ResetDatabase(DatabaseEntry *db)
{
	DatabaseCounters *counters = &db->counters;

	db->workers_wanted = 0;
	for (int lane = 0; lane < OUTBOX_LANES; lane++)
	{
		db->owner[lane] = -1;
		pg_atomic_write_u32(&db->owner_proc[lane], 0);
	}
	pg_atomic_write_u32(&db->dirty, 0);
	pg_atomic_write_u32(&db->record_wanted, 0);
	pg_atomic_write_u64(&counters->published, 0);
	pg_atomic_write_u64(&counters->published_bytes, 0);
	pg_atomic_write_u64(&counters->failed, 0);
	pg_atomic_write_u64(&counters->batches, 0);
	pg_atomic_write_u64(&counters->producers, 0);
	pg_atomic_write_u64(&counters->last_published, 0);
	pg_atomic_write_u64(&counters->last_failed, 0);
	db->last_error[0] = '\0';
	db->last_error_at = 0;
	db->config_error[0] = '\0';
	db->config_blocks = false;
}

DatabaseEntry *
ShmemDatabase(Oid database, bool create)
{
	DatabaseEntry *db;

	LWLockAcquire(Outbox->lock, create ? LW_EXCLUSIVE : LW_SHARED);
	db = ShmemFindDatabase(database);
	if (db == NULL && create)
	{
		db = ShmemFindDatabase(InvalidOid);
		if (db != NULL)
		{
			ResetDatabase(db);
			pg_write_barrier();
			pg_atomic_write_u32(&db->database, database);
		}
	}
	LWLockRelease(Outbox->lock);
	return db;
}

void
ShmemForgetDatabase(Oid database)
{
	DatabaseEntry *db;

	LWLockAcquire(Outbox->lock, LW_EXCLUSIVE);
	db = ShmemFindDatabase(database);
	if (db != NULL && !ShmemSlotInUse(database))
		pg_atomic_write_u32(&db->database, InvalidOid);
	LWLockRelease(Outbox->lock);
}

void
ShmemSetLastError(DatabaseEntry *db, const char *text)
{
	TimestampTz now = GetCurrentTimestamp();
	int len = pg_mbcliplen(text, strlen(text), sizeof(db->last_error) - 1);

	LWLockAcquire(Outbox->lock, LW_EXCLUSIVE);
	memcpy(db->last_error, text, len);
	db->last_error[len] = '\0';
	db->last_error_at = now;
	LWLockRelease(Outbox->lock);
}

void
ShmemSetConfigError(DatabaseEntry *db, const char *text, bool blocks)
{
	int len = text == NULL ? 0
						   : pg_mbcliplen(text, strlen(text),
										  sizeof(db->config_error) - 1);

	LWLockAcquire(Outbox->lock, LW_EXCLUSIVE);
	memcpy(db->config_error, text == NULL ? "" : text, len);
	db->config_error[len] = '\0';
	db->config_blocks = blocks;
	LWLockRelease(Outbox->lock);
}

/* --- what backends do --- */

DatabaseEntry *
ShmemMyDatabase(void)
{
	static DatabaseEntry *mine = NULL;

	/* A free entry has InvalidOid, too. */
	if (!ShmemReady() || !OidIsValid(MyDatabaseId))
		return NULL;

	/* DROP EXTENSION frees the entry, and another database may take it. */
	if (mine == NULL || pg_atomic_read_u32(&mine->database) != MyDatabaseId)
		mine = ShmemFindDatabase(MyDatabaseId);
	return mine;
}

void
ShmemWakeLanes(uint32 lanes)
{
	DatabaseEntry *db = ShmemMyDatabase();
	uint32 fresh;

	if (db == NULL)
		return;

	/*
	 * Whoever set a bit that is still there has set the latch, too, and its
	 * owner has not taken its snapshot yet.  The atomic is a full barrier: our
	 * commit is visible to whoever clears the bit later.
	 */
	fresh = lanes & ~pg_atomic_fetch_or_u32(&db->dirty, lanes);
	if (fresh != 0)
		WakeOwners(db, fresh);
}

void
ShmemWantRecord(void)
{
	DatabaseEntry *db = ShmemMyDatabase();

	if (db == NULL)
		return;

	pg_atomic_fetch_or_u32(&db->record_wanted, OUTBOX_ALL_LANES);
	WakeOwners(db, OUTBOX_ALL_LANES);
}

void
ShmemWakeLauncher(void)
{
	uint32 old;
	uint32 new;

	if (!ShmemReady())
		return;

	old = pg_atomic_read_u32(&Outbox->probe_wanted);
	do
	{
		if (old == InvalidOid || old == MyDatabaseId)
			new = MyDatabaseId;
		else
			new = OUTBOX_PROBE_ALL;
	} while (
		!pg_atomic_compare_exchange_u32(&Outbox->probe_wanted, &old, new));

	ShmemWakeProc(pg_atomic_read_u32(&Outbox->launcher_proc));
}

/* Takes no lock: runs in backends after their commit. */
static void
WakeOwners(DatabaseEntry *db, uint32 lanes)
{
	uint32 woken[OUTBOX_LANES];
	int nwoken = 0;

	for (int lane = 0; lane < OUTBOX_LANES; lane++)
	{
		uint32 proc;
		int i;

		if ((lanes & (1U << lane)) == 0)
			continue;

		proc = pg_atomic_read_u32(&db->owner_proc[lane]);
		for (i = 0; i < nwoken; i++)
		{
			if (woken[i] == proc)
				break;
		}
		if (i < nwoken)
			continue;
		woken[nwoken++] = proc;
		ShmemWakeProc(proc);
	}
}

void
ShmemWakeProc(uint32 proc)
{
	if (proc != 0 && proc <= ProcGlobal->allProcCount)
		SetLatch(&GetPGProcByNumber(proc - 1)->procLatch);
}
