/*
 * digest.c
 *		Shows whether topics hold the same records.
 *
 * digest BROKERS TOPIC...
 *
 * Prints for each topic the number of its records and a sum over hashes of
 * their partition, key, value, timestamp and headers: equal where the same
 * records are in the same partitions, whatever their order.
 */
#include <inttypes.h>

#include "bench.h"

#define BATCH 1000
#define TIMEOUT_MS 10000

/* FNV-1a. */
static uint64_t
hash_bytes(uint64_t hash, const void *data, size_t len)
{
	const unsigned char *bytes = data;

	for (size_t i = 0; i < len; i++)
		hash = (hash ^ bytes[i]) * UINT64_C(1099511628211);
	return hash;
}

static uint64_t
hash_value(uint64_t hash, const void *data, size_t len)
{
	int64_t marked = data == NULL ? -1 : (int64_t) len;

	hash = hash_bytes(hash, &marked, sizeof(marked));
	return data == NULL ? hash : hash_bytes(hash, data, len);
}

static uint64_t
hash_message(rd_kafka_message_t *message)
{
	uint64_t hash = UINT64_C(14695981039346656037);
	rd_kafka_timestamp_type_t type;
	int64_t timestamp = rd_kafka_message_timestamp(message, &type);
	rd_kafka_headers_t *headers;
	const char *name;
	const void *value;
	size_t len;

	hash = hash_bytes(hash, &message->partition, sizeof(message->partition));
	hash = hash_bytes(hash, &timestamp, sizeof(timestamp));
	hash = hash_value(hash, message->key, message->key_len);
	hash = hash_value(hash, message->payload, message->len);
	if (rd_kafka_message_headers(message, &headers) != 0)
		return hash;
	for (size_t i = 0;
		 rd_kafka_header_get_all(headers, i, &name, &value, &len) == 0; i++)
	{
		hash = hash_value(hash, name, strlen(name));
		hash = hash_value(hash, value, len);
	}
	return hash;
}

static void
digest(rd_kafka_t *rk, const char *name)
{
	rd_kafka_topic_t *topic = rd_kafka_topic_new(rk, name, NULL);
	rd_kafka_queue_t *queue = rd_kafka_queue_new(rk);
	int partitions = count_partitions(rk, topic);
	int64_t expected = 0;
	int64_t n = 0;
	uint64_t sum = 0;

	for (int i = 0; i < partitions; i++)
	{
		int64_t low;
		int64_t high;

		query_offsets(rk, name, i, &low, &high);
		expected += high - low;
		rd_kafka_consume_start_queue(topic, i, RD_KAFKA_OFFSET_BEGINNING,
									 queue);
	}
	while (n < expected)
	{
		rd_kafka_message_t *messages[BATCH];
		ssize_t got =
			rd_kafka_consume_batch_queue(queue, TIMEOUT_MS, messages, BATCH);

		if (got <= 0)
			fail(name, "could not be read to its end");
		for (ssize_t i = 0; i < got; i++)
		{
			if (messages[i]->err)
				fail(name, rd_kafka_message_errstr(messages[i]));
			sum += hash_message(messages[i]);
			rd_kafka_message_destroy(messages[i]);
		}
		n += got;
	}
	printf("%" PRId64 " %016" PRIx64 "\n", n, sum);
	for (int i = 0; i < partitions; i++)
		rd_kafka_consume_stop(topic, i);
	rd_kafka_queue_destroy(queue);
	rd_kafka_topic_destroy(topic);
}

int
main(int argc, char **argv)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	rd_kafka_t *rk;

	if (argc < 3)
		fail("usage", "digest BROKERS TOPIC...");
	set_option(conf, "bootstrap.servers", argv[1]);
	rk = make_client(RD_KAFKA_CONSUMER, conf);
	for (int i = 2; i < argc; i++)
		digest(rk, argv[i]);
	rd_kafka_destroy(rk);
	return 0;
}
