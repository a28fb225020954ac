/*
 * latency.c
 *		The clients and the consumer of bench/latency, in one process and by
 *		one clock.
 *
 * latency outbox|raw RATE SECONDS CLIENTS TOPIC BROKERS CONNECTION
 *		NAME=VALUE...
 *
 * Messages are due at fixed times, RATE a second in all, whatever became of
 * the ones before.  "outbox" enqueues each in a transaction of its own from
 * CLIENTS connections, and counts from the commit's answer to the consumer;
 * "raw" produces the same messages with librdkafka, with NAME=VALUE for its
 * properties, and counts from the call.  One more second before is not
 * counted.
 *
 * Prints the messages, p50, p99 and the maximum in microseconds, the rate at
 * which the messages really went, and how many reached the consumer before
 * the client had its answer (they count as 0).
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <libpq-fe.h>

#include "bench.h"

#define KEYS 1000
#define PAYLOAD_BYTES 200
#define PATIENCE_US 30000000

typedef struct Settings
{
	bool raw;
	long rate;
	long seconds;
	long clients;
	const char *topic;
	const char *brokers;
	const char *connection;
	char **options;
	int noptions;
} Settings;

static Settings settings;
static long total;
static int64_t start_us; /* when message 0 is due */
static int64_t *given;	 /* when it was produced, or its commit answered */
static int64_t *seen;
static atomic_long received = 0;
static atomic_bool in_place = false;
static atomic_bool stopping = false;

static void
wait_until_due(long n)
{
	int64_t due = start_us + n * INT64_C(1000000) / settings.rate;
	struct timespec ts = {due / 1000000, due % 1000000 * 1000};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) != 0)
		continue;
}

/* The number stands at a fixed place. */
static void
make_payload(char *payload, long n)
{
	int used = snprintf(payload, PAYLOAD_BYTES, "{\"n\": %010ld, \"text\": \"",
						n + 1000000000);

	memset(payload + used, 'x', PAYLOAD_BYTES - used);
	memcpy(payload + PAYLOAD_BYTES - 2, "\"}", 3);
}

static long
payload_number(const rd_kafka_message_t *message)
{
	if (message->len != PAYLOAD_BYTES)
		fail("consumer", "got a message that is none of ours");
	return strtol((const char *) message->payload + 6, NULL, 10) - 1000000000;
}

/* --- the consumer --- */

static rd_kafka_queue_t *
start_consumer(rd_kafka_t *rk, rd_kafka_topic_t *topic, int partitions)
{
	rd_kafka_queue_t *queue = rd_kafka_queue_new(rk);

	for (int i = 0; i < partitions; i++)
	{
		int64_t low;
		int64_t high;

		query_offsets(rk, settings.topic, i, &low, &high);
		rd_kafka_consume_start_queue(topic, i, high, queue);
	}
	return queue;
}

static void *
consume(void *arg)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	rd_kafka_t *rk;
	rd_kafka_topic_t *topic;
	rd_kafka_queue_t *queue;
	int partitions;
	int at_end = 0;

	set_option(conf, "bootstrap.servers", settings.brokers);
	set_option(conf, "socket.nagle.disable", "true");
	set_option(conf, "enable.partition.eof", "true");
	rk = make_client(RD_KAFKA_CONSUMER, conf);
	topic = rd_kafka_topic_new(rk, settings.topic, NULL);
	partitions = count_partitions(rk, topic);
	queue = start_consumer(rk, topic, partitions);

	while (!atomic_load(&stopping))
	{
		rd_kafka_message_t *message = rd_kafka_consume_queue(queue, 100);
		int64_t now = now_us();

		if (message == NULL)
			continue;
		if (message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF)
		{
			if (++at_end == partitions)
				atomic_store(&in_place, true);
		}
		else if (message->err)
			fail("consumer", rd_kafka_message_errstr(message));
		else
		{
			long n = payload_number(message);

			if (n < 0 || n >= total || seen[n] != 0)
				fail("consumer", "got a message twice, or one too many");
			seen[n] = now;
			atomic_fetch_add(&received, 1);
		}
		rd_kafka_message_destroy(message);
	}
	for (int i = 0; i < partitions; i++)
		rd_kafka_consume_stop(topic, i);
	rd_kafka_queue_destroy(queue);
	rd_kafka_topic_destroy(topic);
	rd_kafka_destroy(rk);
	return arg;
}

/* --- the clients --- */

static PGconn *
connect_client(void)
{
	char query[1024];
	PGconn *conn = PQconnectdb(settings.connection);
	PGresult *result;

	if (PQstatus(conn) != CONNECTION_OK)
		fail("connection", PQerrorMessage(conn));
	snprintf(query, sizeof(query),
			 "SELECT outbox.enqueue('order', $1, 'order_noted', $2::json, "
			 "topic => '%s')",
			 settings.topic);
	result = PQprepare(conn, "enqueue", query, 0, NULL);
	if (PQresultStatus(result) != PGRES_COMMAND_OK)
		fail("prepare", PQerrorMessage(conn));
	PQclear(result);
	return conn;
}

static void *
enqueue(void *arg)
{
	PGconn *conn = connect_client();

	for (long n = (long) (intptr_t) arg; n < total; n += settings.clients)
	{
		char key[32];
		char payload[PAYLOAD_BYTES + 1];
		const char *values[] = {key, payload};
		PGresult *result;

		snprintf(key, sizeof(key), "%ld", n % KEYS);
		make_payload(payload, n);
		wait_until_due(n);
		result = PQexecPrepared(conn, "enqueue", 2, values, NULL, NULL, 0);
		given[n] = now_us();
		if (PQresultStatus(result) != PGRES_TUPLES_OK)
			fail("enqueue", PQerrorMessage(conn));
		PQclear(result);
	}
	PQfinish(conn);
	return NULL;
}

static void
on_report(rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque)
{
	if (message->err)
		fail("delivery", rd_kafka_err2str(message->err));
}

/* As many and as long as the relay's. */
static rd_kafka_headers_t *
make_headers(const char *key)
{
	static const char *const headers[][2] = {
		{"ce_specversion", "1.0"},
		{"ce_id", "01890a5d-ac96-774b-b9aa-000000000000"},
		{"ce_source", "postgres-01234567"},
		{"ce_type", "order_noted"},
		{"ce_subject", NULL},
		{"ce_time", "2026-01-01T00:00:00.000000Z"},
		{"ce_aggregatetype", "order"},
		{"ce_sequence", "1000000"},
		{"content-type", "application/json"}};
	rd_kafka_headers_t *result = rd_kafka_headers_new(lengthof(headers));

	for (size_t i = 0; i < lengthof(headers); i++)
		(void) rd_kafka_header_add(result, headers[i][0], -1,
								   headers[i][1] != NULL ? headers[i][1] : key,
								   -1);
	return result;
}

static void *
produce(void *arg)
{
	rd_kafka_conf_t *conf = make_conf(settings.options, settings.noptions);
	rd_kafka_t *rk;
	rd_kafka_topic_t *topic;

	set_option(conf, "log_level", "3");
	rd_kafka_conf_set_dr_msg_cb(conf, on_report);
	rk = make_client(RD_KAFKA_PRODUCER, conf);
	topic = rd_kafka_topic_new(rk, settings.topic, NULL);
	(void) count_partitions(rk, topic);

	for (long n = 0; n < total; n++)
	{
		char key[32];
		char payload[PAYLOAD_BYTES + 1];
		rd_kafka_resp_err_t error;

		snprintf(key, sizeof(key), "%ld", n % KEYS);
		make_payload(payload, n);
		wait_until_due(n);
		given[n] = now_us();
		error = rd_kafka_producev(rk, RD_KAFKA_V_RKT(topic),
								  RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
								  RD_KAFKA_V_KEY(key, strlen(key)),
								  RD_KAFKA_V_VALUE(payload, PAYLOAD_BYTES),
								  RD_KAFKA_V_HEADERS(make_headers(key)),
								  RD_KAFKA_V_END);
		if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
			fail("produce", rd_kafka_err2str(error));
		rd_kafka_poll(rk, 0);
	}
	rd_kafka_flush(rk, PATIENCE_US / 1000);
	rd_kafka_topic_destroy(topic);
	rd_kafka_destroy(rk);
	return arg;
}

/* --- the result --- */

static int
compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *) a;
	int64_t y = *(const int64_t *) b;

	return (x > y) - (x < y);
}

static void
report(void)
{
	long first = settings.rate;
	long n = total - first;
	long early = 0;
	int64_t *latency = checked(malloc(sizeof(int64_t) * n));
	int64_t begin = INT64_MAX;
	int64_t end = 0;

	for (long i = 0; i < n; i++)
	{
		latency[i] = seen[first + i] - given[first + i];
		if (latency[i] < 0)
		{
			latency[i] = 0;
			early++;
		}
		if (given[first + i] < begin)
			begin = given[first + i];
		if (given[first + i] > end)
			end = given[first + i];
	}
	qsort(latency, n, sizeof(int64_t), compare);
	printf("%ld %" PRId64 " %" PRId64 " %" PRId64 " %.0f %ld\n", n,
		   latency[n / 2], latency[n * 99 / 100], latency[n - 1],
		   (n - 1) * 1e6 / (end - begin), early);
	free(latency);
}

static void
parse_arguments(int argc, char **argv)
{
	if (argc < 8)
		fail("usage", "latency outbox|raw RATE SECONDS CLIENTS TOPIC BROKERS "
					  "CONNECTION NAME=VALUE...");
	settings.raw = strcmp(argv[1], "raw") == 0;
	settings.rate = atol(argv[2]);
	settings.seconds = atol(argv[3]);
	settings.clients = atol(argv[4]);
	settings.topic = argv[5];
	settings.brokers = argv[6];
	settings.connection = argv[7];
	settings.options = argv + 8;
	settings.noptions = argc - 8;
	if (settings.rate < 1 || settings.seconds < 1 || settings.clients < 1)
		fail("usage", "RATE, SECONDS and CLIENTS are positive");
	total = settings.rate * (settings.seconds + 1);
}

int
main(int argc, char **argv)
{
	pthread_t consumer;
	pthread_t *clients;
	int64_t give_up;

	parse_arguments(argc, argv);
	tune_malloc();
	given = checked(calloc(total, sizeof(int64_t)));
	seen = checked(calloc(total, sizeof(int64_t)));
	clients = checked(calloc(settings.clients, sizeof(pthread_t)));

	pthread_create(&consumer, NULL, consume, NULL);
	give_up = now_us() + PATIENCE_US;
	while (!atomic_load(&in_place) && now_us() < give_up)
		nanosleep(&(struct timespec){0, 10000000}, NULL);
	if (!atomic_load(&in_place))
		fail("consumer", "is not in place");

	/* Clients connect meanwhile. */
	start_us = now_us() + 500000;
	if (settings.raw)
		settings.clients = 1;
	for (long i = 0; i < settings.clients; i++)
		pthread_create(&clients[i], NULL, settings.raw ? produce : enqueue,
					   (void *) (intptr_t) i);
	for (long i = 0; i < settings.clients; i++)
		pthread_join(clients[i], NULL);

	give_up = now_us() + PATIENCE_US;
	while (atomic_load(&received) < total && now_us() < give_up)
		nanosleep(&(struct timespec){0, 10000000}, NULL);
	if (atomic_load(&received) < total)
		fail("consumer", "did not get every message");
	atomic_store(&stopping, true);
	pthread_join(consumer, NULL);
	report();
	return 0;
}
