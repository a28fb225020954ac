/*-------------------------------------------------------------------------
 *
 * load.c
 *	  Concurrent clients that enqueue in every way and end their transactions
 *	  in every way, for the tests.
 *
 * load CONNINFO TOPICS [NAME=VALUE...]
 *
 *	  clients=16       connections
 *	  keys=1000        different keys
 *	  seconds=0        end after so long (0: only when standard input says so)
 *	  rate=0           transactions a second, of all clients together (0: all
 *	                   that they can)
 *	  prepare=8        per cent of the transactions that are prepared
 *	  reconnect=0      1: a lost connection is no fault, make it again
 *
 * Every key belongs to one of the TOPICS (separated by commas).  A transaction
 * locks a few keys, each by a statement before it enqueues for it, and notes
 * each message in the table load_sent, in the same transaction, by a tag that
 * is in the payload too.  What stands in load_sent and what came to Kafka has
 * to be the same, whatever happens.
 *
 * Transactions that are prepared are ended some time later, at the latest by
 * the end of the program, which prints its counters as "NAME VALUE".
 *
 *-------------------------------------------------------------------------
 */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <libpq-fe.h>

#define MAX_TOPICS 8
#define MAX_CLIENTS 200

typedef struct Client
{
	int number;
	PGconn *conn;
	unsigned int seed;
	long messages; /* tags given so far */
	bool failed;   /* the transaction has to be rolled back */
	char held[64]; /* transaction that is prepared, "" = none */
	int hold_for;  /* transactions until it ends */
} Client;

static const char *conninfo;
static char *topics[MAX_TOPICS];
static int ntopics;
static int option_clients = 16;
static int option_keys = 1000;
static int option_seconds = 0;
static int option_rate = 0;
static int option_prepare = 8;
static int option_reconnect = 0;

static atomic_bool stopping;
static atomic_long transactions;
static atomic_long committed;
static atomic_long rolled_back;
static atomic_long prepared;
static atomic_long savepoints;
static atomic_long enqueued;
static atomic_long conflicts;
static atomic_long connections_lost;
static atomic_long faults;
static pthread_mutex_t fault_lock = PTHREAD_MUTEX_INITIALIZER;

static const char *const statements[][2] = {
	{"lock_row", "SELECT FROM load_key WHERE k = $1::int FOR NO KEY UPDATE"},
	{"lock_update", "UPDATE load_key SET n = n + 1 WHERE k = $1::int"},
	{"lock_advisory", "SELECT pg_advisory_xact_lock(4711, $1::int)"},
	{"enqueue",
	 "WITH e AS (SELECT outbox.enqueue('order', $1, 'changed', $2::json, "
	 "topic => $3, headers => '{\"by\": \"enqueue\"}') AS id) "
	 "INSERT INTO load_sent (tag, id) SELECT $4, id FROM e"},
	{"enqueue_key",
	 "WITH e AS (SELECT outbox.enqueue('order', 'some of ' || $1, 'changed', "
	 "$2::jsonb, topic => $3, key => $1) AS id) "
	 "INSERT INTO load_sent (tag, id) SELECT $4, id FROM e"},
	{"insert",
	 "WITH m AS (INSERT INTO outbox.message (aggregate_type, aggregate_id, "
	 "event_type, payload, topic) VALUES ('order', $1, 'changed', $2, $3) "
	 "RETURNING created_at, xid, seq) INSERT INTO load_sent (tag, id) "
	 "SELECT $4, outbox.message_id(created_at, xid, seq) FROM m"},
	{"batch",
	 "WITH e AS (SELECT outbox.enqueue_batch(json_build_array("
	 "json_build_object('aggregate_type', 'order', 'aggregate_id', $1::text, "
	 "'event_type', 'changed', 'payload', $2::json, 'topic', $3::text))) AS ids) "
	 "INSERT INTO load_sent (tag, id) SELECT $4, ids[1] FROM e"},
	{"note", "INSERT INTO load_sent (tag) VALUES ($1)"},
};

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void
pause_ms(int ms)
{
	struct timespec t = {ms / 1000, ms % 1000 * 1000000L};

	nanosleep(&t, NULL);
}

static int
pick(Client *client, int n)
{
	return rand_r(&client->seed) % n;
}

/* --- connections and statements --- */

/* A fault is what a healthy server under this load never answers. */
static void
note_fault(const char *what, const char *why)
{
	pthread_mutex_lock(&fault_lock);
	if (atomic_fetch_add(&faults, 1) < 20)
		fprintf(stderr, "load: %s: %s\n", what, why);
	pthread_mutex_unlock(&fault_lock);
}

static void
ignore_notice(void *arg, const char *message)
{
	(void) arg;
	(void) message;
}

/* Errors without a code are the client library's: the connection is lost. */
static bool
is_disconnection(Client *client, const char *code)
{
	return PQstatus(client->conn) != CONNECTION_OK ||
		   (option_reconnect &&
			(code == NULL || strncmp(code, "57P", 3) == 0));
}

static bool
connect_client(Client *client)
{
	client->conn = PQconnectdb(conninfo);
	if (PQstatus(client->conn) != CONNECTION_OK)
	{
		if (!option_reconnect)
		{
			note_fault("connection", PQerrorMessage(client->conn));
			atomic_store(&stopping, true);
		}
		return false;
	}
	PQsetNoticeProcessor(client->conn, ignore_notice, NULL);
	for (size_t i = 0; i < sizeof(statements) / sizeof(statements[0]); i++)
	{
		PGresult *result = PQprepare(client->conn, statements[i][0],
									 statements[i][1], 0, NULL);
		bool good = PQresultStatus(result) == PGRES_COMMAND_OK;

		if (!good && !is_disconnection(
						 client, PQresultErrorField(result, PG_DIAG_SQLSTATE)))
		{
			note_fault(statements[i][0], PQresultErrorMessage(result));
			atomic_store(&stopping, true);
		}
		PQclear(result);
		if (!good)
			return false;
	}
	PQclear(PQexec(client->conn, "SET lock_timeout = '100ms'"));
	return true;
}

static void
keep_connected(Client *client)
{
	while (client->conn == NULL || PQstatus(client->conn) != CONNECTION_OK)
	{
		if (client->conn != NULL)
		{
			if (!option_reconnect)
				note_fault("connection", PQerrorMessage(client->conn));
			atomic_fetch_add(&connections_lost, 1);
			pause_ms(20);
		}
		PQfinish(client->conn);
		client->conn = NULL;
		if (stopping)
			return;
		if (!connect_client(client))
		{
			PQfinish(client->conn);
			client->conn = NULL;
			pause_ms(20);
		}
	}
}

/* Lock time-outs and deadlocks belong to the load. */
static bool
succeeded(Client *client, PGresult *result, const char *what)
{
	ExecStatusType status = PQresultStatus(result);
	const char *code = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	bool good = status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK ||
				status == PGRES_COPY_IN;

	if (!good)
	{
		client->failed = true;
		if (code != NULL &&
			(strcmp(code, "55P03") == 0 || strcmp(code, "40P01") == 0))
			atomic_fetch_add(&conflicts, 1);
		else if (!is_disconnection(client, code))
			note_fault(what, PQresultErrorMessage(result));
	}
	PQclear(result);
	return good;
}

static bool
execute(Client *client, const char *format, ...)
{
	char sql[256];
	va_list args;

	if (client->failed)
		return false;
	va_start(args, format);
	vsnprintf(sql, sizeof(sql), format, args);
	va_end(args);
	return succeeded(client, PQexec(client->conn, sql), sql);
}

static bool
run_prepared(Client *client, const char *name, int n, const char **values)
{
	if (client->failed)
		return false;
	return succeeded(
		client, PQexecPrepared(client->conn, name, n, values, NULL, NULL, 0),
		name);
}

/* --- messages --- */

/* A key is always locked in the same way. */
static void
lock_key(Client *client, int key)
{
	char text[16];
	const char *values[1] = {text};

	snprintf(text, sizeof(text), "%d", key);
	run_prepared(client,
				 key % 3 == 2		   ? "lock_advisory"
				 : pick(client, 2) > 0 ? "lock_row"
									   : "lock_update",
				 1, values);
}

static void
copy_message(Client *client, const char *key, const char *topic,
			 const char *payload, const char *tag)
{
	char row[512];
	int length;

	if (!execute(client, "COPY outbox.message (aggregate_type, aggregate_id, "
						 "event_type, payload, topic) FROM STDIN"))
		return;
	length = snprintf(row, sizeof(row), "order\t%s\tchanged\t%s\t%s\n", key,
					  payload, topic);
	PQputCopyData(client->conn, row, length);
	PQputCopyEnd(client->conn, NULL);
	for (PGresult *result; (result = PQgetResult(client->conn)) != NULL;)
		succeeded(client, result, "COPY");
	run_prepared(client, "note", 1, &tag);
}

static void
send_message(Client *client, int key_number)
{
	static const char *const ways[] = {"enqueue", "enqueue", "enqueue_key",
									   "insert",  "batch",	 NULL};
	const char *way = ways[pick(client, 6)];
	char key[32];
	char tag[64];
	char payload[256];
	const char *topic = topics[key_number % ntopics];
	const char *values[4] = {key, payload, topic, tag};

	snprintf(key, sizeof(key), "key %d", key_number);
	snprintf(tag, sizeof(tag), "%d-%d-%ld", (int) getpid(), client->number,
			 ++client->messages);
	snprintf(payload, sizeof(payload), "{\"tag\":\"%s\",\"pad\":\"%.*s\"}",
			 tag, pick(client, 100),
			 "....................................................."
			 "...............................................");
	if (way == NULL)
		copy_message(client, key, topic, payload, tag);
	else
		run_prepared(client, way, 4, values);
	atomic_fetch_add(&enqueued, 1);
}

static void
send_messages(Client *client, int key)
{
	for (int n = 1 + pick(client, 3); n > 0 && !client->failed; n--)
		send_message(client, key);
}

/* What is locked and enqueued in a savepoint stays or goes with it. */
static void
use_savepoint(Client *client, int key)
{
	execute(client, "SAVEPOINT s");
	lock_key(client, key);
	send_messages(client, key);
	execute(client, pick(client, 2) > 0 ? "RELEASE SAVEPOINT s"
										: "ROLLBACK TO SAVEPOINT s");
	atomic_fetch_add(&savepoints, 1);
}

/* --- transactions --- */

static void
end_held(Client *client)
{
	char sql[128];
	PGresult *result;
	const char *code;

	if (client->held[0] == '\0')
		return;
	snprintf(sql, sizeof(sql), "%s PREPARED '%s'",
			 pick(client, 3) > 0 ? "COMMIT" : "ROLLBACK", client->held);
	result = PQexec(client->conn, sql);
	code = PQresultErrorField(result, PG_DIAG_SQLSTATE);

	/* Nobody knows how far the statement came whose connection was lost. */
	if (option_reconnect && code != NULL && strcmp(code, "42704") == 0)
	{
		client->held[0] = '\0';
		PQclear(result);
	}
	else if (succeeded(client, result, sql))
		client->held[0] = '\0';
	client->failed = false;
}

static void
prepare_transaction(Client *client)
{
	snprintf(client->held, sizeof(client->held), "load-%d-%d-%ld",
			 (int) getpid(), client->number, client->messages);
	if (execute(client, "PREPARE TRANSACTION '%s'", client->held))
	{
		atomic_fetch_add(&prepared, 1);
		client->hold_for = pick(client, 8);
	}
	else if (PQstatus(client->conn) == CONNECTION_OK)
		client->held[0] = '\0';
}

static void
end_transaction(Client *client)
{
	int end = pick(client, 100);

	if (client->failed)
	{
		client->failed = false;
		execute(client, "ROLLBACK");
		atomic_fetch_add(&rolled_back, 1);
	}
	else if (end < 15)
	{
		execute(client, "ROLLBACK");
		atomic_fetch_add(&rolled_back, 1);
	}
	else if (end < 15 + option_prepare && client->held[0] == '\0')
		prepare_transaction(client);
	else if (execute(client, "COMMIT"))
		atomic_fetch_add(&committed, 1);
}

static void
run_transaction(Client *client)
{
	int first = pick(client, option_keys);
	int keys[3];
	int n = 1 + pick(client, 3);
	bool conflict;

	client->failed = false;
	execute(client, "BEGIN");
	for (int i = 0; i < n && !client->failed; i++)
	{
		keys[i] = first + i * (1 + pick(client, 5));
		if (keys[i] >= option_keys)
			keys[i] = first;
		lock_key(client, keys[i]);
		send_messages(client, keys[i]);
	}
	if (pick(client, 4) == 0)
		use_savepoint(client, pick(client, option_keys));
	if (pick(client, 4) == 0)
		send_messages(client, keys[0]);

	/* Somebody may wait for what the prepared transaction has locked: we. */
	conflict = client->failed;
	end_transaction(client);
	if (client->held[0] != '\0' && (conflict || client->hold_for-- <= 0))
		end_held(client);
	atomic_fetch_add(&transactions, 1);
}

static void *
run_client(void *arg)
{
	Client *client = arg;
	double start = now();
	long done = 0;

	while (!stopping)
	{
		keep_connected(client);
		if (client->conn == NULL)
			break;
		run_transaction(client);
		done++;
		while (option_rate > 0 && !stopping &&
			   now() - start < (double) done * option_clients / option_rate)
			pause_ms(2);
	}
	if (client->conn != NULL)
		end_held(client);
	PQfinish(client->conn);
	return NULL;
}

/* What clients left behind whose connections were lost. */
static void
end_prepared(void)
{
	Client client = {0};
	PGresult *result;
	char sql[128];

	client.seed = getpid();
	keep_connected(&client);
	if (client.conn == NULL)
		return;
	snprintf(sql, sizeof(sql),
			 "SELECT gid FROM pg_prepared_xacts WHERE gid LIKE 'load-%d-%%'",
			 (int) getpid());
	result = PQexec(client.conn, sql);
	for (int i = 0; i < PQntuples(result); i++)
	{
		snprintf(client.held, sizeof(client.held), "%s",
				 PQgetvalue(result, i, 0));
		end_held(&client);
	}
	PQclear(result);
	PQfinish(client.conn);
}

/* --- the program --- */

static void
parse_option(const char *argument)
{
	static const struct
	{
		const char *name;
		int *value;
	} options[] = {
		{"clients", &option_clients}, {"keys", &option_keys},
		{"seconds", &option_seconds}, {"rate", &option_rate},
		{"prepare", &option_prepare}, {"reconnect", &option_reconnect},
	};

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
	{
		size_t length = strlen(options[i].name);

		if (strncmp(argument, options[i].name, length) != 0 ||
			argument[length] != '=')
			continue;
		*options[i].value = atoi(argument + length + 1);
		return;
	}
	fprintf(stderr, "load: no such option: %s\n", argument);
	exit(2);
}

int
main(int argc, char **argv)
{
	static Client clients[MAX_CLIENTS];
	pthread_t threads[MAX_CLIENTS];
	double start = now();
	pid_t parent = getppid();

	if (argc < 3)
	{
		fprintf(stderr, "load: usage: CONNINFO TOPICS [NAME=VALUE...]\n");
		return 2;
	}
	conninfo = argv[1];
	for (char *topic = strtok(argv[2], ",");
		 topic != NULL && ntopics < MAX_TOPICS; topic = strtok(NULL, ","))
		topics[ntopics++] = topic;
	for (int i = 3; i < argc; i++)
		parse_option(argv[i]);
	if (option_clients > MAX_CLIENTS)
		option_clients = MAX_CLIENTS;
	signal(SIGPIPE, SIG_IGN);

	for (int i = 0; i < option_clients; i++)
	{
		clients[i].number = i;
		clients[i].seed = getpid() * 1000 + i;
		if (pthread_create(&threads[i], NULL, run_client, &clients[i]) != 0)
			return 2;
	}

	/*
	 * The test writes to standard input, or closes it, when it has enough.
	 * Other children of the test may hold it open when the test is gone.
	 */
	while (!stopping)
	{
		struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};

		if (poll(&input, 1, 50) == 1 || getppid() != parent ||
			(option_seconds > 0 && now() - start >= option_seconds))
			stopping = true;
	}
	for (int i = 0; i < option_clients; i++)
		pthread_join(threads[i], NULL);
	end_prepared();

	printf("transactions %ld\ncommitted %ld\nrolled_back %ld\nprepared %ld\n"
		   "savepoints %ld\nenqueued %ld\nconflicts %ld\n"
		   "connections_lost %ld\nfaults %ld\n",
		   transactions, committed, rolled_back, prepared, savepoints,
		   enqueued, conflicts, connections_lost, faults);
	return 0;
}
