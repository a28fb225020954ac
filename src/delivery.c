/*
 * delivery.c
 *		The worker's producer.
 */
#include "postgres.h"

#include "common/pg_prng.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "backoff.h"
#include "delivery.h"
#include "guc.h"
#include "kafka_config.h"
#include "trouble.h"

/*
 * Longest wait, before jitter, until another producer is tried: short, since
 * after an outage all messages wait for it.
 */
#define PRODUCER_RETRY_CAP_MS 10000

/* How long a producer that is at its end may take over what is in flight. */
#define DRAIN_TIMEOUT_MS 2000

/* Events served before the caller gets on with its other work. */
#define EVENTS_AT_ONCE 20000

/* Topics whose refusals the log tells apart. */
#define TOPICS_TOLD 8

static void compare_config(void);
static void check_silence(TimestampTz now);
static void serve_events(void);
static bool serve_report(const ProducerEvent *event);
static void tell_refusal(const ProducerEvent *event);
static void retire(void);
static void replace(void);
static void create(void);
static void settle_lanes(TimestampTz now);
static void destroy_at_exit(int code, Datum arg);
static KafkaConfig *load_config(void);
static bool same_config(const KafkaConfig *a, const KafkaConfig *b);

static DatabaseEntry *database;
static Lane *lanes;

static Producer *producer = NULL;
static uint16 generation = 0;
static bool fd_changed = false;
static KafkaConfig *config = NULL;
static MemoryContext config_context = NULL;
static bool config_stale = true;

static bool retiring = false; /* takes no more messages */
static TimestampTz retire_by; /* then whatever is in flight is given up */
static int attempts = 0;	  /* producers made without a delivery */
static TimestampTz create_at = 0;
static bool producer_wanted = false;
static TimestampTz silent_since = 0; /* 0: nothing outstanding */
static int culprits = 0;			 /* lanes blamed for the retirement */

static bool troubled = false; /* an error since the last delivery */
static bool refused = false;  /* no producer could be made */

static LaneSender sender;

void
DeliveryInit(DatabaseEntry *db, Lane *worker_lanes)
{
	database = db;
	lanes = worker_lanes;
	config_context = AllocSetContextCreate(
		TopMemoryContext, "outbox Kafka configuration", ALLOCSET_SMALL_SIZES);
	sender.scratch = AllocSetContextCreate(TopMemoryContext, "outbox record",
										   ALLOCSET_DEFAULT_SIZES);
	before_shmem_exit(destroy_at_exit, (Datum) 0);
}

/* The lanes are free for others only after their producer is gone. */
static void
destroy_at_exit(int code, Datum arg)
{
	if (producer != NULL)
		ProducerDestroy(producer);
	producer = NULL;
}

void
DeliveryReconfigure(void)
{
	config_stale = true;
	create_at = 0;

	/* Whoever reloads the configuration waits for an answer. */
	TroubleForget(TROUBLE_CONFIGURATION);
	TroubleForget(TROUBLE_PRODUCER);
}

void
DeliveryServe(bool wanted)
{
	TimestampTz now;

	producer_wanted = wanted;
	if (producer != NULL)
		serve_events();
	now = GetCurrentTimestamp();
	if (producer != NULL && silent_since == 0 &&
		ProducerOutstanding(producer) > 0)
		silent_since = now;

	if (producer != NULL && !retiring)
	{
		if (ProducerFatal(producer))
			retire();
		else if (config_stale)
			compare_config();
		else
			check_silence(now);
	}
	if (retiring && (ProducerOutstanding(producer) == 0 || now >= retire_by))
		replace();
	settle_lanes(now);
	if (producer == NULL && wanted && now >= create_at)
		create();
}

/* A configuration that is refused leaves the producer as it is. */
static void
compare_config(void)
{
	KafkaConfig *fresh = load_config();

	config_stale = false;
	ShmemSetConfigError(database, fresh == NULL ? TroubleLast() : NULL, false);
	if (fresh == NULL)
		return;
	if (!same_config(fresh, config))
	{
		ereport(
			LOG,
			(errmsg(
				"outbox: the Kafka configuration has changed, making a new producer")));
		retire();
	}
	KafkaConfigFree(fresh);
}

static void
check_silence(TimestampTz now)
{
	if (silent_since == 0 || !TimestampDifferenceExceeds(
								 silent_since, now, outbox_delivery_timeout))
		return;
	TroubleReport(
		TROUBLE_NO_ANSWER,
		"no message was acknowledged within outbox.delivery_timeout, making a new producer",
		NULL);
	attempts++;
	retire();
}

static void
serve_events(void)
{
	ProducerEvent event;
	bool answered = false;
	int n = 0;

	ProducerDrainFd(producer);
	while (n++ < EVENTS_AT_ONCE && ProducerPoll(producer, &event))
	{
		switch (event.kind)
		{
			case PRODUCER_DELIVERED:
			case PRODUCER_UNDELIVERED:
				answered |= serve_report(&event);
				break;
			case PRODUCER_ERROR:
				/* The gap that our own purge leaves is not the reason. */
				if (!retiring || !ProducerWasPurged(event.code))
					TroubleReport(event.code, ProducerErrorName(event.code),
								  event.text);

				/* A refused message is trouble of its own lane alone. */
				if (!ProducerWasPurged(event.code))
					troubled = true;
				if (event.fatal && !retiring)
				{
					attempts++;
					retire();
				}
				break;
			case PRODUCER_LOG:
				TroubleClientLog(event.level, event.text);
				break;
			case PRODUCER_NONE:
				break;
		}
	}
	if (answered)
		silent_since =
			ProducerOutstanding(producer) > 0 ? GetCurrentTimestamp() : 0;
	if (n > EVENTS_AT_ONCE)
		SetLatch(MyLatch);
}

/* True for a message that was acknowledged. */
static bool
serve_report(const ProducerEvent *event)
{
	Lane *lane = &lanes[(event->opaque >> 32) & 0xffff];
	int index = (int) (event->opaque & 0xffffffff);

	/* A report of a producer that was given up. */
	if ((uint16) (event->opaque >> 48) != generation)
		return false;

	if (event->kind == PRODUCER_DELIVERED)
	{
		LaneAcknowledge(lane, index, event, producer);
		if (lane->blamed_code == 0)
			lane->attempts = 0;
		attempts = 0;
		troubled = false;
		return true;
	}

	LaneFail(lane, index, event);
	pg_atomic_fetch_add_u64(&database->counters.failed, 1);
	pg_atomic_write_u64(&database->counters.last_failed,
						GetCurrentTimestamp());
	if (!ProducerWasPurged(event->code))
	{
		if (lane->blamed_code == 0)
			culprits++;
		lane->blamed_code = event->code;
		lane->blame_told = true;
		tell_refusal(event);
	}
	if (!retiring)
		retire();
	return false;
}

/* A few topics may each have their say within the log's interval. */
static void
tell_refusal(const ProducerEvent *event)
{
	int kind = event->code + 10000 * (1 + event->topic % TOPICS_TOLD);
	char text[256];

	snprintf(text, sizeof(text), "%s (topic \"%s\")",
			 ProducerErrorText(event->code),
			 ProducerTopicName(producer, event->topic));
	TroubleReport(kind, ProducerErrorName(event->code), text);
}

/* What is queued comes back at once; what is in flight may still succeed. */
static void
retire(void)
{
	retiring = true;
	retire_by =
		TimestampTzPlusMilliseconds(GetCurrentTimestamp(), DRAIN_TIMEOUT_MS);
	ProducerPurge(producer, false);
}

static void
replace(void)
{
	for (int i = 0; i < OUTBOX_LANES; i++)
		LaneReset(&lanes[i], producer);
	ProducerDestroy(producer);
	producer = NULL;
	fd_changed = true;
	retiring = false;
	generation++;
	silent_since = 0;

	/* Lanes with a culprit wait on their own; the others need not. */
	create_at = 0;
	if (attempts > 0 && culprits == 0)
		create_at = TimestampTzPlusMilliseconds(
			GetCurrentTimestamp(),
			BackoffDelay(attempts, outbox_retry_base,
						 Min(outbox_retry_cap, PRODUCER_RETRY_CAP_MS),
						 pg_prng_double(&pg_global_prng_state)));
	culprits = 0;
}

/* A lane whose message failed tries again later, whatever the code. */
static void
settle_lanes(TimestampTz now)
{
	for (int i = 0; i < OUTBOX_LANES; i++)
	{
		Lane *lane = &lanes[i];

		if (lane->blamed_code == 0 || lane->in_flight > 0 || retiring)
			continue;
		lane->attempts++;
		lane->retry_at = TimestampTzPlusMilliseconds(
			now,
			BackoffDelay(lane->attempts, outbox_retry_base, outbox_retry_cap,
						 pg_prng_double(&pg_global_prng_state)));
		if (!lane->blame_told)
			TroubleReport(lane->blamed_code,
						  ProducerErrorName(lane->blamed_code),
						  ProducerErrorText(lane->blamed_code));
		lane->blame_told = false;
		lane->blamed_code = 0;
		if (producer != NULL)
			LaneReset(lane, producer);
	}
}

static KafkaConfig *
load_config(void)
{
	MemoryContext caller = MemoryContextSwitchTo(config_context);
	char *detail = NULL;
	char errbuf[PRODUCER_ERRLEN] = "";
	KafkaConfig *fresh = KafkaConfigLoad(&detail);

	/* Before the producer that works is given up for it. */
	if (fresh != NULL && !ProducerOptionsValid(fresh->options, fresh->noptions,
											   errbuf, sizeof(errbuf)))
	{
		KafkaConfigFree(fresh);
		fresh = NULL;
		detail = errbuf;
	}
	if (fresh == NULL)
		TroubleReport(TROUBLE_CONFIGURATION,
					  "the Kafka configuration is refused", detail);
	MemoryContextSwitchTo(caller);
	return fresh;
}

static bool
same_config(const KafkaConfig *a, const KafkaConfig *b)
{
	if (a->noptions != b->noptions)
		return false;
	for (int i = 0; i < a->noptions; i++)
	{
		if (strcmp(a->options[i].name, b->options[i].name) != 0 ||
			strcmp(a->options[i].value, b->options[i].value) != 0)
			return false;
	}
	return true;
}

static void
create(void)
{
	char errbuf[PRODUCER_ERRLEN] = "";

	if (config != NULL)
		KafkaConfigFree(config);
	config_stale = false;
	config = load_config();
	if (config != NULL)
	{
		producer = ProducerCreate(config->options, config->noptions, errbuf,
								  sizeof(errbuf));
		if (producer == NULL)
			TroubleReport(TROUBLE_PRODUCER, "could not make a Kafka producer",
						  errbuf);
	}
	refused = producer == NULL;
	ShmemSetConfigError(database, refused ? TroubleLast() : NULL, refused);
	if (refused)
	{
		attempts++;
		create_at = TimestampTzPlusMilliseconds(
			GetCurrentTimestamp(),
			BackoffDelay(attempts, outbox_retry_base,
						 Min(outbox_retry_cap, PRODUCER_RETRY_CAP_MS),
						 pg_prng_double(&pg_global_prng_state)));
		return;
	}
	fd_changed = true;
	pg_atomic_fetch_add_u64(&database->counters.producers, 1);
}

LaneSender *
DeliverySender(const char *source)
{
	if (producer == NULL || retiring)
		return NULL;
	sender.producer = producer;
	sender.generation = generation;
	sender.source = source;
	sender.max_rows = outbox_batch_size;
	sender.max_bytes = outbox_batch_bytes;
	sender.sent = 0;
	sender.queue_full = false;
	sender.topic = -1;
	return &sender;
}

void
DeliveryPush(LaneSender *s)
{
	if (s->sent == 0)
		return;
	ProducerPush(producer);
}

int
DeliveryFd(bool *changed)
{
	*changed = fd_changed;
	fd_changed = false;
	return producer == NULL ? -1 : ProducerFd(producer);
}

TimestampTz
DeliveryDue(void)
{
	TimestampTz due = DT_NOEND;

	if (producer == NULL)
		return producer_wanted ? create_at : DT_NOEND;
	if (config_stale)
		return 0;
	if (retiring)
		return retire_by;
	if (silent_since != 0 && outbox_delivery_timeout > 0)
		due =
			TimestampTzPlusMilliseconds(silent_since, outbox_delivery_timeout);
	return due;
}

void
DeliveryStop(int timeout_ms)
{
	TimestampTz give_up =
		TimestampTzPlusMilliseconds(GetCurrentTimestamp(), timeout_ms);

	if (producer == NULL)
		return;
	for (;;)
	{
		TimestampTz now;
		long wait;

		serve_events();
		now = GetCurrentTimestamp();
		wait = TimestampDifferenceMilliseconds(now, give_up);
		if (ProducerOutstanding(producer) == 0 || wait <= 0)
			break;

		/*
		 * A purge leaves gaps, and what is acknowledged behind a gap goes
		 * again: only where the broker is slow or silent.
		 */
		if (!retiring &&
			(wait <= timeout_ms / 2 ||
			 TimestampDifferenceExceeds(silent_since, now, timeout_ms / 2)))
		{
			ereport(LOG,
					(errmsg_plural(
						 "outbox: %d message is not acknowledged at the end",
						 "outbox: %d messages are not acknowledged at the end",
						 ProducerOutstanding(producer),
						 ProducerOutstanding(producer)),
					 errdetail("Some may be sent twice.")));
			retire();
		}
		CHECK_FOR_INTERRUPTS();
		(void) WaitLatchOrSocket(MyLatch,
								 WL_LATCH_SET | WL_TIMEOUT |
									 WL_EXIT_ON_PM_DEATH | WL_SOCKET_READABLE,
								 ProducerFd(producer), Min(wait, 100),
								 PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
	}
	replace();
}

bool
DeliveryTroubled(void)
{
	return troubled || refused;
}
