/*-------------------------------------------------------------------------
 *
 * mock.c
 *	  librdkafka's mock cluster as a program, for the tests: answers that a
 *	  real broker gives seldom.
 *
 * mock BROKERS
 *
 * Prints the address of the cluster, then obeys the lines of its standard
 * input, each answered by "ok", until that ends:
 *
 *	  topic NAME PARTITIONS		create a topic
 *	  errors CODE COUNT			answer the next produce requests with CODE
 *	  clear						no such answers any more
 *	  down BROKER				from now on it refuses connections
 *	  up BROKER
 *	  delay BROKER MS			before it answers
 *
 * The mock checks no sequence numbers and keeps 5 MB a partition.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

#define API_PRODUCE 0
#define MAX_ERRORS 1000

static void
push_errors(rd_kafka_mock_cluster_t *cluster, int code, int count)
{
	static rd_kafka_resp_err_t errors[MAX_ERRORS];

	if (count > MAX_ERRORS)
		count = MAX_ERRORS;
	for (int i = 0; i < count; i++)
		errors[i] = code;
	rd_kafka_mock_push_request_errors_array(cluster, API_PRODUCE, count,
											errors);
}

static int
obey(rd_kafka_mock_cluster_t *cluster, const char *line)
{
	char name[256];
	int a;
	int b;

	if (sscanf(line, "topic %255s %d", name, &a) == 2)
		return rd_kafka_mock_topic_create(cluster, name, a, 1) ==
			   RD_KAFKA_RESP_ERR_NO_ERROR;
	if (sscanf(line, "errors %d %d", &a, &b) == 2)
		push_errors(cluster, a, b);
	else if (strcmp(line, "clear\n") == 0)
		rd_kafka_mock_clear_request_errors(cluster, API_PRODUCE);
	else if (sscanf(line, "down %d", &a) == 1)
		rd_kafka_mock_broker_set_down(cluster, a);
	else if (sscanf(line, "up %d", &a) == 1)
		rd_kafka_mock_broker_set_up(cluster, a);
	else if (sscanf(line, "delay %d %d", &a, &b) == 2)
		rd_kafka_mock_broker_set_rtt(cluster, a, b);
	else
		return 0;
	return 1;
}

int
main(int argc, char **argv)
{
	char reason[512];
	char line[512];
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	rd_kafka_t *rk;
	rd_kafka_mock_cluster_t *cluster;

	rd_kafka_conf_set(conf, "log_level", "2", NULL, 0);
	rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, reason, sizeof(reason));
	if (rk == NULL)
	{
		fprintf(stderr, "mock: %s\n", reason);
		return 1;
	}
	cluster = rd_kafka_mock_cluster_new(rk, argc > 1 ? atoi(argv[1]) : 1);
	if (cluster == NULL)
	{
		fprintf(stderr, "mock: no cluster\n");
		return 1;
	}

	printf("%s\n", rd_kafka_mock_cluster_bootstraps(cluster));
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin) != NULL)
	{
		printf("%s\n", obey(cluster, line) ? "ok" : "not understood");
		fflush(stdout);
	}
	return 0;
}
