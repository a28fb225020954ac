/*
 * trouble.h
 *		Errors of the relay as people see them: once per kind and minute in
 *		the log, the last one in shared memory.
 */
#ifndef OUTBOX_TROUBLE_H
#define OUTBOX_TROUBLE_H

#include "postgres.h"

#include "shmem.h"

extern void TroubleInit(DatabaseEntry *db);

/* kind: what is counted together, for example a code of the client. */
extern void TroubleReport(int kind, const char *text, const char *detail);

/* The next report of this kind is logged, however soon it comes. */
extern void TroubleForget(int kind);

/* A line of the client's own log. */
extern void TroubleClientLog(int level, const char *text);

/* The text of the last report; empty where there was none. */
extern const char *TroubleLast(void);

/* Kinds that are not codes of the client, which lie between -200 and 200. */
#define TROUBLE_CONFIGURATION 1001
#define TROUBLE_PRODUCER 1002
#define TROUBLE_NO_ANSWER 1003
#define TROUBLE_RECORD 1004

#endif
