/*
 * guc.c
 *		Definitions of the settings, and checks of those that are text.
 *
 * What makes sense for one database is SUSET, so that ALTER DATABASE … SET
 * works; the rest belongs to the server.
 */
#include "postgres.h"

#include <limits.h>

#include "miscadmin.h"
#include "utils/guc.h"

#include "guc.h"
#include "kafka_property.h"

/* What others than superusers shall not read. */
#define HIDDEN GUC_SUPERUSER_ONLY

int outbox_max_workers;
bool outbox_enabled;
char *outbox_identity;
char *outbox_kafka_bootstrap_servers;
char *outbox_kafka_options;
char *outbox_kafka_config_file;
int outbox_workers_per_database;
int outbox_batch_size;
int outbox_batch_bytes;
int outbox_poll_interval;
int outbox_progress_interval;
int outbox_maintenance_interval;
int outbox_delivery_timeout;
int outbox_max_message_bytes;
int outbox_premake;
int outbox_retry_base;
int outbox_retry_cap;

static void DefineServer(void);
static void DefineKafka(void);
static void DefineRelay(void);
static void DefineIntervals(void);
static void DefineInt(const char *name, const char *short_desc,
					  const char *long_desc, int *variable, int boot, int min,
					  int max, int unit);
static bool CheckServers(char **newval, void **extra, GucSource source);
static const char *ServerProblem(const char *server);
static bool IsPort(const char *text);
static bool CheckOptions(char **newval, void **extra, GucSource source);

/* Call once, from _PG_init(), preloaded or not. */
void
GucInit(void)
{
	DefineServer();
	DefineKafka();
	DefineRelay();
	DefineIntervals();
	MarkGUCPrefixReserved("outbox");
}

static void
DefineServer(void)
{
	/*
	 * A session that loads the library by itself cannot define a variable of
	 * the postmaster.  Nothing reads it there.
	 */
	DefineCustomIntVariable(
		"outbox.max_workers", "Maximum number of relay workers in the server.",
		"All databases share them. They count against max_worker_processes, and so does the launcher. 0 starts no worker.",
		&outbox_max_workers, 8, 0, 64,
		process_shared_preload_libraries_in_progress ? PGC_POSTMASTER
													 : PGC_SIGHUP,
		0, NULL, NULL, NULL);

	DefineCustomBoolVariable(
		"outbox.enabled", "Publishes the messages of the outbox.",
		"When off, for the server or for a database, messages are accepted and wait.",
		&outbox_enabled, true, PGC_SUSET, 0, NULL, NULL, NULL);

	DefineCustomStringVariable(
		"outbox.identity",
		"Name that tells this server from physical copies of it.",
		"Where it is set and a database does not remember the same one from its start, its messages wait until outbox.start() is called there. Set it outside of the data directory, for example on the server's command line.",
		&outbox_identity, "", PGC_SIGHUP, 0, NULL, NULL, NULL);
}

static void
DefineKafka(void)
{
	DefineCustomStringVariable(
		"outbox.kafka_bootstrap_servers",
		"Kafka brokers to connect to at first, as host:port, separated by commas.",
		"The other brokers are learned from them. An IPv6 address stands in brackets. While it is empty nothing is published.",
		&outbox_kafka_bootstrap_servers, "", PGC_SUSET, 0, CheckServers, NULL,
		NULL);

	DefineCustomStringVariable(
		"outbox.kafka_options",
		"Properties of the Kafka client (librdkafka), as name=value, separated by commas or line ends.",
		"A value with blanks or commas stands in double quotes. Secrets are refused: they belong into the file that outbox.kafka_config_file names.",
		&outbox_kafka_options, "", PGC_SUSET, HIDDEN, CheckOptions, NULL,
		NULL);

	DefineCustomStringVariable(
		"outbox.kafka_config_file",
		"File with further properties of the Kafka client, a line name=value each.",
		"It must belong to the server's user with mode 0600 or less, or to root with mode 0640 or less. A relative path starts at the data directory.",
		&outbox_kafka_config_file, "", PGC_SUSET, HIDDEN, NULL, NULL, NULL);
}

static void
DefineRelay(void)
{
	DefineInt("outbox.workers_per_database",
			  "Number of relay workers in a database.",
			  "They share out the lanes of the outbox among them.",
			  &outbox_workers_per_database, 1, 1, 16, 0);
	DefineInt("outbox.batch_size", "Maximum number of messages in a batch.",
			  "A lane has one batch in flight.", &outbox_batch_size, 1000, 1,
			  100000, 0);
	DefineInt("outbox.batch_bytes",
			  "Size of keys and values at which a batch ends.",
			  "A lane has one batch in flight.", &outbox_batch_bytes,
			  1024 * 1024, 64 * 1024, 256 * 1024 * 1024, GUC_UNIT_BYTE);
	DefineInt(
		"outbox.max_message_bytes", "Maximum size of a message.",
		"Larger ones are refused when they are enqueued. Topics and brokers have limits of their own (max.message.bytes).",
		&outbox_max_message_bytes, 1000000, 1024, 100 * 1024 * 1024,
		GUC_UNIT_BYTE);
	DefineInt("outbox.premake",
			  "Number of days for which partitions are made in advance.", NULL,
			  &outbox_premake, 7, 1, 400, 0);
}

static void
DefineIntervals(void)
{
	DefineInt(
		"outbox.poll_interval",
		"Longest time between two looks for new messages.",
		"Commits wake the relay by themselves: this is for what cannot, such as COMMIT PREPARED.",
		&outbox_poll_interval, 1000, 10, 60 * 60 * 1000, GUC_UNIT_MS);
	DefineInt(
		"outbox.progress_interval",
		"Shortest time between two records of the relay's progress.",
		"A crash of the server sends again what was delivered since the last record.",
		&outbox_progress_interval, 50, 1, 60 * 1000, GUC_UNIT_MS);
	DefineInt(
		"outbox.maintenance_interval",
		"Time between two rounds of maintenance.",
		"It makes partitions, closes those of past days and records the progress of idle lanes.",
		&outbox_maintenance_interval, 60, 1, 24 * 60 * 60, GUC_UNIT_S);
	DefineInt(
		"outbox.delivery_timeout",
		"Time without any acknowledgement after which messages in flight are taken back.",
		"They are sent again by a new producer, so they may arrive twice.",
		&outbox_delivery_timeout, 120 * 1000, 100, 60 * 60 * 1000,
		GUC_UNIT_MS);
	DefineInt(
		"outbox.retry_base",
		"Pause before the first retry after a failed delivery.",
		"It doubles with each further one, up to outbox.retry_cap, and varies by half at random.",
		&outbox_retry_base, 1000, 1, 60 * 60 * 1000, GUC_UNIT_MS);
	DefineInt("outbox.retry_cap",
			  "Longest pause between two retries, before it varies at random.",
			  NULL, &outbox_retry_cap, 300 * 1000, 1, 24 * 60 * 60 * 1000,
			  GUC_UNIT_MS);
}

static void
DefineInt(const char *name, const char *short_desc, const char *long_desc,
		  int *variable, int boot, int min, int max, int unit)
{
	DefineCustomIntVariable(name, short_desc, long_desc, variable, boot, min,
							max, PGC_SUSET, unit, NULL, NULL, NULL);
}

static bool
CheckServers(char **newval, void **extra, GucSource source)
{
	char *list = pstrdup(*newval);
	const char *problem = NULL;
	char *next = list;

	if (list[strspn(list, " \t")] == '\0')
		next = NULL;
	while (next != NULL && problem == NULL)
	{
		char *server = next;

		next = strchr(server, ',');
		if (next != NULL)
			*next++ = '\0';

		server += strspn(server, " \t");
		for (size_t n = strlen(server); n > 0 && strchr(" \t", server[n - 1]);)
			server[--n] = '\0';
		problem = ServerProblem(server);
		if (*server == '\0')
			GUC_check_errdetail("The list has an empty entry.");
		else if (problem != NULL)
			GUC_check_errdetail("Server \"%s\" %s.", server, problem);
	}
	pfree(list);
	if (problem != NULL)
		GUC_check_errhint(
			"Write host:port, separated by commas, for example \"kafka1:9092, [2001:db8::1]:9092\".");
	return problem == NULL;
}

static const char *
ServerProblem(const char *server)
{
	const char *rest = server;

	if (*server == '\0')
		return "has no name";
	if (strstr(server, "://") != NULL)
		return "names a protocol, which belongs into security.protocol of outbox.kafka_options";

	if (*server == '[')
	{
		rest += 1 + strspn(server + 1, "0123456789abcdefABCDEF:.");
		if (*rest == '%')
			rest += strcspn(rest, "]");
		if (*rest != ']' || rest - server < 3)
			return "is not an IPv6 address in brackets";
		rest++;
	}
	else
	{
		rest += strspn(
			server,
			"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_");
		if (rest == server)
			return "does not begin with the name of a host";
		if (*rest == ':' && strchr(rest + 1, ':') != NULL)
			return "has more than one colon; an IPv6 address stands in brackets";
	}

	if (*rest == '\0')
		return NULL;
	if (*rest != ':')
		return "holds a character that no name of a host has";
	return IsPort(rest + 1) ? NULL
							: "has a port that is not between 1 and 65535";
}

static bool
IsPort(const char *text)
{
	size_t len = strspn(text, "0123456789");

	return len > 0 && len <= 5 && text[len] == '\0' && atoi(text) >= 1 &&
		   atoi(text) <= 65535;
}

/* The value may hold a secret, so no message shall repeat it. */
static bool
CheckOptions(char **newval, void **extra, GucSource source)
{
	char *detail;

	if (KafkaOptionsValid(*newval, &detail))
		return true;

	GUC_check_errmsg("invalid value for parameter \"%s\"",
					 "outbox.kafka_options");
	GUC_check_errdetail("%s", detail);
	pfree(detail);
	return false;
}
