/*
 * maintenance.c
 *		A worker's side job: what outbox.maintain() does, step by step.
 */
#include "postgres.h"

#include "executor/spi.h"
#include "utils/memutils.h"

#include "maintenance.h"
#include "transaction.h"

void
MaintenanceRun(void)
{
	MemoryContext caller = CurrentMemoryContext;
	char **steps;
	uint64 n;

	TransactionBegin("looking for maintenance");
	if (SPI_execute("SELECT outbox.maintenance_steps()", true, 0) !=
		SPI_OK_SELECT)
		elog(ERROR, "could not list the steps of maintenance");
	n = SPI_processed;
	steps = MemoryContextAlloc(caller, sizeof(char *) * (n + 1));
	for (uint64 i = 0; i < n; i++)
		steps[i] = MemoryContextStrdup(
			caller,
			SPI_getvalue(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1));
	TransactionCommit();

	for (uint64 i = 0; i < n; i++)
	{
		TransactionBegin(steps[i]);
		if (SPI_execute(steps[i], false, 0) != SPI_OK_SELECT)
			elog(ERROR, "maintenance step failed: %s", steps[i]);
		TransactionCommit();
	}
}
