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
#include "lane_table.h"
#include "launcher.h"
#include "log.h"
#include "maintenance.h"
#include "ranges.h"
#include "relay.h"
#include "settings.h"
#include "transaction.h"
#include "trouble.h"

/* A refused lock of a leaf, or an error, delays the next try by so long. */
#define BUSY_DELAY_MS 10
#define ERROR_DELAY_MS 1000

/* Without a record for so long, nothing more is handed over. */
#define RECORD_PATIENCE_MS 1000

/* How long an orderly end waits for the broker. */
#define STOP_TIMEOUT_MS 2000

/* The longest sleep: so long may a signal stay unseen. */
#define SLEEP_MAX_MS 1000

#define READ_MAX_MS 100

static void step(void);
static void work(void);
static void reload(void);
static void look_around(void);
static void look_at_instance(const Instance *instance);
static void start_fresh(void);
static uint32 owned_lanes(void);
static void share_lanes(void);
static void take_lanes(uint32 wanted);
static void release_lanes(uint32 unwanted);
static void take_wakeups(void);
static void read_lanes(void);
static bool any_ready(void);
static bool record_due(void);
static void record_progress(void);
static void note_changes(void);
static void describe_lanes(void);
static void maintain(void);
static void sleep_until_due(void);
static void stop(void);

static int my_slot;
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
static TimestampTz look_at;
static TimestampTz read_at;
static TimestampTz recorded_at;
static TimestampTz record_failing_since;
static TimestampTz maintain_at;
static TimestampTz describe_at;
static uint32 undescribed; /* lanes whose row in outbox.lane is out of date */
static bool record_wanted;
static int described_attempts[OUTBOX_LANES];
static bool trouble_described; /* outbox.lane tells of a troubled client */

WorkerExit
RelayMain(int slot, DatabaseEntry *entry, int number)
{
	my_slot = slot;
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

/* Everything that needs the database. */
static void
work(void)
{
	if (now >= look_at || !running)
		look_around();
	if (exit_reason != WORKER_EXIT_NONE)
		return;
	share_lanes();
	take_wakeups();
	if (running && now >= read_at)
		read_lanes();
	if (record_due())
		record_progress();
	note_changes();
	if (undescribed != 0 && now >= describe_at)
		describe_lanes();
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

/* Takes and gives lanes so that each worker has its share. */
static void
share_lanes(void)
{
	uint32 owned = owned_lanes();
	uint32 wanted = running ? ShmemWantedLanes(my_slot) : 0;

	for (int i = 0; i < OUTBOX_LANES; i++)
	{
		if (wanted & (1U << i))
			lanes[i].releasing = false;
	}
	if ((owned & ~wanted) != 0)
		release_lanes(owned & ~wanted);
	if ((wanted & ~owned) != 0)
		take_lanes(wanted & ~owned);
}

static void
take_lanes(uint32 wanted)
{
	LaneProgress loaded[OUTBOX_LANES];
	uint32 taken = ShmemTakeLanes(my_slot, wanted);

	if (taken == 0)
		return;
	PG_TRY();
	{
		LedgerLoad(taken, loaded, loop_context);
	}
	PG_CATCH();
	{
		ShmemReleaseLanes(my_slot, taken);
		PG_RE_THROW();
	}
	PG_END_TRY();

	for (int i = 0; i < OUTBOX_LANES; i++)
	{
		Lane *lane = &lanes[i];

		if (!(taken & (1U << i)))
			continue;
		lane->progress = loaded[i];
		lane->progress.then = ProgressCopy(loaded[i].then, lane->context);
		if (loaded[i].target != NULL)
			lane->progress.target =
				ProgressCopy(loaded[i].target, lane->context);
		LaneTake(lane);
	}
	undescribed |= taken;
}

/* A lane goes only when nothing of it is in flight and its record is written. */
static void
release_lanes(uint32 unwanted)
{
	uint32 released = 0;

	for (int i = 0; i < OUTBOX_LANES; i++)
	{
		Lane *lane = &lanes[i];

		if (!(unwanted & (1U << i)))
			continue;
		lane->releasing = true;
		if (lane->in_flight > 0)
			continue;
		if (lane->dirty)
			record_progress();
		LaneDrop(lane);
		released |= 1U << i;
	}
	if (released == 0)
		return;
	undescribed |= released;
	describe_lanes();
	ShmemReleaseLanes(my_slot, released);
	ShmemWakeWorkers(MyDatabaseId);
}

static uint32
owned_lanes(void)
{
	uint32 owned = 0;

	for (int i = 0; i < OUTBOX_LANES; i++)
		owned |= lanes[i].owned ? 1U << i : 0;
	return owned;
}

/* Before the snapshot: a bit that is set later belongs to a later commit. */
static void
take_wakeups(void)
{
	uint32 owned = owned_lanes();
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
		record_wanted = true;
}

static bool
any_ready(void)
{
	if (record_failing_since != 0 &&
		TimestampDifferenceExceeds(record_failing_since, now,
								   RECORD_PATIENCE_MS))
		return false;
	for (int i = 0; i < OUTBOX_LANES; i++)
	{
		if (LaneIsReady(&lanes[i], now))
			return true;
	}
	return false;
}

static void
read_lanes(void)
{
	static int first = 0;
	LaneSender *sender = DeliverySender(source);
	LogReadResult result;

	if (sender == NULL || !any_ready())
		return;

	TransactionBeginBare("reading the log");
	result = LogReadBegin();
	if (result == LOG_READ_OK)
	{
		for (int i = 0; i < OUTBOX_LANES && !sender->queue_full; i++)
		{
			Lane *lane = &lanes[(first + i) % OUTBOX_LANES];

			if (!LaneIsReady(lane, now))
				continue;
			LaneRead(lane, sender);
			if (TimestampDifferenceExceeds(now, GetCurrentTimestamp(),
										   READ_MAX_MS))
				break;
		}
		first = (first + 1) % OUTBOX_LANES;
		LogReadEnd();
	}
	TransactionCommitBare();

	if (result == LOG_READ_BUSY || sender->queue_full)
		read_at = TimestampTzPlusMilliseconds(now, BUSY_DELAY_MS);
	else if (result == LOG_READ_GONE)
		look_at = 0;
	DeliveryPush(sender);
}

static bool
record_due(void)
{
	bool dirty = false;

	for (int i = 0; i < OUTBOX_LANES; i++)
		dirty |= lanes[i].owned && lanes[i].dirty;
	if (!dirty)
	{
		record_wanted = false;
		return false;
	}
	return record_wanted || TimestampDifferenceExceeds(
								recorded_at, now, outbox_progress_interval);
}

static void
record_progress(void)
{
	static int64 messages = 0;
	static int64 bytes = 0;
	LedgerRecord record = {0};
	int64 more_messages;
	int64 more_bytes;

	/* Kept until a record is written, should this one fail. */
	LaneTakeCounts(&more_messages, &more_bytes);
	messages += more_messages;
	bytes += more_bytes;

	for (int i = 0; i < OUTBOX_LANES; i++)
	{
		if (lanes[i].owned && lanes[i].dirty)
			record.lanes[record.nlanes++] = lanes[i].progress;
	}
	record.messages = messages;
	record.bytes = bytes;
	record.ranges = RangesList(&record.nranges);

	if (record_failing_since == 0)
		record_failing_since = now;
	recorded_at = now;
	LedgerWrite(&record);
	record_failing_since = 0;
	record_wanted = false;

	for (int i = 0; i < record.nlanes; i++)
		lanes[record.lanes[i].lane].dirty = false;
	RangesReset();
	pg_atomic_fetch_add_u64(&db->counters.batches, 1);
	pg_atomic_fetch_add_u64(&db->counters.published, messages);
	pg_atomic_fetch_add_u64(&db->counters.published_bytes, bytes);
	if (messages > 0)
		pg_atomic_write_u64(&db->counters.last_published, now);
	messages = bytes = 0;
}

/* Which rows of outbox.lane do not tell the truth any more? */
static void
note_changes(void)
{
	if (DeliveryTroubled() != trouble_described)
	{
		trouble_described = DeliveryTroubled();
		undescribed |= owned_lanes();
	}
	for (int i = 0; i < OUTBOX_LANES; i++)
	{
		if (lanes[i].attempts != described_attempts[i])
			undescribed |= 1U << i;
		described_attempts[i] = lanes[i].attempts;
	}
}

static void
describe_lanes(void)
{
	LaneNotice notices[OUTBOX_LANES];
	int n = 0;
	uint32 described = undescribed;

	for (int i = 0; i < OUTBOX_LANES; i++)
	{
		if (!(described & (1U << i)))
			continue;
		notices[n].lane = i;
		notices[n].owned = lanes[i].owned;
		notices[n].failing = lanes[i].attempts > 0 || trouble_described;
		notices[n].attempts = lanes[i].attempts;
		notices[n].next_attempt_at = lanes[i].retry_at;
		notices[n].last_error = notices[n].failing ? TroubleLast() : NULL;
		n++;
	}
	describe_at = TimestampTzPlusMilliseconds(now, ERROR_DELAY_MS);
	LaneTableWrite(notices, n);
	undescribed &= ~described;
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
	if (my_number == 0)
		MaintenanceRun();
}

static void
sleep_until_due(void)
{
	static WaitEventSet *set = NULL;
	WaitEvent event;
	TimestampTz due = Min(look_at, DeliveryDue());
	bool fd_changed;
	int fd = DeliveryFd(&fd_changed);
	bool sending = DeliverySender(source) != NULL;
	long timeout;

	for (int i = 0; i < OUTBOX_LANES; i++)
	{
		Lane *lane = &lanes[i];

		if (!lane->owned)
			continue;
		if (lane->dirty)
			due = Min(due, record_wanted
							   ? 0
							   : TimestampTzPlusMilliseconds(
									 recorded_at, outbox_progress_interval));
		if (running && sending && lane->in_flight == 0 &&
			(lane->wanted || lane->progress.target != NULL))
			due = Min(due, Max(lane->retry_at, read_at));
	}
	if (undescribed != 0)
		due = Min(due, describe_at);

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
			for (int i = 0; i < OUTBOX_LANES; i++)
				record_wanted |= lanes[i].dirty;
			if (exit_reason != WORKER_EXIT_NO_EXTENSION && record_due())
				record_progress();
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
