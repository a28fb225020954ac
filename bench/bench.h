/*
 * bench.h
 *		What the programs of this directory share.
 */
#ifndef OUTBOX_BENCH_H
#define OUTBOX_BENCH_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <librdkafka/rdkafka.h>

#define lengthof(array) (sizeof(array) / sizeof((array)[0]))

static inline void
fail(const char *what, const char *why)
{
	fprintf(stderr, "%s: %s\n", what, why);
	exit(1);
}

static inline void *
checked(void *memory)
{
	if (memory == NULL)
		fail("memory", "exhausted");
	return memory;
}

/* Microseconds of the clock that only goes forward. */
static inline int64_t
now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t) ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static inline void
set_option(rd_kafka_conf_t *conf, const char *name, const char *value)
{
	char reason[512];

	if (rd_kafka_conf_set(conf, name, value, reason, sizeof(reason)) !=
		RD_KAFKA_CONF_OK)
		fail(name, reason);
}

/* From arguments NAME=VALUE. */
static inline rd_kafka_conf_t *
make_conf(char **options, int n)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_new();

	for (int i = 0; i < n; i++)
	{
		char *name = checked(strdup(options[i]));
		char *value = strchr(name, '=');

		if (value == NULL)
			fail(name, "is not NAME=VALUE");
		*value++ = '\0';
		set_option(conf, name, value);
		free(name);
	}
	return conf;
}

static inline rd_kafka_t *
make_client(rd_kafka_type_t type, rd_kafka_conf_t *conf)
{
	char reason[512];
	rd_kafka_t *rk = rd_kafka_new(type, conf, reason, sizeof(reason));

	if (rk == NULL)
		fail("client", reason);
	return rk;
}

/* The relay does the same (src/producer.c): the reference shall not lag. */
static inline void
tune_malloc(void)
{
#if defined(__GLIBC__) && defined(M_MXFAST)
	(void) mallopt(M_MXFAST, 0);
#endif
}

/* Number of partitions of a topic. */
static inline int
count_partitions(rd_kafka_t *rk, rd_kafka_topic_t *topic)
{
	const struct rd_kafka_metadata *metadata;
	rd_kafka_resp_err_t error =
		rd_kafka_metadata(rk, 0, topic, &metadata, 10000);
	int n;

	if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
		fail("metadata", rd_kafka_err2str(error));
	if (metadata->topic_cnt != 1 || metadata->topics[0].err)
		fail(rd_kafka_topic_name(topic), "is not there");
	n = metadata->topics[0].partition_cnt;
	rd_kafka_metadata_destroy(metadata);
	return n;
}

/* A topic that is new has no leader for a while. */
static inline void
query_offsets(rd_kafka_t *rk, const char *topic, int partition, int64_t *low,
			  int64_t *high)
{
	int64_t give_up = now_us() + 30000000;
	rd_kafka_resp_err_t error;

	do
		error = rd_kafka_query_watermark_offsets(rk, topic, partition, low,
												 high, 10000);
	while (error != RD_KAFKA_RESP_ERR_NO_ERROR && now_us() < give_up &&
		   nanosleep(&(struct timespec){0, 50000000}, NULL) == 0);
	if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
		fail(topic, rd_kafka_err2str(error));
}

#endif
