/*
 * kafka_config.h
 *		From the settings and the secrets file to the client's configuration.
 *
 * Precedence, lowest first: what outbox ships, outbox.kafka_options,
 * outbox.kafka_config_file, then what outbox must insist on.
 */
#ifndef OUTBOX_KAFKA_CONFIG_H
#define OUTBOX_KAFKA_CONFIG_H

#include "postgres.h"

#include "producer.h"

typedef struct KafkaConfig
{
	int noptions;
	ProducerOption *options;
} KafkaConfig;

/*
 * Assembles the configuration from the current settings, in the current
 * memory context.  NULL with *detail where the file or a value is refused;
 * never raises for a bad file.
 */
extern KafkaConfig *KafkaConfigLoad(char **detail);

/* Overwrites the values (they may be secrets) and frees. */
extern void KafkaConfigFree(KafkaConfig *config);

#endif
