/*
 * trouble.c
 *		Errors of the relay as people see them.
 */
#include "postgres.h"

#include "utils/timestamp.h"

#include "trouble.h"

/* Kinds that are told apart; the oldest gives its place to a new one. */
#define KINDS 32
#define INTERVAL_MS 60000

/* Lines of the client's own log that one interval lets through. */
#define CLIENT_LINES 30

typedef struct Kind
{
	int kind;
	TimestampTz logged_at; /* 0 = free */
	int suppressed;
} Kind;

static Kind *find_kind(int kind);

static DatabaseEntry *database = NULL;
static Kind kinds[KINDS];
static char last[256] = "";
static TimestampTz client_since = 0;
static int client_lines = 0;

void
TroubleInit(DatabaseEntry *db)
{
	database = db;
}

const char *
TroubleLast(void)
{
	return last;
}

static Kind *
find_kind(int kind)
{
	Kind *oldest = &kinds[0];

	for (int i = 0; i < KINDS; i++)
	{
		if (kinds[i].logged_at != 0 && kinds[i].kind == kind)
			return &kinds[i];
		if (kinds[i].logged_at < oldest->logged_at)
			oldest = &kinds[i];
	}
	oldest->kind = kind;
	oldest->logged_at = 0;
	oldest->suppressed = 0;
	return oldest;
}

void
TroubleReport(int kind, const char *text, const char *detail)
{
	TimestampTz now = GetCurrentTimestamp();
	Kind *k = find_kind(kind);

	if (detail != NULL && detail[0] != '\0')
		snprintf(last, sizeof(last), "%s: %s", text, detail);
	else
		strlcpy(last, text, sizeof(last));
	if (database != NULL)
		ShmemSetLastError(database, last);

	if (k->logged_at != 0 &&
		!TimestampDifferenceExceeds(k->logged_at, now, INTERVAL_MS))
	{
		k->suppressed++;
		return;
	}
	ereport(LOG, (errmsg("outbox: %s", last),
				  k->suppressed > 0
					  ? errdetail_plural(
							"The same was not logged %d more time before.",
							"The same was not logged %d more times before.",
							k->suppressed, k->suppressed)
					  : 0));
	k->logged_at = now;
	k->suppressed = 0;
}

void
TroubleForget(int kind)
{
	find_kind(kind)->logged_at = 0;
}

/* Debug lines come only where somebody has asked for them. */
void
TroubleClientLog(int level, const char *text)
{
	TimestampTz now = GetCurrentTimestamp();

	/*
	 * The producer is gapless by choice, and each retry of a refused message
	 * ends one: the relay tells that itself, at a limited rate.
	 */
	if (strstr(text, "enable.gapless.guarantee is experimental") != NULL ||
		strstr(text, "Gap-less ordering would not be guaranteed") != NULL)
		return;

	if (level < 7)
	{
		if (TimestampDifferenceExceeds(client_since, now, INTERVAL_MS))
		{
			client_since = now;
			client_lines = 0;
		}
		if (++client_lines > CLIENT_LINES)
			return;
	}
	ereport(LOG, (errmsg("outbox: librdkafka: %s", text)));
}
