/*
 * launcher.h
 *		From databases to workers.
 */
#ifndef OUTBOX_LAUNCHER_H
#define OUTBOX_LAUNCHER_H

#include "postgres.h"

#include "shmem.h"

/* What the launcher tells a worker, in bgw_extra. */
typedef struct WorkerStart
{
	int slot;
	uint32 generation; /* of the slot, at the start */
	Oid database;
	int number;
} WorkerStart;

extern void LauncherInit(void); /* registers the static worker */

/*
 * Set by SIGTERM; looked at between transactions, so that what the broker has
 * acknowledged is recorded before the worker ends.
 */
extern volatile sig_atomic_t OutboxShutdownRequested;

/* Which slot this worker has; set before RelayMain() is called. */
extern int OutboxMySlot;

/* Entry points of the processes (exported for the postmaster). */
extern PGDLLEXPORT void outbox_launcher_main(Datum arg);
extern PGDLLEXPORT void outbox_worker_main(Datum arg);

#endif
