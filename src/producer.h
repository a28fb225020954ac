/*
 * producer.h
 *		Kafka, seen from the relay: an opaque producer in event mode.
 *
 * Only producer*.c include rdkafka.h.  Nothing here raises a PostgreSQL error
 * or allocates from a memory context: results are codes, texts go into buffers
 * or point into memory that stays valid until the next call of ProducerPoll().
 */
#ifndef OUTBOX_PRODUCER_H
#define OUTBOX_PRODUCER_H

#include "postgres.h"

#include "producer_conf.h"

typedef struct Producer Producer;

typedef struct ProducerHeader
{
	const char *name;
	int name_len;
	const char *value; /* NULL: a header without a value */
	int value_len;
} ProducerHeader;

typedef struct ProducerRecord
{
	int topic; /* from ProducerTopic() */
	const char *key;
	int key_len;
	const char *value; /* NULL: a tombstone */
	int value_len;
	int64 timestamp_ms; /* since the Unix epoch */
	const ProducerHeader *headers;
	int nheaders;
	uint64 opaque; /* given back in the delivery report */
} ProducerRecord;

typedef enum ProducerSendResult
{
	PRODUCER_SENT,
	PRODUCER_QUEUE_FULL, /* serve reports, then try again */
	PRODUCER_REFUSED	 /* *code tells why */
} ProducerSendResult;

typedef enum ProducerEventKind
{
	PRODUCER_NONE,
	PRODUCER_DELIVERED,	  /* acknowledged, or already there */
	PRODUCER_UNDELIVERED, /* code tells why */
	PRODUCER_ERROR,		  /* of the client, not of a message */
	PRODUCER_LOG
} ProducerEventKind;

typedef struct ProducerEvent
{
	ProducerEventKind kind;
	int code;				 /* librdkafka's code */
	bool fatal;				 /* the producer has to be made anew */
	bool possibly_persisted; /* sending again may duplicate */
	uint64 opaque;
	int topic; /* index, for reports */
	int partition;
	int64 offset;
	int64 latency_us; /* produce call to acknowledgement */
	int level;		  /* syslog's, for PRODUCER_LOG */
	const char *text; /* for PRODUCER_ERROR and PRODUCER_LOG */
} ProducerEvent;

/* False, with errbuf filled, where the client knows no such options. */
extern bool ProducerOptionsValid(const ProducerOption *options, int noptions,
								 char *errbuf, size_t errlen);

/* NULL, with errbuf filled, where the configuration is refused. */
extern Producer *ProducerCreate(const ProducerOption *options, int noptions,
								char *errbuf, size_t errlen);

/* Purges what is left without waiting for the network, then frees. */
extern void ProducerDestroy(Producer *producer);

/* Index of a topic; the same for the producer's whole life.  -1 on failure. */
extern int ProducerTopic(Producer *producer, const char *name);
extern const char *ProducerTopicName(Producer *producer, int topic);

/* Copies everything it is given. */
extern ProducerSendResult ProducerSend(Producer *producer,
									   const ProducerRecord *record,
									   int *code);

/* Next event without waiting; false (kind NONE) when there is none. */
extern bool ProducerPoll(Producer *producer, ProducerEvent *event);

/* Readable when there may be events; drain before polling until empty. */
extern int ProducerFd(Producer *producer);
extern void ProducerDrainFd(Producer *producer);

/* Ends lingering now: a batch has been handed over whole. */
extern void ProducerPush(Producer *producer);

/* Fails what is queued (and, if asked, in flight): reports follow. */
extern void ProducerPurge(Producer *producer, bool in_flight);

/* Nothing can be sent any more: the producer has to be made anew. */
extern bool ProducerFatal(Producer *producer);

/* Messages that are neither delivered nor failed, reports included. */
extern int ProducerOutstanding(Producer *producer);

/* The message itself is not to blame: the producer gave it back unsent. */
extern bool ProducerWasPurged(int code);

extern const char *ProducerErrorName(int code); /* MSG_SIZE_TOO_LARGE */
extern const char *ProducerErrorText(int code);
extern const char *ProducerVersion(void);

#endif
