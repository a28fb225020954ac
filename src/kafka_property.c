/*
 * kafka_property.c
 *		Reads the client's properties and refuses what outbox's promises, the
 *		server's safety or the secrecy of a value forbid.
 *
 * What is merely unknown or out of range is left to the client's library.
 */
#include "postgres.h"

#include "kafka_property.h"

#define BLANKS " \t\r"
#define SEPARATORS ",\n"

typedef struct Rule
{
	const char *pattern; /* a * at its begin or end matches anything */
	const char *allowed; /* values, with " or " between; NULL: none */
	const char *reason;
} Rule;

/* The first that matches decides. */
static const Rule rules[] = {
	/* promises */
	{"acks", "all or -1", "all in-sync replicas must have a record"},
	{"request.required.acks", "all or -1",
	 "all in-sync replicas must have a record"},
	{"enable.idempotence", "true",
	 "order and freedom from duplicates depend on it"},
	{"enable.gapless.guarantee", NULL, "outbox sets it as it needs it"},
	{"partitioner", "murmur2_random or murmur2",
	 "a key must stay in its partition"},
	{"queuing.strategy", "fifo", "records must keep their order"},
	{"transactional.id", NULL, "outbox uses no transactions of Kafka"},
	{"transaction.timeout.ms", NULL, "outbox uses no transactions of Kafka"},
	{"delivery.report.only.error", "false",
	 "outbox records what was delivered"},
	{"topic.blacklist", NULL, "its topics would never be delivered"},

	/* settings of outbox stand for these */
	{"bootstrap.servers", NULL, "use outbox.kafka_bootstrap_servers"},
	{"metadata.broker.list", NULL, "use outbox.kafka_bootstrap_servers"},
	{"message.timeout.ms", NULL, "use outbox.delivery_timeout"},
	{"delivery.timeout.ms", NULL, "use outbox.delivery_timeout"},
	{"retries", NULL, "use outbox.delivery_timeout"},
	{"message.send.max.retries", NULL, "use outbox.delivery_timeout"},
	{"message.max.bytes", NULL, "use outbox.max_message_bytes"},
	{"queue.buffering.max.messages", NULL, "use outbox.batch_size"},
	{"queue.buffering.max.kbytes", NULL, "use outbox.batch_bytes"},

	/* code and commands inside the server */
	{"plugin.library.paths", NULL, "it loads code into the server"},
	{"ssl.engine.*", NULL, "it loads code into the server"},
	{"ssl.providers", NULL, "it loads code into the server"},
	{"sasl.kerberos.kinit.cmd", NULL, "it is a command of the shell"},

	/* the library's own business */
	{"test.*", NULL, "it is for tests of the library"},
	{"ut_*", NULL, "it is for tests of the library"},
	{"internal.*", NULL, "it is internal to the library"},
	{"enabled_events", NULL, "outbox sets it as it needs it"},
	{"log.queue", NULL, "outbox sets it as it needs it"},
	{"statistics.interval.ms", "0", "nothing reads the statistics"},
	{"enable.metrics.push", NULL, "outbox has metrics of its own"},
	{"*_cb", NULL, "it is no text but a function"},
	{"*_data", NULL, "it is no text but a pointer"},
	{"*opaque", NULL, "it is no text but a pointer"},
	{"ssl_*", NULL, "it is no text but a pointer"},
	{"default_topic_conf", NULL, "it is no text but a pointer"},
	{"interceptors", NULL, "it is no text but a pointer"},
	{"msg_order_cmp", NULL, "it is no text but a function"},

	/* notations that cannot work */
	{"*.pem", NULL,
	 "it takes several lines: name a file by the property that ends in "
	 ".location instead"},
	{"sasl.jaas.config", NULL,
	 "only Java knows it: use sasl.username and sasl.password"},
	{"ssl.truststore.*", NULL, "only Java knows it: use ssl.ca.location"},
};

/* Parts of the names of properties whose values nobody shall read. */
static const char *const secrets[] = {"password", "passphrase",
									  "secret",	  ".pem",
									  "jaas",	  "sasl.oauthbearer.config"};

/* The library puts them into a command of the shell. */
static const char *const in_shell[] = {"sasl.kerberos.principal",
									   "sasl.kerberos.keytab",
									   "sasl.kerberos.service.name"};

/* Two names of one property. */
static const char *const aliases[][2] = {
	{"request.required.acks", "acks"},
	{"queue.buffering.max.ms", "linger.ms"},
	{"compression.codec", "compression.type"},
	{"sasl.mechanisms", "sasl.mechanism"},
	{"max.in.flight", "max.in.flight.requests.per.connection"},
};

static bool AddChecked(KafkaProperties *list, int first, const char *name,
					   const char *value, bool in_file, char **problem);
static char *FindProblem(const char *name, const char *value, bool in_file);
static bool IsName(const char *name);
static bool IsSecret(const char *name);
static bool Matches(const char *pattern, const char *name);
static bool InAlternatives(const char *alternatives, const char *value);
static const char *MainName(const char *name);
static const char *ReadEntry(const char *at, char *name, char *value,
							 const char **problem);
static const char *ReadQuoted(const char *at, char *value,
							  const char **problem);
static char *Trim(char *text);

bool
KafkaOptionsValid(const char *text, char **detail)
{
	KafkaProperties list = {0};
	bool valid = KafkaPropertiesFromOptions(&list, text, detail);

	KafkaPropertiesFree(&list);
	return valid;
}

bool
KafkaPropertiesFromOptions(KafkaProperties *list, const char *text,
						   char **detail)
{
	int first = list->count;
	size_t room = strlen(text) + 1;
	char *name = palloc(room);
	char *value = palloc(room);
	const char *at = text;
	char *problem = NULL;

	for (int entry = 1; problem == NULL; entry++)
	{
		const char *syntax = NULL;

		at += strspn(at, BLANKS "\n");
		if (*at == '\0')
			break;

		at = ReadEntry(at, name, value, &syntax);
		if (syntax != NULL)
			problem = psprintf("Entry %d %s.", entry, syntax);
		else
			(void) AddChecked(list, first, name, value, false, &problem);
	}

	/* A secret may have stood where it must not. */
	explicit_bzero(value, room);
	pfree(value);
	pfree(name);
	*detail = problem;
	return problem == NULL;
}

bool
KafkaPropertiesFromFile(KafkaProperties *list, char *text, const char *path,
						char **detail)
{
	int first = list->count;
	char *next = text;

	for (int number = 1; next != NULL; number++)
	{
		char *line = next;
		char *name;
		char *equals;
		char *problem = NULL;

		next = strchr(line, '\n');
		if (next != NULL)
			*next++ = '\0';

		name = Trim(line);
		if (*name == '\0' || *name == '#')
			continue;

		equals = strchr(name, '=');
		if (equals == NULL)
			problem = pstrdup("It is not of the form name=value.");
		else
		{
			*equals = '\0';
			(void) AddChecked(list, first, Trim(name), Trim(equals + 1), true,
							  &problem);
		}
		if (problem != NULL)
		{
			*detail =
				psprintf("File \"%s\", line %d: %s", path, number, problem);
			pfree(problem);
			return false;
		}
	}
	return true;
}

void
KafkaPropertiesAdd(KafkaProperties *list, const char *name, const char *value)
{
	if (list->items == NULL)
	{
		list->room = 32;
		list->items = palloc(list->room * sizeof(KafkaProperty));
	}
	else if (list->count == list->room)
	{
		list->room *= 2;
		list->items =
			repalloc(list->items, list->room * sizeof(KafkaProperty));
	}
	list->items[list->count].name = pstrdup(name);
	list->items[list->count].value = pstrdup(value);
	list->count++;
}

void
KafkaPropertiesFree(KafkaProperties *list)
{
	for (int i = 0; i < list->count; i++)
	{
		KafkaProperty *item = &list->items[i];

		explicit_bzero(item->value, strlen(item->value));
		pfree(item->value);
		pfree(item->name);
	}
	if (list->items != NULL)
		pfree(list->items);
	memset(list, 0, sizeof(*list));
}

/* Items before `first` come from elsewhere and may be given again. */
static bool
AddChecked(KafkaProperties *list, int first, const char *name,
		   const char *value, bool in_file, char **problem)
{
	*problem = FindProblem(name, value, in_file);
	for (int i = first; *problem == NULL && i < list->count; i++)
	{
		if (strcmp(MainName(list->items[i].name), MainName(name)) == 0)
			*problem = psprintf("Property \"%s\" is given twice.", name);
	}
	if (*problem != NULL)
		return false;

	KafkaPropertiesAdd(list, name, value);
	return true;
}

/* What is wrong with a property, as a sentence without its value; or NULL. */
static char *
FindProblem(const char *name, const char *value, bool in_file)
{
	if (*name == '\0')
		return pstrdup("The name of the property is missing.");
	if (!IsName(name))
		return pstrdup(
			"The name of a property consists of lower-case letters, digits, dots and underscores.");

	for (int i = 0; i < lengthof(rules); i++)
	{
		if (!Matches(rules[i].pattern, name))
			continue;
		if (rules[i].allowed == NULL)
			return psprintf("Property \"%s\" is not allowed: %s.", name,
							rules[i].reason);
		if (!InAlternatives(rules[i].allowed, value))
			return psprintf("Property \"%s\" must be %s: %s.", name,
							rules[i].allowed, rules[i].reason);
	}

	if (!in_file && IsSecret(name))
		return psprintf(
			"Property \"%s\" may be secret: it belongs into the file that outbox.kafka_config_file names.",
			name);

	if (*value == '\0')
		return psprintf("Property \"%s\" has no value.", name);

	for (int i = 0; i < lengthof(in_shell); i++)
	{
		if (strcmp(name, in_shell[i]) == 0 &&
			strspn(
				value,
				"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./@:-") !=
				strlen(value))
			return psprintf(
				"Property \"%s\" holds a character that the shell could understand.",
				name);
	}

	/* Those two contexts write the whole configuration into the log. */
	if (strcmp(name, "debug") == 0 &&
		(strstr(value, "conf") != NULL || strstr(value, "all") != NULL))
		return pstrdup(
			"Property \"debug\" must not contain conf or all: secrets could reach the log.");
	return NULL;
}

/* So strict that comparisons need not care for case. */
static bool
IsName(const char *name)
{
	return strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789._") ==
		   strlen(name);
}

static bool
IsSecret(const char *name)
{
	for (int i = 0; i < lengthof(secrets); i++)
	{
		if (strstr(name, secrets[i]) != NULL)
			return true;
	}
	return false;
}

static bool
Matches(const char *pattern, const char *name)
{
	size_t len = strlen(pattern);
	size_t name_len = strlen(name);

	if (pattern[0] == '*')
		return name_len >= len - 1 &&
			   strcmp(name + name_len - (len - 1), pattern + 1) == 0;
	if (pattern[len - 1] == '*')
		return strncmp(name, pattern, len - 1) == 0;
	return strcmp(name, pattern) == 0;
}

/* Alternatives are separated by " or ". */
static bool
InAlternatives(const char *alternatives, const char *value)
{
	size_t len = strlen(value);

	for (const char *at = alternatives; at != NULL;)
	{
		const char *next = strstr(at, " or ");
		size_t n = next != NULL ? next - at : strlen(at);

		if (n == len && strncmp(at, value, n) == 0)
			return true;
		at = next != NULL ? next + strlen(" or ") : NULL;
	}
	return false;
}

static const char *
MainName(const char *name)
{
	for (int i = 0; i < lengthof(aliases); i++)
	{
		if (strcmp(name, aliases[i][0]) == 0)
			return aliases[i][1];
	}
	return name;
}

/*
 * Reads one entry of the options, which does not begin with a blank, and the
 * separator behind it.  Both buffers are as large as the whole text.
 */
static const char *
ReadEntry(const char *at, char *name, char *value, const char **problem)
{
	size_t len = strcspn(at, "=" SEPARATORS);

	if (at[len] != '=')
	{
		*problem =
			"is not of the form name=value (a value with commas stands in double quotes)";
		return at;
	}
	strlcpy(name, at, len + 1);
	(void) Trim(name);
	at += len + 1;
	at += strspn(at, BLANKS);

	if (*at == '"')
		at = ReadQuoted(at + 1, value, problem);
	else
	{
		len = strcspn(at, BLANKS SEPARATORS);
		strlcpy(value, at, len + 1);
		at += len;
	}
	if (*problem != NULL)
		return at;

	at += strspn(at, BLANKS);
	if (*at == ',')
		at++;
	else if (*at != '\0' && *at != '\n')
		*problem =
			"goes on behind its value (a value with blanks stands in double quotes)";
	return at;
}

/* Two quotes stand for one. */
static const char *
ReadQuoted(const char *at, char *value, const char **problem)
{
	for (;; at++)
	{
		if (*at == '\0')
		{
			*problem = "lacks the closing quote";
			break;
		}
		if (*at == '"' && *++at != '"')
			break;
		*value++ = *at;
	}
	*value = '\0';
	return at;
}

/* Cuts off blanks at the end and skips those at the begin. */
static char *
Trim(char *text)
{
	size_t len;

	text += strspn(text, BLANKS);
	len = strlen(text);
	while (len > 0 && strchr(BLANKS, text[len - 1]) != NULL)
		len--;
	text[len] = '\0';
	return text;
}
