/*
 * producer_test.c
 *		Tests the producer by itself, outside of the server, against a broker.
 *
 *	producer_test BROKERS [MESSAGES [TOPIC_WITH_SMALL_LIMIT]]
 *	producer_test silent-names
 *
 * The second form is for a machine whose name server never answers.
 *
 * Prints lines of TAP, and rates as comments.  test/producer_test.sh builds
 * it, starts a broker and runs it.
 */
#include "postgres.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "producer.h"

#define PAYLOAD 200
#define WINDOW 16000
#define DEAD_BROKER "127.0.0.1:1"

/* Longest time a destruction may take, ms. */
#define DESTROY_LIMIT 1000

static int failures = 0;
static int tests = 0;

static void
Check(bool good, const char *what)
{
	tests++;
	if (!good)
		failures++;
	printf("%sok %d - %s\n", good ? "" : "not ", tests, what);
	fflush(stdout);
}

static double
Clock(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static double
Now(void)
{
	return Clock(CLOCK_MONOTONIC);
}

static double
MyCpu(void)
{
	return Clock(CLOCK_THREAD_CPUTIME_ID);
}

static double
AllCpu(void)
{
	return Clock(CLOCK_PROCESS_CPUTIME_ID);
}

/* With the options that the relay's producer has, and one or two more. */
static Producer *
Create(const char *brokers, const char *name, const char *value,
	   const char *name2, const char *value2)
{
	ProducerOption options[16];
	int n = 0;
	char error[PRODUCER_ERRLEN];
	Producer *producer;

	options[n++] = (ProducerOption){"bootstrap.servers", brokers};
	options[n++] = (ProducerOption){"enable.idempotence", "true"};
	options[n++] = (ProducerOption){"enable.gapless.guarantee", "true"};
	options[n++] = (ProducerOption){"acks", "all"};
	options[n++] = (ProducerOption){"linger.ms", "0"};
	options[n++] = (ProducerOption){"compression.type", "lz4"};
	options[n++] = (ProducerOption){"partitioner", "murmur2_random"};
	options[n++] = (ProducerOption){"socket.nagle.disable", "true"};
	options[n++] = (ProducerOption){"message.timeout.ms", "0"};
	if (name != NULL)
		options[n++] = (ProducerOption){name, value};
	if (name2 != NULL)
		options[n++] = (ProducerOption){name2, value2};

	producer = ProducerCreate(options, n, error, sizeof(error));
	if (producer == NULL)
	{
		printf("Bail out! %s\n", error);
		exit(1);
	}
	return producer;
}

static const ProducerHeader headers[] = {
	{"ce_specversion", 14, "1.0", 3},
	{"ce_id", 5, "0198c0de-7e57-7000-8000-0123456789ab", 36},
	{"ce_source", 9, "urn:outbox:shop-7f3a", 20},
	{"ce_type", 7, "OrderPlaced", 11},
	{"ce_subject", 10, "order-1234567", 13},
	{"ce_time", 7, "2030-01-02T03:04:05.678901Z", 27},
	{"ce_aggregatetype", 16, "order", 5},
	{"ce_sequence", 11, "12345678", 8},
	{"content-type", 12, "application/json", 16},
	{"tenant", 6, "blue", 4},
	{"trace", 5, NULL, 0},
};

static ProducerRecord
Record(int topic, const char *key, const char *value, int len, uint64 opaque)
{
	ProducerRecord record = {0};

	record.topic = topic;
	record.key = key;
	record.key_len = key == NULL ? 0 : strlen(key);
	record.value = value;
	record.value_len = len;
	record.timestamp_ms = (int64) Clock(CLOCK_REALTIME);
	record.headers = headers;
	record.nheaders = lengthof(headers);
	record.opaque = opaque;
	return record;
}

/* Waits for the next event; false when there is none for so long. */
static bool
Await(Producer *producer, ProducerEvent *event, int ms)
{
	double end = Now() + ms;

	while (!ProducerPoll(producer, event))
	{
		struct pollfd fd = {ProducerFd(producer), POLLIN, 0};
		int left = (int) (end - Now());

		if (left <= 0 || poll(&fd, 1, left) == 0)
			return ProducerPoll(producer, event);
		ProducerDrainFd(producer);
	}
	return true;
}

/* Waits for the next report, passing errors and log lines by. */
static bool
AwaitReport(Producer *producer, ProducerEvent *event, int ms)
{
	do
	{
		if (!Await(producer, event, ms))
			return false;
	} while (event->kind == PRODUCER_ERROR || event->kind == PRODUCER_LOG);
	return true;
}

static bool
AwaitKind(Producer *producer, ProducerEvent *event, ProducerEventKind kind,
		  int ms)
{
	double end = Now() + ms;

	while (Now() < end && Await(producer, event, ms))
	{
		if (event->kind == kind)
			return true;
	}
	return false;
}

static void
TestOptions(void)
{
	ProducerOption option = {"no.such.property", "hunter2"};
	char error[PRODUCER_ERRLEN];

	Check(ProducerCreate(&option, 1, error, sizeof(error)) == NULL &&
			  strstr(error, "no.such.property") != NULL &&
			  strstr(error, "hunter2") == NULL,
		  "an unknown property is refused by name");

	option.name = "security.protocol";
	Check(ProducerCreate(&option, 1, error, sizeof(error)) == NULL &&
			  strstr(error, "security.protocol") != NULL &&
			  strstr(error, "hunter2") == NULL,
		  "a bad value is refused without repeating it");

	option = (ProducerOption){"linger.ms", "99999999"};
	Check(ProducerCreate(&option, 1, error, sizeof(error)) == NULL &&
			  strstr(error, "range") != NULL,
		  "a number out of range is refused with the range");
	printf("# %s\n", error);
	printf("# client %s\n", ProducerVersion());
}

static void
TestTopics(void)
{
	Producer *producer = Create(DEAD_BROKER, NULL, NULL, NULL, NULL);
	char name[300];
	bool good = true;
	double start;

	for (int i = 0; i < 5000; i++)
	{
		snprintf(name, sizeof(name), "topic-%d", i);
		good &= ProducerTopic(producer, name) == i;
	}
	start = MyCpu();
	for (int i = 0; i < 5000; i++)
	{
		snprintf(name, sizeof(name), "topic-%d", i);
		good &= ProducerTopic(producer, name) == i;
	}
	printf("# look-up of one of 5000 topics: %.3f us\n",
		   (MyCpu() - start) * 1000 / 5000);
	Check(good && strcmp(ProducerTopicName(producer, 4321), "topic-4321") == 0,
		  "5000 topics keep their indexes");

	memset(name, 'x', 299);
	name[299] = '\0';
	good = ProducerTopic(producer, name) == 5000;
	Check(good, "the table goes on");

	start = Now();
	ProducerDestroy(producer);
	Check(Now() - start < 2000, "5000 topics are given back");
	printf("# destroyed after %.1f ms\n", Now() - start);
}

typedef struct Delivery
{
	Producer *producer;
	int topics[2];
	char payload[PAYLOAD];
	int n;
	int sent;
	int delivered;
	char *seen;
	bool good;
} Delivery;

/* The first record of a topic waits for its partitions. */
static bool
WarmUp(Delivery *d, int topic)
{
	ProducerRecord record = Record(topic, "k", d->payload, 10, 0);
	ProducerEvent event;
	int code;

	return ProducerSend(d->producer, &record, &code) == PRODUCER_SENT &&
		   AwaitReport(d->producer, &event, 30000) &&
		   event.kind == PRODUCER_DELIVERED;
}

static void
SendSome(Delivery *d)
{
	char key[32];
	int code;

	for (int i = 0; i < 1000; i++)
	{
		ProducerRecord record;

		if (d->sent == d->n || d->sent - d->delivered == WINDOW)
			break;
		snprintf(key, sizeof(key), "order-%d", d->sent % 9973);
		record =
			Record(d->topics[d->sent & 1], key, d->payload, PAYLOAD, d->sent);
		d->good &= ProducerSend(d->producer, &record, &code) == PRODUCER_SENT;
		d->sent++;
	}
	ProducerPush(d->producer);
}

static void
CheckReports(Delivery *d, ProducerEvent *event)
{
	do
	{
		if (event->kind != PRODUCER_DELIVERED)
		{
			printf("# %d %s %s\n", event->kind, ProducerErrorName(event->code),
				   event->text != NULL ? event->text : "");
			continue;
		}
		d->good &= event->opaque < d->n && !d->seen[event->opaque] &&
				   event->topic == d->topics[event->opaque & 1] &&
				   event->offset >= 0 && event->partition >= 0 &&
				   event->latency_us >= 0;
		d->seen[event->opaque] = 1;
		d->delivered++;
	} while (ProducerPoll(d->producer, event));
}

/* Sends n records, checks each report, prints what a record costs. */
static void
TestDelivery(const char *brokers, int n)
{
	Delivery d = {.n = n, .good = true};
	ProducerEvent event;
	double send_cpu = 0;
	double report_cpu = 0;
	double start;
	double all;

	d.producer = Create(brokers, NULL, NULL, NULL, NULL);
	d.topics[0] = ProducerTopic(d.producer, "test-a");
	d.topics[1] = ProducerTopic(d.producer, "test-b");
	d.seen = calloc(n, 1);
	for (int i = 0; i < PAYLOAD; i++)
		d.payload[i] =
			"{\"order\":1,\"total\":\"12.34\"} "[(i * 7 + i / 13) % 27];
	Check(WarmUp(&d, d.topics[0]) && WarmUp(&d, d.topics[1]),
		  "a first record reaches each topic");

	start = Now();
	all = AllCpu();
	while (d.delivered < n && d.good)
	{
		double cpu = MyCpu();

		SendSome(&d);
		send_cpu += MyCpu() - cpu;
		if (d.sent - d.delivered < WINDOW && d.sent < n)
			continue;
		d.good &= Await(d.producer, &event, 30000);
		cpu = MyCpu();
		CheckReports(&d, &event);
		report_cpu += MyCpu() - cpu;
	}
	Check(d.good && d.delivered == n, "every record is reported once");
	Check(ProducerOutstanding(d.producer) == 0, "nothing is outstanding");
	printf("# %d records of %d bytes, key, %d headers: %.0f/s; this thread: "
		   "send %.2f us, report %.2f us; process: %.2f us a record\n",
		   n, PAYLOAD, (int) lengthof(headers), n / (Now() - start) * 1000,
		   send_cpu * 1000 / n, report_cpu * 1000 / n,
		   (AllCpu() - all) * 1000 / n);

	start = Now();
	ProducerDestroy(d.producer);
	Check(Now() - start < DESTROY_LIMIT, "an idle producer ends soon");
	printf("# destroyed after %.1f ms\n", Now() - start);
	free(d.seen);
}

static void
TestShapes(const char *brokers)
{
	Producer *producer = Create(brokers, NULL, NULL, NULL, NULL);
	int topic = ProducerTopic(producer, "test-shapes");
	ProducerRecord records[4];
	ProducerEvent event;
	struct pollfd fd = {ProducerFd(producer), POLLIN, 0};
	bool good = true;
	int code = 0;

	Check(poll(&fd, 1, 0) == 1, "the descriptor is readable from the start");
	ProducerDrainFd(producer);
	while (ProducerPoll(producer, &event))
		;

	records[0] = Record(topic, "tombstone", NULL, 0, 0);
	records[1] =
		Record(topic, "empty", "", 0, UINT64CONST(0xfedcba9876543210));
	records[2] = Record(topic, NULL, "no key", 6, 2);
	records[3] = Record(topic, "", "empty key, no headers", 21, 3);
	records[3].nheaders = 0;
	for (int i = 0; i < 4; i++)
		good &= ProducerSend(producer, &records[i], &code) == PRODUCER_SENT;
	Check(good && ProducerOutstanding(producer) == 4,
		  "tombstones, empty values and missing keys are sent");

	Check(poll(&fd, 1, 10000) == 1, "the descriptor becomes readable");
	good = true;
	for (int i = 0; i < 4; i++)
		good &= AwaitReport(producer, &event, 10000) &&
				event.kind == PRODUCER_DELIVERED &&
				(event.opaque < 4 ||
				 event.opaque == UINT64CONST(0xfedcba9876543210));
	Check(good, "all are delivered, with 64 bits of opaque");

	while (ProducerPoll(producer, &event))
		;
	ProducerDrainFd(producer);
	Check(event.kind == PRODUCER_NONE && poll(&fd, 1, 100) == 0,
		  "the descriptor rests when nothing happens");
	ProducerDestroy(producer);
}

static void
TestQueueFull(void)
{
	Producer *producer = Create(DEAD_BROKER, "queue.buffering.max.messages",
								"100", "message.max.bytes", "10000");
	int topic = ProducerTopic(producer, "test");
	ProducerRecord record = Record(topic, "k", "v", 1, 7);
	ProducerSendResult result;
	ProducerEvent event;
	int code = 0;
	int n = 0;
	static char large[20000];

	while ((result = ProducerSend(producer, &record, &code)) == PRODUCER_SENT)
		n++;
	Check(n == 100 && result == PRODUCER_QUEUE_FULL &&
			  ProducerOutstanding(producer) == 100,
		  "a full queue says so");
	Check(strcmp(ProducerErrorName(code), "_QUEUE_FULL") == 0,
		  "errors have names");

	record.value = large;
	record.value_len = sizeof(large);
	Check(ProducerSend(producer, &record, &code) == PRODUCER_REFUSED &&
			  strcmp(ProducerErrorName(code), "MSG_SIZE_TOO_LARGE") == 0,
		  "a message that is too large is refused at once");

	Check(AwaitKind(producer, &event, PRODUCER_ERROR, 10000) && !event.fatal &&
			  event.text[0] != '\0',
		  "a dead broker is an error of the client");
	printf("# %s: %s\n", ProducerErrorName(event.code), event.text);

	ProducerPurge(producer, false);
	n = 0;
	while (ProducerOutstanding(producer) > 0 &&
		   AwaitReport(producer, &event, 5000) &&
		   event.kind == PRODUCER_UNDELIVERED && event.opaque == 7 &&
		   !event.possibly_persisted && !event.fatal &&
		   strcmp(ProducerErrorName(event.code), "_PURGE_QUEUE") == 0)
		n++;
	Check(n == 100, "a purge reports everything that was queued");

	while (ProducerPoll(producer, &event))
		;
	record.value_len = 1;
	Check(ProducerSend(producer, &record, &code) == PRODUCER_SENT,
		  "the queue takes records again");
	ProducerDestroy(producer);
}

/* A port where connections are taken and nothing is ever answered. */
static int
ListenSilently(char *address, size_t size)
{
	struct sockaddr_in name = {.sin_family = AF_INET,
							   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(name);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (bind(fd, (struct sockaddr *) &name, sizeof(name)) != 0 ||
		listen(fd, 64) != 0 ||
		getsockname(fd, (struct sockaddr *) &name, &len) != 0)
	{
		perror("listen");
		exit(1);
	}
	snprintf(address, size, "127.0.0.1:%d", ntohs(name.sin_port));
	return fd;
}

static void
TestDestroy(const char *address, const char *what)
{
	int waits[] = {0, 30, 1500};

	for (int i = 0; i < lengthof(waits); i++)
	{
		Producer *producer = Create(address, NULL, NULL, NULL, NULL);
		int topic = ProducerTopic(producer, "test");
		ProducerRecord record = Record(topic, "k", "v", 1, 0);
		int code;
		double start;
		char line[100];

		for (int n = 0; n < 1000; n++)
			(void) ProducerSend(producer, &record, &code);
		usleep(waits[i] * 1000);
		start = Now();
		ProducerDestroy(producer);
		snprintf(line, sizeof(line), "%s: a producer of %d ms ends soon", what,
				 waits[i]);
		Check(Now() - start < DESTROY_LIMIT, line);
		printf("# destroyed after %.1f ms\n", Now() - start);
	}
}

/*
 * The set is refused as a whole, since the limit is below its size; then the
 * producer is lost, and what was behind is purged.
 */
static void
TestFatal(const char *brokers, const char *name)
{
	Producer *producer = Create(brokers, NULL, NULL, NULL, NULL);
	int topic = ProducerTopic(producer, name);
	static char random[3000];
	ProducerRecord record;
	ProducerEvent event;
	int code;
	int reports = 0;
	int refused = 0;
	bool told = false;
	bool fatal_reports = false;

	for (int i = 0; i < lengthof(random); i++)
		random[i] = (char) rand();
	for (int i = 0; i < 100; i++)
	{
		record = Record(topic, "k", random, i == 50 ? 3000 : 20, i);
		(void) ProducerSend(producer, &record, &code);
	}
	while ((reports < 100 || !told) && Await(producer, &event, 15000))
	{
		if (event.kind == PRODUCER_ERROR && event.fatal)
		{
			told = strcmp(ProducerErrorName(event.code),
						  "_GAPLESS_GUARANTEE") == 0;
			printf("# %s: %s\n", ProducerErrorName(event.code), event.text);
		}
		if (event.kind != PRODUCER_DELIVERED &&
			event.kind != PRODUCER_UNDELIVERED)
			continue;
		reports++;
		if (event.code != 0 &&
			strcmp(ProducerErrorName(event.code), "MSG_SIZE_TOO_LARGE") == 0)
			refused++;
		if (event.fatal)
			fatal_reports = true;
	}
	printf("# %d reports, %d refused\n", reports, refused);
	Check(reports == 100 && refused > 0, "a set that is too large is refused");
	Check(told && fatal_reports, "the gapless producer is lost by it");
	Check(ProducerSend(producer, &record, &code) == PRODUCER_REFUSED &&
			  ProducerFatal(producer),
		  "it takes nothing any more");
	ProducerDestroy(producer);
}

int
main(int argc, char **argv)
{
	char silent[64];
	int fd;

	if (argc < 2)
	{
		fprintf(stderr, "usage: %s BROKERS [MESSAGES [TOPIC]]\n", argv[0]);
		return 2;
	}
	if (strcmp(argv[1], "silent-names") == 0)
	{
		TestDestroy("kafka1.example.com:9092,kafka2.example.com:9092",
					"silent name server");
		printf("1..%d\n", tests);
		return failures > 0;
	}
	TestOptions();
	TestTopics();
	TestShapes(argv[1]);
	TestDelivery(argv[1], argc > 2 ? atoi(argv[2]) : 100000);
	TestQueueFull();
	if (argc > 3)
		TestFatal(argv[1], argv[3]);
	TestDestroy(argv[1], "live broker");
	TestDestroy(DEAD_BROKER, "dead broker");
	fd = ListenSilently(silent, sizeof(silent));
	TestDestroy(silent, "silent broker");
	close(fd);
	printf("1..%d\n", tests);
	return failures > 0;
}
