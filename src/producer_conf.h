/*
 * producer_conf.h
 *		The configuration of a producer, as its library holds it.
 */
#ifndef OUTBOX_PRODUCER_CONF_H
#define OUTBOX_PRODUCER_CONF_H

#include "postgres.h"

#define PRODUCER_ERRLEN 512

/* rd_kafka_conf_t: its header is for the files that talk to the library. */
struct rd_kafka_conf_s;

/* One property of the client's configuration. */
typedef struct ProducerOption
{
	const char *name;
	const char *value;
} ProducerOption;

/* NULL, with errbuf filled, where an option is refused. */
extern struct rd_kafka_conf_s *ProducerConf(const ProducerOption *options,
											int noptions, char *errbuf,
											size_t errlen);

/* Does the client wait for more messages before it sends one? */
extern bool ProducerConfLingers(const struct rd_kafka_conf_s *conf);

#endif
