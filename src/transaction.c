/*
 * transaction.c
 *		The frame of every transaction of a worker.
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "transaction.h"

/* What the caller worked in, which the end of a transaction forgets. */
static MemoryContext caller = NULL;

void
TransactionBeginBare(const char *activity)
{
	caller = CurrentMemoryContext;
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	pgstat_report_activity(STATE_RUNNING, activity);
}

void
TransactionCommitBare(void)
{
	CommitTransactionCommand();
	MemoryContextSwitchTo(caller);
	pgstat_report_stat(false);
	pgstat_report_activity(STATE_IDLE, NULL);
}

void
TransactionBegin(const char *activity)
{
	TransactionBeginBare(activity);
	SPI_connect();
	PushActiveSnapshot(GetTransactionSnapshot());
}

void
TransactionCommit(void)
{
	PopActiveSnapshot();
	SPI_finish();
	TransactionCommitBare();
}

void
TransactionAbort(void)
{
	HOLD_INTERRUPTS();
	EmitErrorReport();
	AbortOutOfAnyTransaction();
	FlushErrorState();
	pgstat_report_activity(STATE_IDLE, NULL);
	RESUME_INTERRUPTS();
}
