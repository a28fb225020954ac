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
bool
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
	return refused[0] == '\0';
}

static char *
copy_value(HeapTuple tuple, TupleDesc desc, int attno, MemoryContext context)
{
	char *value = SPI_getvalue(tuple, desc, attno);

	if (value == NULL)
		elog(ERROR, "a step of maintenance is null");
	return MemoryContextStrdup(context, value);
}

static Step *
list_steps(uint64 *n)
{
	MemoryContext caller = CurrentMemoryContext;
	Step *steps;

	TransactionBegin("looking for maintenance");
	if (SPI_execute(
			"SELECT s.\"table\", s.step FROM outbox.maintenance_steps() AS s",
			true, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not list the steps of maintenance");
	*n = SPI_processed;
	steps = MemoryContextAlloc(caller, sizeof(Step) * (*n + 1));
	for (uint64 i = 0; i < *n; i++)
	{
		HeapTuple tuple = SPI_tuptable->vals[i];
		TupleDesc desc = SPI_tuptable->tupdesc;

		steps[i].table = copy_value(tuple, desc, 1, caller);
		steps[i].statement = copy_value(tuple, desc, 2, caller);
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
