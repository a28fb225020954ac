/*-------------------------------------------------------------------------
 *
 * consume.c
 *	  Read Kafka topics from their beginning and print every record, byte for
 *	  byte, for the tests.
 *
 * kcat shows headers as text in which a comma, a binary value and a missing
 * one can't be told from each other, and waits half a second at the end of
 * each partition.
 *
 * consume -b BROKERS [-n COUNT] [-t MILLISECONDS] [-f] TOPIC...
 *
 * It ends when it has read every partition to its end and at least COUNT
 * records in all, or, with status 3, when the time is over.  Topics that don't
 * exist count as empty, and are waited for where COUNT asks for records.
 *
 * With -f it prints an empty record where it has reached the end of every
 * partition for the first time, and reads on until a signal or the end of
 * standard input.
 *
 * A record is a 32-bit length and a body (all numbers big-endian):
 *	  topic (16-bit length and bytes), partition (32), offset (64),
 *	  timestamp in ms (64), time of arrival in us (64), key, value, number of
 *	  headers (16), and each header's name (as the topic) and value.
 * A key or value is a byte that is 1 if it is null, a 32-bit length, bytes.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include <librdkafka/rdkafka.h>

typedef struct Options
{
	const char *brokers;
	long count;
	long timeout_ms;
	bool follow;
	char **topics;
	int ntopics;
} Options;

typedef struct Buffer
{
	char *data;
	size_t used;
	size_t size;
} Buffer;

static volatile sig_atomic_t stopping = 0;

static void
stop(int signum)
{
	stopping = 1;
}

static void
fail(const char *what, const char *why)
{
	fprintf(stderr, "consume: %s: %s\n", what, why);
	exit(2);
}

static int64_t
now_us(void)
{
	struct timeval tv;

	gettimeofday(&tv, NULL);
	return (int64_t) tv.tv_sec * 1000000 + tv.tv_usec;
}

static void
put_bytes(Buffer *buffer, const void *bytes, size_t length)
{
	if (buffer->used + length > buffer->size)
	{
		buffer->size = 2 * (buffer->used + length);
		buffer->data = realloc(buffer->data, buffer->size);
		if (buffer->data == NULL)
			fail("record", "out of memory");
	}
	if (length > 0)
		memcpy(buffer->data + buffer->used, bytes, length);
	buffer->used += length;
}

static void
put_number(Buffer *buffer, uint64_t value, int width)
{
	unsigned char bytes[8];

	for (int i = width - 1; i >= 0; i--)
	{
		bytes[i] = (unsigned char) value;
		value >>= 8;
	}
	put_bytes(buffer, bytes, width);
}

static void
put_name(Buffer *buffer, const char *name)
{
	put_number(buffer, strlen(name), 2);
	put_bytes(buffer, name, strlen(name));
}

static void
put_value(Buffer *buffer, const void *value, size_t length)
{
	put_number(buffer, value == NULL, 1);
	put_number(buffer, length, 4);
	put_bytes(buffer, value, length);
}

static void
print_record(Buffer *buffer)
{
	Buffer length = {0};

	put_number(&length, buffer->used, 4);
	fwrite(length.data, 1, length.used, stdout);
	fwrite(buffer->data, 1, buffer->used, stdout);
	free(length.data);
}

static void
print_message(Buffer *buffer, rd_kafka_message_t *message)
{
	rd_kafka_headers_t *headers = NULL;
	rd_kafka_timestamp_type_t type;
	size_t nheaders = 0;

	buffer->used = 0;
	put_name(buffer, rd_kafka_topic_name(message->rkt));
	put_number(buffer, message->partition, 4);
	put_number(buffer, message->offset, 8);
	put_number(buffer, rd_kafka_message_timestamp(message, &type), 8);
	put_number(buffer, now_us(), 8);
	put_value(buffer, message->key, message->key_len);
	put_value(buffer, message->payload, message->len);

	if (rd_kafka_message_headers(message, &headers) == 0)
		nheaders = rd_kafka_header_cnt(headers);
	put_number(buffer, nheaders, 2);
	for (size_t i = 0; i < nheaders; i++)
	{
		const char *name;
		const void *value;
		size_t length;

		rd_kafka_header_get_all(headers, i, &name, &value, &length);
		put_name(buffer, name);
		put_value(buffer, value, length);
	}
	print_record(buffer);
}

static bool
wanted(const Options *options, const char *topic)
{
	for (int i = 0; i < options->ntopics; i++)
		if (strcmp(options->topics[i], topic) == 0)
			return true;
	return false;
}

/* What the broker answers while it makes a topic. */
static bool
is_new_topic(rd_kafka_resp_err_t err)
{
	return err == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART ||
		   err == RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE ||
		   err == RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION;
}

/*
 * The library's own way to the first offset starts with a pause of half a
 * second, so ask for it here.  False where the partition is not there yet.
 */
static bool
add_partition(rd_kafka_t *rk, const Options *options,
			  rd_kafka_topic_partition_list_t *partitions, const char *topic,
			  int32_t partition)
{
	int64_t first;
	int64_t end;
	rd_kafka_resp_err_t err;

	err = rd_kafka_query_watermark_offsets(rk, topic, partition, &first, &end,
										   options->timeout_ms);
	if (is_new_topic(err))
		return false;
	if (err != RD_KAFKA_RESP_ERR_NO_ERROR)
		fail("offsets", rd_kafka_err2str(err));
	rd_kafka_topic_partition_list_add(partitions, topic, partition)->offset =
		first;
	return true;
}

/*
 * Assign every partition of the topics, or return NULL if one that is needed
 * is missing.  The list of all topics is asked for, because asking for one by
 * its name may create it.
 */
static rd_kafka_topic_partition_list_t *
assign(rd_kafka_t *rk, const Options *options)
{
	const struct rd_kafka_metadata *metadata;
	rd_kafka_topic_partition_list_t *partitions;
	rd_kafka_resp_err_t err;
	int found = 0;
	bool complete = true;

	err = rd_kafka_metadata(rk, 1, NULL, &metadata, options->timeout_ms);
	if (err != RD_KAFKA_RESP_ERR_NO_ERROR)
		fail("no answer from the broker", rd_kafka_err2str(err));

	partitions = rd_kafka_topic_partition_list_new(16);
	for (int i = 0; i < metadata->topic_cnt; i++)
	{
		const struct rd_kafka_metadata_topic *topic = &metadata->topics[i];

		if (!wanted(options, topic->topic))
			continue;
		found++;
		for (int p = 0; p < topic->partition_cnt; p++)
			complete &= add_partition(rk, options, partitions, topic->topic,
									  topic->partitions[p].id);
	}
	rd_kafka_metadata_destroy(metadata);

	if (!complete ||
		(found < options->ntopics && (options->count > 0 || options->follow)))
	{
		rd_kafka_topic_partition_list_destroy(partitions);
		return NULL;
	}
	err = rd_kafka_assign(rk, partitions);
	if (err != RD_KAFKA_RESP_ERR_NO_ERROR)
		fail("assign", rd_kafka_err2str(err));
	return partitions;
}

/* Returns true where this is the partition's first end. */
static bool
reached_end(rd_kafka_topic_partition_list_t *partitions,
			const rd_kafka_message_t *message)
{
	rd_kafka_topic_partition_t *partition = rd_kafka_topic_partition_list_find(
		partitions, rd_kafka_topic_name(message->rkt), message->partition);

	if (partition == NULL || partition->opaque != NULL)
		return false;
	partition->opaque = partition;
	return true;
}

static void
parse_options(Options *options, int argc, char **argv)
{
	int option;

	options->timeout_ms = 30000;
	while ((option = getopt(argc, argv, "b:n:t:f")) != -1)
	{
		switch (option)
		{
			case 'b':
				options->brokers = optarg;
				break;
			case 'n':
				options->count = atol(optarg);
				break;
			case 't':
				options->timeout_ms = atol(optarg);
				break;
			case 'f':
				options->follow = true;
				break;
			default:
				exit(2);
		}
	}
	options->topics = argv + optind;
	options->ntopics = argc - optind;
	if (options->brokers == NULL || options->ntopics == 0)
		fail("usage", "-b BROKERS [-n COUNT] [-t MS] [-f] TOPIC...");
}

static rd_kafka_t *
connect_consumer(const Options *options)
{
	static const char *const settings[][2] = {
		{"group.id", "outbox-test"},
		{"enable.auto.commit", "false"},
		{"enable.partition.eof", "true"},
		{"fetch.wait.max.ms", "10"},
		{"fetch.error.backoff.ms", "50"},
		{"socket.nagle.disable", "true"},
		{"message.max.bytes", "100000000"},
		{"fetch.message.max.bytes", "8000000"},
		{"receive.message.max.bytes", "200000000"},
		{"log_level", "2"},
	};
	char reason[512];
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	rd_kafka_t *rk;

	if (rd_kafka_conf_set(conf, "bootstrap.servers", options->brokers, reason,
						  sizeof(reason)) != RD_KAFKA_CONF_OK)
		fail("bootstrap.servers", reason);
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
		if (rd_kafka_conf_set(conf, settings[i][0], settings[i][1], reason,
							  sizeof(reason)) != RD_KAFKA_CONF_OK)
			fail(settings[i][0], reason);
	rk = rd_kafka_new(RD_KAFKA_CONSUMER, conf, reason, sizeof(reason));
	if (rk == NULL)
		fail("rd_kafka_new", reason);
	rd_kafka_poll_set_consumer(rk);
	return rk;
}

/* The other end of standard input closes when the test is over. */
static bool
abandoned(void)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};

	return poll(&input, 1, 0) == 1;
}

int
main(int argc, char **argv)
{
	Options options = {0};
	Buffer buffer = {0};
	Buffer in_place = {0};
	rd_kafka_t *rk;
	rd_kafka_topic_partition_list_t *partitions;
	int64_t deadline;
	int at_end = 0;
	long count = 0;
	bool late = false;

	parse_options(&options, argc, argv);
	signal(SIGTERM, stop);
	signal(SIGINT, stop);
	rk = connect_consumer(&options);
	deadline = now_us() + options.timeout_ms * 1000;

	while ((partitions = assign(rk, &options)) == NULL)
	{
		if (now_us() > deadline || stopping)
			fail(options.topics[0], "no such topic");
		usleep(50000);
	}

	while (!stopping)
	{
		rd_kafka_message_t *message;

		if (options.follow
				? abandoned()
				: (at_end >= partitions->cnt && count >= options.count))
			break;
		if (!options.follow && (late = now_us() > deadline))
			break;
		message = rd_kafka_consumer_poll(rk, 20);
		if (message == NULL)
			continue;
		if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR)
		{
			print_message(&buffer, message);
			count++;
			if (options.follow)
				fflush(stdout);
		}
		else if (message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF)
		{
			if (reached_end(partitions, message) &&
				++at_end == partitions->cnt && options.follow)
			{
				print_record(&in_place);
				fflush(stdout);
			}
		}
		else if (message->err != RD_KAFKA_RESP_ERR__TRANSPORT &&
				 message->err != RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN)
			fail(rd_kafka_err2name(message->err),
				 rd_kafka_message_errstr(message));
		rd_kafka_message_destroy(message);
	}

	if (fflush(stdout) != 0)
		fail("standard output", strerror(errno));
	/* Closing politely would take a second and change nothing. */
	_exit(late ? 3 : 0);
}
