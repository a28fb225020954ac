/*
 * transaction.h
 *		The frame of every transaction of a worker.
 */
#ifndef OUTBOX_TRANSACTION_H
#define OUTBOX_TRANSACTION_H

#include "postgres.h"

/* A transaction with SPI connected and a snapshot. */
extern void TransactionBegin(const char *activity);
extern void TransactionCommit(void);

/* A transaction alone: no SPI, no snapshot. */
extern void TransactionBeginBare(const char *activity);
extern void TransactionCommitBare(void);

/* After an error: ends whatever is open and reports it. */
extern void TransactionAbort(void);

#endif
