/*
 * launcher.c
 *		From databases to workers.
 *
 * The launcher is connected to no database.  Whether a database has the
 * extension only a process connected to it can tell: the database's first
 * worker, which ends at once if there is none.
 *
 * What outlives the launcher is the slots in shared memory.  Handles, backoff
 * and who has the extension are its own, and found again when it is started
 * anew: workers that are attached go on and are adopted, slots of workers that
 * have not got so far are taken back.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#include "databases.h"
#include "guc.h"
#include "launcher.h"
#include "session.h"

#define TICK 1000 /* ms */

#define PATIENCE CLOCK_MS(5000) /* until missing slots are worth a word */
#define TURN CLOCK_MS(30000)	/* of a worker, when slots are short */
#define WARNING_INTERVAL CLOCK_MS(60000)

/* What a worker could not have. */
typedef enum Shortage
{
	SHORT_OF_NOTHING,
	SHORT_OF_SLOTS,	   /* outbox.max_workers */
	SHORT_OF_PROCESSES /* max_worker_processes */
} Shortage;

/* What the launcher knows of the worker of a slot. */
typedef struct Launched
{
	BackgroundWorkerHandle *handle; /* NULL = adopted */
	Clock started;
	bool leaving; /* asked to make room */
} Launched;

static void Withdraw(int code, Datum arg);
static void InitState(void);
static void ReapWorkers(void);
static void StopUnlisted(void);
static void StopWorker(int slot);
static void StartWorkers(void);
static Shortage StartWorker(Database *db, int number, Clock now);
static bool RegisterWorker(int slot, const WorkerStart *start);
static void WarnOfShortage(Database *db, int number, Shortage shortage);
static void MakeRoom(Clock now);
static int CountWorkers(Oid database);

static Launched *launched; /* one a slot */

void
LauncherInit(void)
{
	BackgroundWorker worker;

	if (outbox_max_workers == 0)
		return;

	memset(&worker, 0, sizeof(worker));
	worker.bgw_flags =
		BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = 1;
	strlcpy(worker.bgw_library_name, "outbox",
			sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "outbox_launcher_main",
			sizeof(worker.bgw_function_name));
	strlcpy(worker.bgw_name, "outbox launcher", sizeof(worker.bgw_name));
	strlcpy(worker.bgw_type, "outbox launcher", sizeof(worker.bgw_type));
	RegisterBackgroundWorker(&worker);
}

void
outbox_launcher_main(Datum arg)
{
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);
	SessionPin();
	InitState();
	pgstat_report_activity(STATE_IDLE, NULL);

	for (;;)
	{
		CHECK_FOR_INTERRUPTS();

		/* The postmaster starts us again only if the code is not 0. */
		if (ShutdownRequestPending)
			proc_exit(1);
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}

		DatabasesTakeWakeups();
		ReapWorkers();
		if (DatabasesList())
		{
			StopUnlisted();
			StartWorkers();
			DatabasesForget();
		}

		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, TICK,
						 PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
	}
}

static void
InitState(void)
{
	Clock now = ClockNow();

	DatabasesInit();
	launched = MemoryContextAllocZero(TopMemoryContext,
									  Outbox->nslots * sizeof(Launched));
	for (int i = 0; i < Outbox->nslots; i++)
		launched[i].started = now;

	before_shmem_exit(Withdraw, (Datum) 0);
	LWLockAcquire(Outbox->lock, LW_EXCLUSIVE);
	Outbox->launcher_pid = MyProcPid;
	LWLockRelease(Outbox->lock);
	pg_atomic_write_u32(&Outbox->launcher_proc, CompatMyProcNumber() + 1);
}

static void
Withdraw(int code, Datum arg)
{
	pg_atomic_write_u32(&Outbox->launcher_proc, 0);
	LWLockAcquire(Outbox->lock, LW_EXCLUSIVE);
	Outbox->launcher_pid = 0;
	LWLockRelease(Outbox->lock);
}

/* --- the end of workers --- */

/* Frees the slots of workers that have ended. */
static void
ReapWorkers(void)
{
	for (int i = 0; i < Outbox->nslots; i++)
	{
		BackgroundWorkerHandle *handle = launched[i].handle;
		WorkerSlot slot;
		pid_t pid;

		/* Only the launcher changes in_use: it may look without the lock. */
		if (!Outbox->slots[i].in_use)
			continue;

		/*
		 * Wait for the end of the process itself where we can: only then is
		 * its place among the background workers free, too.  An adopted slot
		 * with no worker attached has none, or one that will find the slot's
		 * generation changed.
		 */
		if (handle != NULL &&
			GetBackgroundWorkerPid(handle, &pid) != BGWH_STOPPED)
			continue;
		if (!ShmemFreeSlot(i, &slot))
			continue;

		DatabasesNoteExit(&slot, launched[i].started,
						  slot.ended || handle == NULL);
		if (handle != NULL)
			pfree(handle);
		launched[i].handle = NULL;
	}
}

/* A database that was dropped or made a template keeps no workers. */
static void
StopUnlisted(void)
{
	for (int i = 0; i < Outbox->nslots; i++)
	{
		Database *db;

		if (!Outbox->slots[i].in_use)
			continue;
		db = DatabasesFind(Outbox->slots[i].database);
		if (db == NULL || !db->listed)
			StopWorker(i);
	}
}

static void
StopWorker(int slot)
{
	if (launched[slot].handle != NULL)
	{
		TerminateBackgroundWorker(launched[slot].handle);
		return;
	}

	/* Under the lock, or the pid may be another process's already. */
	LWLockAcquire(Outbox->lock, LW_SHARED);
	if (Outbox->slots[slot].pid != 0)
		kill(Outbox->slots[slot].pid, SIGTERM);
	LWLockRelease(Outbox->lock);
}

/* --- the start of workers --- */

static void
StartWorkers(void)
{
	Clock now = ClockNow();
	Database *db;
	int number;
	Urgency urgency;

	while ((db = DatabasesNext(now, &number, &urgency)) != NULL)
	{
		Shortage shortage = StartWorker(db, number, now);

		if (shortage == SHORT_OF_NOTHING)
			continue;

		/* A burst of probes is over in a moment, and not worth a word. */
		if (urgency != PROBE && now - db->due_since >= PATIENCE)
		{
			WarnOfShortage(db, number, shortage);
			if (urgency == FIRST_WORKER)
				MakeRoom(now);
		}
		break;
	}
}

static Shortage
StartWorker(Database *db, int number, Clock now)
{
	WorkerStart start;

	if (DatabasesBusy(db->oid))
	{
		db->not_before = now + CLOCK_MS(TICK);
		return SHORT_OF_NOTHING;
	}

	start.database = db->oid;
	start.number = number;
	start.slot = ShmemReserveSlot(db->oid, number, &start.generation);
	if (start.slot < 0)
		return SHORT_OF_SLOTS;
	if (!RegisterWorker(start.slot, &start))
	{
		WorkerSlot slot;

		(void) ShmemFreeSlot(start.slot, &slot);
		return SHORT_OF_PROCESSES;
	}
	db->due_since = 0;
	if (number == 0)
		db->look_again = false;
	return SHORT_OF_NOTHING;
}

static bool
RegisterWorker(int slot, const WorkerStart *start)
{
	BackgroundWorker worker;
	MemoryContext old;
	bool ok;

	memset(&worker, 0, sizeof(worker));
	worker.bgw_flags =
		BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	worker.bgw_notify_pid = MyProcPid;
	strlcpy(worker.bgw_library_name, "outbox",
			sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "outbox_worker_main",
			sizeof(worker.bgw_function_name));
	snprintf(worker.bgw_name, sizeof(worker.bgw_name),
			 "outbox worker %d for database %u", start->number,
			 start->database);
	strlcpy(worker.bgw_type, "outbox worker", sizeof(worker.bgw_type));
	memcpy(worker.bgw_extra, start, sizeof(*start));

	old = MemoryContextSwitchTo(TopMemoryContext);
	ok = RegisterDynamicBackgroundWorker(&worker, &launched[slot].handle);
	MemoryContextSwitchTo(old);
	launched[slot].started = ClockNow();
	launched[slot].leaving = false;
	return ok;
}

static void
WarnOfShortage(Database *db, int number, Shortage shortage)
{
	static Clock silent_until = 0;
	Clock now = ClockNow();

	if (now < silent_until)
		return;
	silent_until = now + WARNING_INTERVAL;

	if (shortage == SHORT_OF_SLOTS)
		ereport(WARNING,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("no free slot for outbox worker %d of database \"%s\"",
						number, NameStr(db->name)),
				 errhint("Increase outbox.max_workers, which is %d.",
						 Outbox->nslots)));
	else
		ereport(
			WARNING,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg(
				 "no free background worker process for outbox worker %d of database \"%s\"",
				 number, NameStr(db->name)),
			 errhint("Increase max_worker_processes, which is %d.",
					 max_worker_processes)));
}

/*
 * Lets a database that waits for its first worker have a slot: from the one
 * that has most workers, or, where all have one, from the worker that had its
 * turn.  One at a time: it takes a moment until the slot is free.
 */
static void
MakeRoom(Clock now)
{
	int victim = -1;
	int most = 1;

	for (int i = 0; i < Outbox->nslots; i++)
	{
		WorkerSlot *slot = &Outbox->slots[i];
		int workers;

		if (!slot->in_use)
			continue;
		if (launched[i].leaving)
			return;
		workers = CountWorkers(slot->database);
		if (workers > most || (workers == most && victim >= 0 && most > 1 &&
							   slot->number > Outbox->slots[victim].number))
		{
			most = workers;
			victim = i;
		}
		else if (most == 1 && now - launched[i].started >= TURN &&
				 (victim < 0 ||
				  launched[i].started < launched[victim].started))
			victim = i;
	}
	if (victim < 0)
		return;
	launched[victim].leaving = true;
	StopWorker(victim);
}

static int
CountWorkers(Oid database)
{
	int workers = 0;

	for (int i = 0; i < Outbox->nslots; i++)
	{
		if (Outbox->slots[i].in_use && Outbox->slots[i].database == database)
			workers++;
	}
	return workers;
}
