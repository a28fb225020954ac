/*
 * producer.c
 *		A librdkafka producer in event mode, behind codes and plain memory.
 *
 * No callback of ours ever runs while PostgreSQL code is on the stack:
 * delivery reports, errors and log lines wait in the client's main queue
 * until ProducerPoll() fetches them, and a pipe tells when to look.  The
 * client's threads block every signal and touch nothing of PostgreSQL.
 *
 * Memory comes from malloc() alone, and nothing here raises.
 */
#include "postgres.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <librdkafka/rdkafka.h>

#include "name_table.h"
#include "producer.h"
#include "producer_conf.h"
#include "resolver.h"

/* How long lingering is switched off for; in event mode flushing sleeps. */
#define PUSH_MS 1

struct Producer
{
	rd_kafka_t *rk;
	rd_kafka_queue_t *queue;
	int pipe[2]; /* written by the client when the queue fills */
	bool lingers;
	bool fatal; /* stays set: nothing can be sent any more */
	int outstanding;
	Resolver resolver;

	NameTable topics; /* data: rd_kafka_topic_t * */

	/* Being read; texts handed out point into it. */
	rd_kafka_event_t *event;
	char fatal_text[PRODUCER_ERRLEN];
};

static void TuneMalloc(void);
static bool OpenQueue(Producer *producer);
static rd_kafka_headers_t *MakeHeaders(const ProducerRecord *record);
static bool NextReport(Producer *producer, ProducerEvent *event);
static void FillError(Producer *producer, ProducerEvent *event);

bool
ProducerOptionsValid(const ProducerOption *options, int noptions, char *errbuf,
					 size_t errlen)
{
	rd_kafka_conf_t *conf = ProducerConf(options, noptions, errbuf, errlen);

	if (conf == NULL)
		return false;
	rd_kafka_conf_destroy(conf);
	return true;
}

Producer *
ProducerCreate(const ProducerOption *options, int noptions, char *errbuf,
			   size_t errlen)
{
	Producer *producer;
	rd_kafka_conf_t *conf;

	TuneMalloc();
	conf = ProducerConf(options, noptions, errbuf, errlen);
	if (conf == NULL)
		return NULL;

	producer = calloc(1, sizeof(Producer));
	if (producer == NULL)
	{
		strlcpy(errbuf, "out of memory", errlen);
		rd_kafka_conf_destroy(conf);
		return NULL;
	}
	producer->pipe[0] = producer->pipe[1] = -1;
	producer->lingers = ProducerConfLingers(conf);
	rd_kafka_conf_set_opaque(conf, &producer->resolver);
	rd_kafka_conf_set_resolve_cb(conf, ResolverLookup);

	/* The client owns conf from here on, unless it refuses. */
	producer->rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, errbuf, errlen);
	if (producer->rk == NULL)
	{
		rd_kafka_conf_destroy(conf);
		free(producer);
		return NULL;
	}

	if (!OpenQueue(producer))
	{
		strlcpy(errbuf, strerror(errno), errlen);
		ProducerDestroy(producer);
		return NULL;
	}
	return producer;
}

/*
 * The client waits for its threads, and those may wait for brokers or name
 * servers that are silent: let them off first.
 */
void
ProducerDestroy(Producer *producer)
{
	if (producer == NULL)
		return;

	if (producer->queue != NULL)
		rd_kafka_queue_io_event_enable(producer->queue, -1, NULL, 0);
	ResolverStop(&producer->resolver);
	rd_kafka_event_destroy(producer->event);
	rd_kafka_purge(producer->rk, RD_KAFKA_PURGE_F_QUEUE |
									 RD_KAFKA_PURGE_F_INFLIGHT |
									 RD_KAFKA_PURGE_F_NON_BLOCKING);

	for (int i = 0; i < producer->topics.count; i++)
		rd_kafka_topic_destroy(NameTableData(&producer->topics, i));
	NameTableFree(&producer->topics);

	if (producer->queue != NULL)
		rd_kafka_queue_destroy(producer->queue);
	rd_kafka_destroy(producer->rk);

	for (int i = 0; i < 2; i++)
	{
		if (producer->pipe[i] >= 0)
			close(producer->pipe[i]);
	}
	free(producer);
}

int
ProducerTopic(Producer *producer, const char *name)
{
	int index = NameTableFind(&producer->topics, name);
	rd_kafka_topic_conf_t *conf;
	rd_kafka_topic_t *handle;

	if (index >= 0)
		return index;

	/* Delivery reports find the index in the topic's opaque. */
	index = producer->topics.count;
	conf = rd_kafka_default_topic_conf_dup(producer->rk);
	rd_kafka_topic_conf_set_opaque(conf, (void *) (intptr_t) index);
	handle = rd_kafka_topic_new(producer->rk, name, conf);
	if (handle == NULL)
		return -1;
	if (NameTableAdd(&producer->topics, name, handle) != index)
	{
		rd_kafka_topic_destroy(handle);
		return -1;
	}
	return index;
}

const char *
ProducerTopicName(Producer *producer, int topic)
{
	return NameTableName(&producer->topics, topic);
}

ProducerSendResult
ProducerSend(Producer *producer, const ProducerRecord *record, int *code)
{
	rd_kafka_headers_t *headers = NULL;
	rd_kafka_resp_err_t error;

	StaticAssertStmt(sizeof(void *) >= sizeof(uint64),
					 "a message's opaque must hold 64 bits");

	if (record->nheaders > 0)
		headers = MakeHeaders(record);
	error = rd_kafka_producev(
		producer->rk,
		RD_KAFKA_V_RKT(NameTableData(&producer->topics, record->topic)),
		RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
		RD_KAFKA_V_VALUE(unconstify(char *, record->value), record->value_len),
		RD_KAFKA_V_KEY(record->key, record->key_len),
		RD_KAFKA_V_TIMESTAMP(record->timestamp_ms),
		RD_KAFKA_V_OPAQUE((void *) (uintptr_t) record->opaque),
		RD_KAFKA_V_HEADERS(headers), RD_KAFKA_V_END);
	if (likely(error == RD_KAFKA_RESP_ERR_NO_ERROR))
	{
		producer->outstanding++;
		return PRODUCER_SENT;
	}

	/* Headers stay ours where the record was not taken. */
	if (headers != NULL)
		rd_kafka_headers_destroy(headers);
	if (error == RD_KAFKA_RESP_ERR__FATAL)
		producer->fatal = true;
	*code = error;
	return error == RD_KAFKA_RESP_ERR__QUEUE_FULL ? PRODUCER_QUEUE_FULL
												  : PRODUCER_REFUSED;
}

bool
ProducerPoll(Producer *producer, ProducerEvent *event)
{
	memset(event, 0, sizeof(*event));
	event->topic = event->partition = event->offset = -1;

	for (;;)
	{
		if (producer->event != NULL)
		{
			if (NextReport(producer, event))
				return true;
			rd_kafka_event_destroy(producer->event);
		}

		producer->event = rd_kafka_queue_poll(producer->queue, 0);
		if (producer->event == NULL)
			return false;

		switch (rd_kafka_event_type(producer->event))
		{
			case RD_KAFKA_EVENT_ERROR:
				FillError(producer, event);
				return true;
			case RD_KAFKA_EVENT_LOG:
				event->kind = PRODUCER_LOG;
				rd_kafka_event_log(producer->event, NULL, &event->text,
								   &event->level);
				return true;
			default:
				break;
		}
	}
}

int
ProducerFd(Producer *producer)
{
	return producer->pipe[0];
}

void
ProducerDrainFd(Producer *producer)
{
	char buf[256];
	ssize_t n;

	do
		n = read(producer->pipe[0], buf, sizeof(buf));
	while (n == sizeof(buf) || (n < 0 && errno == EINTR));
}

/*
 * In event mode rd_kafka_flush() serves nothing, and always sleeps as long as
 * it may: reports that are waiting count as messages.
 */
void
ProducerPush(Producer *producer)
{
	if (producer->lingers && producer->outstanding > 0)
		rd_kafka_flush(producer->rk, PUSH_MS);
}

void
ProducerPurge(Producer *producer, bool in_flight)
{
	rd_kafka_purge(producer->rk,
				   RD_KAFKA_PURGE_F_QUEUE |
					   (in_flight ? RD_KAFKA_PURGE_F_INFLIGHT : 0));
}

bool
ProducerFatal(Producer *producer)
{
	return producer->fatal;
}

int
ProducerOutstanding(Producer *producer)
{
	return producer->outstanding;
}

bool
ProducerWasPurged(int code)
{
	return code == RD_KAFKA_RESP_ERR__PURGE_QUEUE ||
		   code == RD_KAFKA_RESP_ERR__PURGE_INFLIGHT ||
		   code == RD_KAFKA_RESP_ERR__GAPLESS_GUARANTEE ||
		   code == RD_KAFKA_RESP_ERR__FATAL ||
		   code == RD_KAFKA_RESP_ERR__DESTROY;
}

const char *
ProducerErrorName(int code)
{
	return rd_kafka_err2name((rd_kafka_resp_err_t) code);
}

const char *
ProducerErrorText(int code)
{
	return rd_kafka_err2str((rd_kafka_resp_err_t) code);
}

const char *
ProducerVersion(void)
{
	return rd_kafka_version_str();
}

/*
 * The client allocates a message's headers one by one, and glibc's fast bins
 * take such a crowd badly: each time they are emptied all of it is merged and
 * cut up again.  Without them a message takes half the time.
 */
static void
TuneMalloc(void)
{
#if defined(__GLIBC__) && defined(M_MXFAST)
	(void) mallopt(M_MXFAST, 0);
#endif
}

/* False, with errno set, where descriptors have run out. */
static bool
OpenQueue(Producer *producer)
{
	if (pipe2(producer->pipe, O_NONBLOCK | O_CLOEXEC) != 0)
		return false;
	producer->queue = rd_kafka_queue_get_main(producer->rk);
	rd_kafka_set_log_queue(producer->rk, NULL);
	rd_kafka_queue_io_event_enable(producer->queue, producer->pipe[1], "1", 1);

	/* Only an empty queue that fills is told: look at it once anyway. */
	(void) !write(producer->pipe[1], "1", 1);
	return true;
}

static rd_kafka_headers_t *
MakeHeaders(const ProducerRecord *record)
{
	rd_kafka_headers_t *headers = rd_kafka_headers_new(record->nheaders);

	for (int i = 0; i < record->nheaders; i++)
	{
		const ProducerHeader *header = &record->headers[i];

		(void) rd_kafka_header_add(headers, header->name, header->name_len,
								   header->value, header->value_len);
	}
	return headers;
}

/* The next message of the event being read, if it is a delivery report. */
static bool
NextReport(Producer *producer, ProducerEvent *event)
{
	const rd_kafka_message_t *message;
	rd_kafka_msg_status_t status;

	message = rd_kafka_event_message_next(producer->event);
	if (message == NULL)
		return false;

	/* What was persisted is delivered, whatever else went wrong. */
	status = rd_kafka_message_status(message);
	if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR ||
		status == RD_KAFKA_MSG_STATUS_PERSISTED)
		event->kind = PRODUCER_DELIVERED;
	else
	{
		event->kind = PRODUCER_UNDELIVERED;
		event->code = message->err;
		event->possibly_persisted =
			status == RD_KAFKA_MSG_STATUS_POSSIBLY_PERSISTED;
		if (!producer->fatal)
			producer->fatal = rd_kafka_fatal_error(producer->rk, NULL, 0) !=
							  RD_KAFKA_RESP_ERR_NO_ERROR;
		event->fatal = producer->fatal;
	}
	event->opaque = (uint64) (uintptr_t) message->_private;
	event->topic = (int) (intptr_t) rd_kafka_topic_opaque(message->rkt);
	event->partition = message->partition;
	event->offset = message->offset;
	event->latency_us = rd_kafka_message_latency(message);
	producer->outstanding--;
	return true;
}

static void
FillError(Producer *producer, ProducerEvent *event)
{
	event->kind = PRODUCER_ERROR;
	event->code = rd_kafka_event_error(producer->event);
	event->text = rd_kafka_event_error_string(producer->event);
	if (!rd_kafka_event_error_is_fatal(producer->event))
		return;

	/* The event says only that it is fatal; the client remembers why. */
	producer->fatal = event->fatal = true;
	event->code = rd_kafka_fatal_error(producer->rk, producer->fatal_text,
									   sizeof(producer->fatal_text));
	event->text = producer->fatal_text;
}
