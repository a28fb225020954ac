/*
 * databases.h
 *		What the launcher knows of the server's databases, and when each may
 *		have a worker.
 */
#ifndef OUTBOX_DATABASES_H
#define OUTBOX_DATABASES_H

#include "postgres.h"

#include "portability/instr_time.h"

#include "shmem.h"

/* Microseconds by a clock that nobody sets back. */
typedef int64 Clock;

#define CLOCK_MS(ms) (INT64CONST(1000) * (ms))

/* What to start first. */
typedef enum Urgency
{
	FIRST_WORKER, /* the extension is or may be there */
	PROBE,		  /* there was none */
	FURTHER_WORKER
} Urgency;

typedef struct Database
{
	Oid oid; /* hash key: must be first */
	NameData name;
	bool listed;	  /* exists and wants workers */
	bool absent;	  /* has no extension, as far as we know */
	bool look_again;  /* woken since its first worker started */
	Clock backoff;	  /* 0 = no error lately */
	Clock not_before; /* start none before */
	Clock due_since;  /* a worker is missing since; 0 = none */
} Database;

static inline Clock
ClockNow(void)
{
	instr_time now;

	INSTR_TIME_SET_CURRENT(now);
	return INSTR_TIME_GET_MICROSEC(now);
}

extern void DatabasesInit(void);

/* NULL if it is not known. */
extern Database *DatabasesFind(Oid database);

/*
 * Call before anything is started in a round: a worker that starts later sees
 * the commit that the wake-up is about.
 */
extern void DatabasesTakeWakeups(void);

/*
 * Brings the list up to date; false if that must wait.  Templates have no
 * workers: with one, CREATE DATABASE would find its template in use.
 */
extern bool DatabasesList(void);

/*
 * Who shall have a worker next, and which: of the most urgent, who waits
 * longest.  NULL if no worker is due.
 */
extern Database *DatabasesNext(Clock now, int *number, Urgency *urgency);

/*
 * Decides when the database may have its worker again.  A worker that ended
 * without a report has never got so far as to make one.
 */
extern void DatabasesNoteExit(const WorkerSlot *ended, Clock started,
							  bool reported);

/* Ends what is kept of databases that have neither extension nor worker. */
extern void DatabasesForget(void);

/*
 * Whether a DROP DATABASE, or another command that wants the database to
 * itself, is under way: a worker would only wait for it, and then perhaps find
 * no database.
 */
extern bool DatabasesBusy(Oid database);

#endif
