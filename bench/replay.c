/*
 * replay.c
 *		The reference of bench/drain: a raw librdkafka producer that sends the
 *		records of a file as fast as it can.
 *
 * replay FILE TOPIC NAME=VALUE...
 *
 * FILE is a binary COPY of PostgreSQL with one row a record: key, value,
 * timestamp in ms, and the values of the headers below.  NAME=VALUE are the
 * client's properties.
 *
 * Prints the messages, the seconds from making the client to the last
 * acknowledgement, the processor's microseconds, and the peak of the memory
 * in kB.
 */
#include <endian.h>
#include <inttypes.h>
#include <stdbool.h>
#include <sys/resource.h>

#include "bench.h"

/* Messages in the client at most; librdkafka's default. */
#define OUTSTANDING_MAX 100000

/* Reports are served after so many messages. */
#define SERVE_EVERY 100

enum
{
	F_KEY,
	F_VALUE,
	F_TIMESTAMP,
	F_HEADERS
};

static const char *const header_names[] = {
	"ce_specversion",	"ce_id",	   "ce_source",
	"ce_type",			"ce_subject",  "ce_time",
	"ce_aggregatetype", "ce_sequence", "content-type"};

#define NFIELDS (F_HEADERS + lengthof(header_names))

typedef struct Field
{
	const char *data; /* NULL: null */
	int len;
} Field;

static long delivered = 0;

static void
on_report(rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque)
{
	if (message->err)
		fail("delivery", rd_kafka_err2str(message->err));
	delivered++;
}

static uint32_t
read_number(FILE *file, int width)
{
	unsigned char bytes[4];
	uint32_t value = 0;

	if (fread(bytes, 1, width, file) != (size_t) width)
		fail("input", "ends too early");
	for (int i = 0; i < width; i++)
		value = value << 8 | bytes[i];
	return value;
}

static void
skip_header(FILE *file)
{
	char signature[11];

	if (fread(signature, 1, sizeof(signature), file) != sizeof(signature) ||
		memcmp(signature, "PGCOPY\n\377\r\n", sizeof(signature)) != 0)
		fail("input", "is not a binary COPY");
	(void) read_number(file, 4);
	for (uint32_t n = read_number(file, 4); n > 0; n--)
		(void) read_number(file, 1);
}

/* False at the end.  The fields stay valid until the next call. */
static bool
read_record(FILE *file, Field *fields)
{
	static char *buffer = NULL;
	static size_t size = 0;
	size_t used = 0;
	size_t starts[NFIELDS];
	uint32_t n = read_number(file, 2);

	if (n == 0xffff)
		return false;
	if (n != NFIELDS)
		fail("input", "has another number of columns");
	for (uint32_t i = 0; i < NFIELDS; i++)
	{
		int32_t len = (int32_t) read_number(file, 4);

		fields[i].len = len < 0 ? 0 : len;
		starts[i] = len < 0 ? SIZE_MAX : used;
		if (used + fields[i].len > size)
		{
			size = 2 * (used + fields[i].len);
			buffer = checked(realloc(buffer, size));
		}
		if (fread(buffer + used, 1, fields[i].len, file) !=
			(size_t) fields[i].len)
			fail("input", "ends too early");
		used += fields[i].len;
	}
	for (uint32_t i = 0; i < NFIELDS; i++)
		fields[i].data = starts[i] == SIZE_MAX ? NULL : buffer + starts[i];
	return true;
}

static void
send_record(rd_kafka_t *rk, rd_kafka_topic_t *topic, const Field *fields)
{
	rd_kafka_headers_t *headers = rd_kafka_headers_new(lengthof(header_names));
	rd_kafka_resp_err_t error;
	uint64_t timestamp;

	memcpy(&timestamp, fields[F_TIMESTAMP].data, sizeof(timestamp));
	for (size_t i = 0; i < lengthof(header_names); i++)
		(void) rd_kafka_header_add(headers, header_names[i], -1,
								   fields[F_HEADERS + i].data,
								   fields[F_HEADERS + i].len);
	error = rd_kafka_producev(
		rk, RD_KAFKA_V_RKT(topic), RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
		RD_KAFKA_V_KEY(fields[F_KEY].data, fields[F_KEY].len),
		RD_KAFKA_V_VALUE((void *) fields[F_VALUE].data, fields[F_VALUE].len),
		RD_KAFKA_V_TIMESTAMP((int64_t) be64toh(timestamp)),
		RD_KAFKA_V_HEADERS(headers), RD_KAFKA_V_END);
	if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
		fail("produce", rd_kafka_err2str(error));
}

int
main(int argc, char **argv)
{
	FILE *file;
	rd_kafka_conf_t *conf;
	rd_kafka_t *rk;
	rd_kafka_topic_t *topic;
	Field fields[NFIELDS];
	struct rusage before;
	struct rusage after;
	int64_t start;
	long sent = 0;
	double seconds;

	if (argc < 3)
		fail("usage", "replay FILE TOPIC NAME=VALUE...");
	file = fopen(argv[1], "rb");
	if (file == NULL || setvbuf(file, NULL, _IOFBF, 1 << 20) != 0)
		fail(argv[1], "cannot be read");
	skip_header(file);
	tune_malloc();
	conf = make_conf(argv + 3, argc - 3);
	set_option(conf, "log_level", "3");
	rd_kafka_conf_set_dr_msg_cb(conf, on_report);

	getrusage(RUSAGE_SELF, &before);
	start = now_us();
	rk = make_client(RD_KAFKA_PRODUCER, conf);
	topic = rd_kafka_topic_new(rk, argv[2], NULL);
	while (read_record(file, fields))
	{
		send_record(rk, topic, fields);
		if (++sent % SERVE_EVERY == 0)
			rd_kafka_poll(rk, 0);
		while (sent - delivered >= OUTSTANDING_MAX)
			rd_kafka_poll(rk, 100);
	}
	while (delivered < sent)
		rd_kafka_poll(rk, 100);
	seconds = (now_us() - start) / 1e6;
	getrusage(RUSAGE_SELF, &after);

#define MICROSECONDS(t) ((t).tv_sec * 1000000L + (t).tv_usec)
	printf("%ld %.6f %ld %ld\n", sent, seconds,
		   MICROSECONDS(after.ru_utime) + MICROSECONDS(after.ru_stime) -
			   MICROSECONDS(before.ru_utime) - MICROSECONDS(before.ru_stime),
		   after.ru_maxrss);
	rd_kafka_topic_destroy(topic);
	rd_kafka_destroy(rk);
	return 0;
}
