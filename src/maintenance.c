/*
 * maintenance.c
 *		A worker's side job: what outbox.maintain() does, step by step.
 */
#include "postgres.h"

#include "executor/spi.h"
#include "utils/memutils.h"

#include "maintenance.h"
#include "transaction.h"

typedef struct Step
{
	char *table;
	char *statement;
} Step;

static Step *list_steps(uint64 *n);
static bool run_step(const Step *step);

/* The rest of a table waits where a lock was refused. */
void
MaintenanceRun(void)
{
	uint64 n;
	Step *steps = list_steps(&n);
	const char *refused = "";

	for (uint64 i = 0; i < n; i++)
	{
		if (strcmp(steps[i].table, refused) != 0 && !run_step(&steps[i]))
			refused = steps[i].table;
	}
}

static Step *
list_steps(uint64 *n)
{
	MemoryContext caller = CurrentMemoryContext;
	Step *steps;

	TransactionBegin("looking for maintenance");
	if (SPI_execute("SELECT * FROM outbox.maintenance_steps()", true, 0) !=
		SPI_OK_SELECT)
		elog(ERROR, "could not list the steps of maintenance");
	*n = SPI_processed;
	steps = MemoryContextAlloc(caller, sizeof(Step) * (*n + 1));
	for (uint64 i = 0; i < *n; i++)
	{
		HeapTuple tuple = SPI_tuptable->vals[i];
		TupleDesc desc = SPI_tuptable->tupdesc;

		steps[i].table =
			MemoryContextStrdup(caller, SPI_getvalue(tuple, desc, 1));
		steps[i].statement =
			MemoryContextStrdup(caller, SPI_getvalue(tuple, desc, 2));
	}
	TransactionCommit();
	return steps;
}

/* False where a lock was refused. */
static bool
run_step(const Step *step)
{
	bool refused;

	TransactionBegin(step->statement);
	if (SPI_execute(step->statement, false, 0) != SPI_OK_SELECT ||
		SPI_processed != 1)
		elog(ERROR, "maintenance step failed: %s", step->statement);
	(void) SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1,
						 &refused);
	TransactionCommit();
	return !refused;
}
