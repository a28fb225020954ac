/*
 * relay.c
 *		The loop of a worker: log, producer, ledger put together.
 *
 * For each owned lane: a short read transaction, records to the producer, no
 * transaction while the broker answers, progress in memory, and written
 * behind.  SIGTERM only sets a flag, which is looked at between transactions.
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "catalog.h"
#include "delivery.h"
#include "guc.h"
#include "instance.h"
#include "lane.h"
#include "launcher.h"
#include "log.h"
#include "maintenance.h"
#include "ownership.h"
#include "ranges.h"
#include "relay.h"
#include "settings.h"
#include "transaction.h"
#include "trouble.h"
#include "writeback.h"

/* A refused lock of a leaf, or an error, delays the next try by so long. */
#define BUSY_DELAY_MS 10
#define ERROR_DELAY_MS 1000

/* How long an orderly end waits for the broker. */
#define STOP_TIMEOUT_MS 2000

/* The longest sleep: so long may a signal stay unseen. */
#define SLEEP_MAX_MS 1000

#define READ_MAX_MS 100

/* Maintenance that met a lock is tried again so soon. */
#define MAINTENANCE_RETRY_MS 10000

/* So many batches may a lane be ahead of another in a large walk. */
#define LEAD_BATCHES 1

static void step(void);
static void work(void);
static void reload(void);
static void look_around(void);
static void look_at_instance(const Instance *instance);
static void start_fresh(void);
static void take_wakeups(void);
static void read_lanes(void);
static bool is_ready(const Lane *lane);
static void keep_up(void);
static bool any_ready(void);
static void maintain(void);
static void sleep_until_due(void);
static void stop(void);

static int my_number;
static DatabaseEntry *db;
static Lane lanes[OUTBOX_LANES];
static MemoryContext loop_context;
static TimestampTz now; /* at the start of the step */

static WorkerExit exit_reason; /* set: the loop ends */
static bool running;		   /* started, enabled, configured */
static char *source;		   /* ce_source */
static uint64 settings_seen;   /* fingerprint of ALTER DATABASE SET */

static TimestampTz resume_at; /* after an error */
static bool failed;			  /* no work since was without an error */
static TimestampTz look_at;
static TimestampTz read_at;
static TimestampTz maintain_at;

WorkerExit
RelayMain(int slot, DatabaseEntry *entry, int number)
{
	my_number = number;
	db = entry;
	loop_context = AllocSetContextCreate(TopMemoryContext, "outbox relay",
										 ALLOCSET_DEFAULT_SIZES);
	for (int i = 0; i < OUTBOX_LANES; i++)
		LaneInit(&lanes[i], i);
	LogInit();
	RangesInit();
	TroubleInit(db);
	DeliveryInit(db, lanes);
	WritebackInit(db, lanes);
	OwnershipInit(slot, lanes);

	while (!OutboxShutdownRequested && exit_reason == WORKER_EXIT_NONE)
	{
		MemoryContextReset(loop_context);
		MemoryContextSwitchTo(loop_context);
		PG_TRY();
		{
			step();
		}
		PG_CATCH();
		{
			MemoryContextSwitchTo(loop_context);
			TransactionAbort();
			LogReadAbort();
			resume_at = TimestampTzPlusMilliseconds(GetCurrentTimestamp(),
													ERROR_DELAY_MS);
			failed = true;
		}
		PG_END_TRY();
	}
	stop();
	return exit_reason;
}

static void
step(void)
{
	now = GetCurrentTimestamp();
	CHECK_FOR_INTERRUPTS();
	if (ConfigReloadPending)
		reload();

	DeliveryServe(running);
	if (now >= resume_at)
		work();
	if (!OutboxShutdownRequested && exit_reason == WORKER_EXIT_NONE)
		sleep_until_due();
}

/* Everything that needs the database; reading first, unless it may fail. */
static void
work(void)
{
	if (now >= look_at || !running)
		look_around();
	if (exit_reason != WORKER_EXIT_NONE)
		return;
	OwnershipShare(running, now);
	take_wakeups();
	if (failed)
		keep_up();
	if (running && now >= read_at)
		read_lanes();
	keep_up();
	OwnershipDescribe(now);
	failed = false;
}

/* What has to be done also while no message can be read. */
static void
keep_up(void)
{
	if (WritebackDue() <= now)
		WritebackRun(now);
	if (running && now >= maintain_at)
		maintain();
}

static void
reload(void)
{
	ConfigReloadPending = false;
	ProcessConfigFile(PGC_SIGHUP);
	DeliveryReconfigure();
	look_at = 0;
}

/*
 * Is the extension there, may this database speak, have its settings changed?
 * Also a poll: what no wake-up told of is found after it.
 */
static void
look_around(void)
{
	const OutboxCatalog *catalog;
	uint64 settings;

	look_at = TimestampTzPlusMilliseconds(now, outbox_poll_interval);
	for (int i = 0; i < OUTBOX_LANES; i++)
		lanes[i].wanted = true;

	TransactionBeginBare("looking around");
	catalog = CatalogGet(true);
	if (catalog == NULL)
		exit_reason = WORKER_EXIT_NO_EXTENSION;
	else if (ConditionalLockRelationOid(catalog->message, AccessShareLock))
	{
		if (InstanceGet()->fresh && my_number == 0 && outbox_enabled)
		{
			TransactionCommitBare();
			start_fresh();
			TransactionBeginBare("looking around");
		}
		look_at_instance(InstanceGet());
	}

	/* New sessions see ALTER DATABASE SET, so become one. */
	settings = SettingsFingerprint();
	if (settings_seen != 0 && settings != settings_seen &&
		exit_reason == WORKER_EXIT_NONE)
		exit_reason = WORKER_EXIT_RESTART;
	settings_seen = settings;
	TransactionCommitBare();

	if (my_number >= outbox_workers_per_database &&
		exit_reason == WORKER_EXIT_NONE)
		exit_reason = WORKER_EXIT_SURPLUS;
	if (my_number == 0 && db->workers_wanted != outbox_workers_per_database)
	{
		LWLockAcquire(Outbox->lock, LW_EXCLUSIVE);
		db->workers_wanted = outbox_workers_per_database;
		LWLockRelease(Outbox->lock);
		ShmemWakeLauncher();
	}
}

static void
look_at_instance(const Instance *instance)
{
	running = instance->started && outbox_enabled &&
			  InstanceIdentityMatches(instance) &&
			  outbox_kafka_bootstrap_servers[0] != '\0';
	if (source != NULL && strcmp(source, instance->source) == 0)
		return;
	if (source != NULL)
		pfree(source);
	source = MemoryContextStrdup(TopMemoryContext, instance->source);
}

static void
start_fresh(void)
{
	TransactionBegin("starting");
	if (SPI_execute("SELECT FROM outbox.start_request LIMIT 1", true, 1) ==
			SPI_OK_SELECT &&
		SPI_processed > 0)
	{
		if (SPI_execute("SELECT outbox.start_fresh()", false, 1) !=
			SPI_OK_SELECT)
			elog(ERROR, "could not start");
		maintain_at = 0;
	}
	TransactionCommit();
}

/* Before the snapshot: a bit that is set later belongs to a later commit. */
static void
take_wakeups(void)
{
	uint32 owned = OwnershipLanes();
	uint32 dirty;

	if (owned == 0)
		return;
	dirty = pg_atomic_fetch_and_u32(&db->dirty, ~owned) & owned;
	for (int i = 0; i < OUTBOX_LANES; i++)
	{
		if (dirty & (1U << i))
			lanes[i].wanted = true;
	}
	if (pg_atomic_fetch_and_u32(&db->record_wanted, ~owned) & owned)
		WritebackHurry();
}

static bool
any_ready(void)
{
	if (WritebackIsStuck(now))
		return false;
	for (int i = 0; i < OUTBOX_LANES; i++)
	{
		if (is_ready(&lanes[i]))
			return true;
	}
	return false;
}

/*
 * A lane's rows lie all over the heap: lanes that walk far apart would each
 * read all of it. So none runs far ahead of the last.
 */
static bool
is_too_far(const Lane *lane)
{
	int64 position = LaneWalkPosition(lane, now);
	int64 last = PG_INT64_MAX;

	if (position == PG_INT64_MAX)
		return false;
	for (int i = 0; i < OUTBOX_LANES; i++)
		last = Min(last, LaneWalkPosition(&lanes[i], now));
	return position - last >
		   LEAD_BATCHES * OUTBOX_LANES * (int64) outbox_batch_size;
}

static bool
is_ready(const Lane *lane)
{
	return LaneIsReady(lane, now) && !is_too_far(lane);
}

/*
 * Of the lanes that may be read now: one that is too far ahead may be so no
 * more when the last has been read.
 */
static uint64
oldest_progress(void)
{
	uint64 oldest = PG_UINT64_MAX;

	for (int i = 0; i < OUTBOX_LANES; i++)
	{
		if (LaneIsReady(&lanes[i], now))
			oldest = Min(oldest, lanes[i].progress.then->xmin);
	}
	return oldest;
}

static void
read_lanes(void)
{
	static int next = 0;
	LaneSender *sender = DeliverySender(source);
	LogReadResult result;
	int first = next;

	if (sender == NULL || !any_ready())
		return;

	/* Also if this read fails: the others must not stand with that lane. */
	next = (next + 1) % OUTBOX_LANES;

	TransactionBeginBare("reading the log");
	result = LogReadBegin(oldest_progress());
	if (result == LOG_READ_OK)
	{
		/* Under the locks: the database may have begun another life. */
		look_at_instance(InstanceGet());
		sender->source = source;
		for (int i = 0; i < OUTBOX_LANES && running && !sender->queue_full;
			 i++)
		{
			Lane *lane = &lanes[(first + i) % OUTBOX_LANES];

			if (!is_ready(lane))
				continue;
			LaneRead(lane, sender);
			if (TimestampDifferenceExceeds(now, GetCurrentTimestamp(),
										   READ_MAX_MS))
				break;
		}
		LogReadEnd();
	}
	TransactionCommitBare();

	if (result == LOG_READ_BUSY || sender->queue_full)
		read_at = TimestampTzPlusMilliseconds(now, BUSY_DELAY_MS);
	else if (result == LOG_READ_GONE)
		look_at = 0;
	DeliveryPush(sender);
}

/*
 * Partitions; also the progress of idle lanes, without which their old
 * snapshots would keep leaves back.
 */
static void
maintain(void)
{
	maintain_at = TimestampTzPlusMilliseconds(
		now, outbox_maintenance_interval * INT64CONST(1000));
	LogWantHorizon();
	for (int i = 0; i < OUTBOX_LANES; i++)
		lanes[i].dirty |= lanes[i].owned;
	if (my_number == 0 && !MaintenanceRun())
		maintain_at = TimestampTzPlusMilliseconds(now, MAINTENANCE_RETRY_MS);
}

static void
sleep_until_due(void)
{
	static WaitEventSet *set = NULL;
	WaitEvent event;
	TimestampTz due = Min(look_at, DeliveryDue());
	bool fd_changed;
	int fd = DeliveryFd(&fd_changed);
	long timeout;

	due = Min(due, Min(WritebackDue(), OwnershipDescribeDue()));
	if (running && DeliverySender(source) != NULL)
	{
		for (int i = 0; i < OUTBOX_LANES; i++)
		{
			if (LaneIsReady(&lanes[i], lanes[i].retry_at) &&
				!is_too_far(&lanes[i]))
				due = Min(due, Max(lanes[i].retry_at, read_at));
		}
	}

	if (set == NULL || fd_changed)
	{
		if (set != NULL)
			FreeWaitEventSet(set);
		set = CompatCreateWaitEventSet(3);
		AddWaitEventToSet(set, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
		AddWaitEventToSet(set, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, NULL,
						  NULL);
		if (fd >= 0)
			AddWaitEventToSet(set, WL_SOCKET_READABLE, fd, NULL, NULL);
	}
	if (resume_at > now)
		due = Max(due, Min(resume_at, DeliveryDue()));
	timeout =
		due == DT_NOEND
			? SLEEP_MAX_MS
			: Min(TimestampDifferenceMilliseconds(GetCurrentTimestamp(), due),
				  SLEEP_MAX_MS);
	if (WaitEventSetWait(set, timeout, &event, 1, PG_WAIT_EXTENSION) > 0 &&
		(event.events & WL_LATCH_SET))
		ResetLatch(MyLatch);
}

/*
 * What the broker acknowledges within the time is recorded, so that an orderly
 * end gives no duplicate.
 */
static void
stop(void)
{
	volatile bool stopped = false;

	for (volatile int tries = 0; tries < 3 && !stopped; tries++)
	{
		PG_TRY();
		{
			DeliveryStop(STOP_TIMEOUT_MS);
			now = GetCurrentTimestamp();
			if (exit_reason != WORKER_EXIT_NO_EXTENSION)
				OwnershipShare(false, now);
			stopped = true;
		}
		PG_CATCH();
		{
			MemoryContextSwitchTo(loop_context);
			TransactionAbort();
		}
		PG_END_TRY();
	}
}
