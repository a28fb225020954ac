/*
 * worker.c
 *		A worker from its start to the relay's loop, and its end.
 *
 * A worker belongs to a slot that the launcher has reserved.  It may find,
 * when it comes to life, that the launcher was started anew meanwhile and has
 * taken the slot back; the slot's generation tells.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/pg_extension.h"
#include "commands/dbcommands.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "launcher.h"
#include "relay.h"
#include "session.h"

static void HandleShutdownRequest(SIGNAL_ARGS);
static void Detach(int code, Datum arg);
static WorkerExit CheckExtension(void);
static char *ExtensionVersion(void);

volatile sig_atomic_t OutboxShutdownRequested = false;
int OutboxMySlot = -1;

static WorkerStart my_start;
static WorkerExit my_exit = WORKER_EXIT_NONE;

void
outbox_worker_main(Datum arg)
{
	DatabaseEntry *db;
	char name[NAMEDATALEN];

	memcpy(&my_start, MyBgworkerEntry->bgw_extra, sizeof(my_start));
	OutboxMySlot = my_start.slot;

	/*
	 * Nothing is in flight yet, so die at once, also while waiting for a
	 * DROP DATABASE or the like.
	 */
	pqsignal(SIGTERM, die);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	BackgroundWorkerUnblockSignals();

	/*
	 * Callbacks run in reverse order: first the relay's, which destroys the
	 * producer, then the server's own, which aborts the transaction, then
	 * this one, which lets other workers have the lanes.
	 */
	before_shmem_exit(Detach, (Datum) 0);

	BackgroundWorkerInitializeConnectionByOid(my_start.database, InvalidOid,
											  0);
	SessionPin();
	snprintf(name, sizeof(name), "outbox worker %d", my_start.number);
	SetConfigOption("application_name", name, PGC_USERSET, PGC_S_OVERRIDE);

	my_exit = CheckExtension();
	if (my_exit != WORKER_EXIT_NONE)
		proc_exit(0);

	db = ShmemDatabase(MyDatabaseId, true);
	if (db == NULL)
		ereport(
			ERROR,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg(
				 "more than %d databases of this server use extension \"%s\"",
				 OUTBOX_MAX_DATABASES, OUTBOX_EXTENSION)));

	/* From here on acknowledgements must be recorded before the end. */
	pqsignal(SIGTERM, HandleShutdownRequest);
	CHECK_FOR_INTERRUPTS();

	if (ShmemAttachWorker(my_start.slot, my_start.generation))
		my_exit = RelayMain(my_start.slot, db, my_start.number);
	proc_exit(0);
}

static void
HandleShutdownRequest(SIGNAL_ARGS)
{
	int save_errno = errno;

	OutboxShutdownRequested = true;
	SetLatch(MyLatch);
	errno = save_errno;
}

static void
Detach(int code, Datum arg)
{
	/* The code is not 0 after an error that nobody caught. */
	if (code != 0)
		my_exit = WORKER_EXIT_ERROR;
	ShmemDetachWorker(my_start.slot, my_start.generation, my_exit);
}

/* The launcher's backoff limits the rate of the message. */
static WorkerExit
CheckExtension(void)
{
	WorkerExit result = WORKER_EXIT_NONE;
	char *version;

	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());

	version = ExtensionVersion();
	if (version == NULL)
		result = WORKER_EXIT_NO_EXTENSION;
	else if (strcmp(version, OUTBOX_VERSION) != 0)
	{
		ereport(
			WARNING,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg(
				 "extension \"%s\" of database \"%s\" has version %s, but the server has loaded the library of version %s",
				 OUTBOX_EXTENSION, get_database_name(MyDatabaseId), version,
				 OUTBOX_VERSION),
			 errdetail("Its messages are not published."),
			 errhint(
				 "Run ALTER EXTENSION %s UPDATE in the database; restart the server if a newer library is installed than loaded.",
				 OUTBOX_EXTENSION)));
		result = WORKER_EXIT_ERROR;
	}

	PopActiveSnapshot();
	CommitTransactionCommand();
	return result;
}

/* NULL when the database does not have the extension. */
static char *
ExtensionVersion(void)
{
	Relation rel = table_open(ExtensionRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple tuple;
	char *version = NULL;

	ScanKeyInit(&key, Anum_pg_extension_extname, BTEqualStrategyNumber,
				F_NAMEEQ, CStringGetDatum(OUTBOX_EXTENSION));
	scan = systable_beginscan(rel, ExtensionNameIndexId, true, NULL, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
	{
		bool isnull;
		Datum value = heap_getattr(tuple, Anum_pg_extension_extversion,
								   RelationGetDescr(rel), &isnull);

		version = TextDatumGetCString(value);
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return version;
}
