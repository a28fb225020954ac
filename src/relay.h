/*
 * relay.h
 *		The loop of a worker: log, producer, ledger put together.
 */
#ifndef OUTBOX_RELAY_H
#define OUTBOX_RELAY_H

#include "postgres.h"

#include "shmem.h"

/*
 * Runs in a connected worker outside a transaction, after the extension has
 * been found.  Returns why the worker shall end; may also raise.  Takes and
 * releases its lanes itself.
 */
extern WorkerExit RelayMain(int slot, DatabaseEntry *db, int number);

#endif
