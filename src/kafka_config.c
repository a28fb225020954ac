/*
 * kafka_config.c
 *		Assembles the client's configuration and guards the secrets file.
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "miscadmin.h"

#include "guc.h"
#include "kafka_config.h"
#include "kafka_property.h"

#define MAX_FILE_BYTES (64 * 1024)

/*
 * Room in message.max.bytes for what outbox.max_message_bytes does not count:
 * outbox's own headers and the framing.
 */
#define MESSAGE_OVERHEAD (64 * 1024)

/* Defaults that users may change. */
static const KafkaProperty shipped[] = {
	{"client.id", "outbox"},
	{"compression.type", "lz4"},

	/* What Java clients use. */
	{"partitioner", "murmur2_random"},

	/*
	 * An idempotent producer has one request in flight per partition, so a
	 * long round trip wants large ones.
	 */
	{"batch.size", "1000000"},
	{"batch.num.messages", "100000"},
	{"linger.ms", "0"},

	{"socket.nagle.disable", "true"},
	{"socket.keepalive.enable", "true"},
	{"socket.timeout.ms", "10000"},
	{"reconnect.backoff.max.ms", "2000"},

	/* How long a topic may be unknown before its records fail. */
	{"topic.metadata.propagation.max.ms", "5000"},

	/* Brokers close idle connections: that is no news. */
	{"log.connection.close", "false"},
};

/* What the promises rest on, whatever users wrote. */
static const KafkaProperty insisted[] = {
	{"enable.idempotence", "true"},
	{"acks", "all"},

	/* A failure must not let later records of the key overtake. */
	{"enable.gapless.guarantee", "true"},

	/* The relay has a deadline of its own, and purges. */
	{"message.timeout.ms", "0"},

	/* The relay's batches are the limit, not these. */
	{"queue.buffering.max.messages", "10000000"},
	{"queue.buffering.max.kbytes", "2097151"},
};

static bool AddFile(KafkaProperties *list, const char *setting, char **detail);
static bool ReadSecretFile(const char *path, char *buffer, char **detail);
static const char *FileProblem(const struct stat *st);
static KafkaConfig *ToConfig(KafkaProperties *list);

KafkaConfig *
KafkaConfigLoad(char **detail)
{
	KafkaProperties list = {0};
	KafkaConfig *config = NULL;
	char number[32];

	*detail = NULL;
	if (outbox_kafka_bootstrap_servers[0] == '\0')
	{
		*detail = pstrdup("Setting outbox.kafka_bootstrap_servers is empty.");
		return NULL;
	}

	for (int i = 0; i < lengthof(shipped); i++)
		KafkaPropertiesAdd(&list, shipped[i].name, shipped[i].value);

	if (KafkaPropertiesFromOptions(&list, outbox_kafka_options, detail) &&
		AddFile(&list, outbox_kafka_config_file, detail))
	{
		KafkaPropertiesAdd(&list, "bootstrap.servers",
						   outbox_kafka_bootstrap_servers);
		snprintf(number, sizeof(number), "%d",
				 outbox_max_message_bytes + MESSAGE_OVERHEAD);
		KafkaPropertiesAdd(&list, "message.max.bytes", number);
		for (int i = 0; i < lengthof(insisted); i++)
			KafkaPropertiesAdd(&list, insisted[i].name, insisted[i].value);
		config = ToConfig(&list);
	}
	KafkaPropertiesFree(&list);
	return config;
}

void
KafkaConfigFree(KafkaConfig *config)
{
	if (config == NULL)
		return;
	for (int i = 0; i < config->noptions; i++)
	{
		char *value = unconstify(char *, config->options[i].value);

		explicit_bzero(value, strlen(value));
		pfree(value);
		pfree(unconstify(char *, config->options[i].name));
	}
	pfree(config->options);
	pfree(config);
}

/* Takes the names and values over: no copy of a secret stays behind. */
static KafkaConfig *
ToConfig(KafkaProperties *list)
{
	KafkaConfig *config = palloc(sizeof(KafkaConfig));

	config->noptions = list->count;
	config->options = palloc(list->count * sizeof(ProducerOption));
	for (int i = 0; i < list->count; i++)
	{
		config->options[i].name = list->items[i].name;
		config->options[i].value = list->items[i].value;
	}
	list->count = 0;
	return config;
}

/* A relative path starts at the data directory. */
static bool
AddFile(KafkaProperties *list, const char *setting, char **detail)
{
	char path[MAXPGPATH];
	char *buffer;
	bool read;

	if (setting[0] == '\0')
		return true;
	if (is_absolute_path(setting))
		strlcpy(path, setting, sizeof(path));
	else
		snprintf(path, sizeof(path), "%s/%s", DataDir, setting);

	/* Allocated first: nothing may raise while the file is open. */
	buffer = palloc0(MAX_FILE_BYTES + 1);
	read = ReadSecretFile(path, buffer, detail) &&
		   KafkaPropertiesFromFile(list, buffer, path, detail);
	explicit_bzero(buffer, MAX_FILE_BYTES + 1);
	pfree(buffer);
	return read;
}

/* Fills the buffer with a file that nobody else can read or replace. */
static bool
ReadSecretFile(const char *path, char *buffer, char **detail)
{
	struct stat st;
	const char *problem = NULL;
	int error = 0;
	size_t len = 0;
	int fd;

	/* O_NONBLOCK: a FIFO must not hold us up. */
	fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) != 0)
		error = errno;
	else
		problem = FileProblem(&st);

	while (error == 0 && problem == NULL && len <= MAX_FILE_BYTES)
	{
		ssize_t n = read(fd, buffer + len, MAX_FILE_BYTES + 1 - len);

		if (n > 0)
			len += n;
		else if (n == 0)
			break;
		else if (errno != EINTR)
			error = errno;
	}
	if (fd >= 0)
		close(fd);

	if (error != 0)
	{
		errno = error;
		*detail = psprintf("Could not read file \"%s\": %m.", path);
		return false;
	}
	if (problem == NULL && len > MAX_FILE_BYTES)
		problem = "is larger than 64 kB";
	if (problem == NULL && memchr(buffer, '\0', len) != NULL)
		problem = "holds a null byte";
	if (problem != NULL)
	{
		*detail = psprintf("File \"%s\" %s.", path, problem);
		return false;
	}
	return true;
}

/* The rule is that of the server's own private key. */
static const char *
FileProblem(const struct stat *st)
{
	if (!S_ISREG(st->st_mode))
		return "is not a regular file";
	if (st->st_uid == geteuid())
		return (st->st_mode & (S_IRWXG | S_IRWXO)) == 0
				   ? NULL
				   : "is open to others than its owner: it must have mode 0600 or less";
	if (st->st_uid == 0)
		return (st->st_mode & (S_IWGRP | S_IXGRP | S_IRWXO)) == 0
				   ? NULL
				   : "is open to others than its owner: it must have mode 0640 or less";
	return "belongs neither to the server's user nor to root";
}
