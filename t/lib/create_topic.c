/*-------------------------------------------------------------------------
 *
 * create_topic.c
 *	  Create a Kafka topic, for the tests.
 *
 * create_topic BROKERS NAME PARTITIONS [CONFIG=VALUE...]
 *
 * Kafka's own tool needs a second of a processor for it.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <librdkafka/rdkafka.h>

#define TIMEOUT_MS 30000

static void
fail(const char *what, const char *why)
{
	fprintf(stderr, "create_topic: %s: %s\n", what, why);
	exit(1);
}

static rd_kafka_t *
connect_client(const char *brokers)
{
	char reason[512];
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	rd_kafka_t *rk;

	if (rd_kafka_conf_set(conf, "bootstrap.servers", brokers, reason,
						  sizeof(reason)) != RD_KAFKA_CONF_OK ||
		rd_kafka_conf_set(conf, "log_level", "2", reason, sizeof(reason)) !=
			RD_KAFKA_CONF_OK)
		fail(brokers, reason);
	rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, reason, sizeof(reason));
	if (rk == NULL)
		fail("rd_kafka_new", reason);
	return rk;
}

static void
await_result(rd_kafka_queue_t *queue, const char *topic)
{
	rd_kafka_event_t *event = rd_kafka_queue_poll(queue, TIMEOUT_MS);
	const rd_kafka_CreateTopics_result_t *result;
	const rd_kafka_topic_result_t **topics;
	size_t count;

	if (event == NULL)
		fail(topic, "no answer from the broker");
	if (rd_kafka_event_error(event))
		fail(topic, rd_kafka_event_error_string(event));
	result = rd_kafka_event_CreateTopics_result(event);
	topics = rd_kafka_CreateTopics_result_topics(result, &count);
	if (count != 1)
		fail(topic, "no result");
	if (rd_kafka_topic_result_error(topics[0]))
		fail(topic, rd_kafka_topic_result_error_string(topics[0]));
	rd_kafka_event_destroy(event);
}

int
main(int argc, char **argv)
{
	rd_kafka_t *rk;
	rd_kafka_queue_t *queue;
	rd_kafka_NewTopic_t *topic;
	rd_kafka_AdminOptions_t *options;
	char reason[512];

	if (argc < 4)
		fail("usage", "BROKERS NAME PARTITIONS [CONFIG=VALUE...]");
	rk = connect_client(argv[1]);
	topic = rd_kafka_NewTopic_new(argv[2], atoi(argv[3]), 1, reason,
								  sizeof(reason));
	if (topic == NULL)
		fail(argv[2], reason);
	for (int i = 4; i < argc; i++)
	{
		char *value = strchr(argv[i], '=');

		if (value == NULL)
			fail(argv[i], "not CONFIG=VALUE");
		*value++ = '\0';
		rd_kafka_NewTopic_set_config(topic, argv[i], value);
	}

	/* The answer comes when the broker has led the partitions. */
	options = rd_kafka_AdminOptions_new(rk, RD_KAFKA_ADMIN_OP_CREATETOPICS);
	rd_kafka_AdminOptions_set_operation_timeout(options, TIMEOUT_MS, reason,
												sizeof(reason));
	queue = rd_kafka_queue_new(rk);
	rd_kafka_CreateTopics(rk, &topic, 1, options, queue);
	await_result(queue, argv[2]);
	return 0;
}
