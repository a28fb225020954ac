/*
 * lane_table.c
 *		Keeping outbox.lane.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "lane_table.h"
#include "transaction.h"

/* A template's copy has the rows of the other database's workers, too. */
void
LaneTableForgetDead(void)
{
	TransactionBegin("looking for lanes of dead workers");
	if (SPI_execute(
			"UPDATE outbox.lane AS l SET worker_pid = NULL, state = 'free', "
			"attempts = 0, next_attempt_at = NULL, "
			"updated_at = pg_catalog.clock_timestamp() "
			"FROM (SELECT s.lane FROM outbox.lane AS s "
			"WHERE s.state <> 'free' AND NOT EXISTS ("
			"SELECT FROM pg_catalog.pg_stat_activity AS a "
			"WHERE a.pid = s.worker_pid AND a.datid = ("
			"SELECT d.oid FROM pg_catalog.pg_database AS d "
			"WHERE d.datname = pg_catalog.current_database()) "
			"AND a.backend_type = 'outbox worker') "
			"FOR UPDATE SKIP LOCKED) AS s WHERE l.lane = s.lane",
			false, 0) != SPI_OK_UPDATE)
		elog(ERROR, "could not free the lanes of dead workers");
	TransactionCommit();
}

void
LaneTableWrite(const LaneNotice *notices, int n)
{
	static SPIPlanPtr plan = NULL;
	static Oid types[6] = {INT2OID, INT4OID,		TEXTOID,
						   INT4OID, TIMESTAMPTZOID, TEXTOID};

	TransactionBegin("describing lanes");
	if (plan == NULL)
	{
		plan = SPI_prepare(
			"UPDATE outbox.lane AS l SET worker_pid = $2, state = $3, attempts = $4, "
			"next_attempt_at = $5, last_error = coalesce($6, l.last_error), "
			"last_error_at = CASE WHEN $6 IS NULL THEN l.last_error_at "
			"ELSE pg_catalog.clock_timestamp() END, "
			"updated_at = pg_catalog.clock_timestamp() "
			"FROM (SELECT s.lane FROM outbox.lane AS s WHERE s.lane = $1 "
			"FOR UPDATE SKIP LOCKED) AS s WHERE l.lane = s.lane",
			lengthof(types), types);
		if (plan == NULL || SPI_keepplan(plan) != 0)
			elog(ERROR, "could not prepare the description of lanes");
	}
	for (int i = 0; i < n; i++)
	{
		const LaneNotice *l = &notices[i];
		Datum args[6];
		char nulls[6] = {' ', ' ', ' ', ' ', ' ', ' '};

		args[0] = Int16GetDatum(l->lane);
		args[1] = Int32GetDatum(MyProcPid);
		args[2] = CStringGetTextDatum(!l->owned	   ? "free"
									  : l->failing ? "retrying"
												   : "running");
		args[3] = Int32GetDatum(l->attempts);
		args[4] = TimestampTzGetDatum(l->next_attempt_at);
		args[5] = (Datum) 0;
		if (!l->owned)
			nulls[1] = 'n';
		if (l->attempts == 0 || l->next_attempt_at == 0)
			nulls[4] = 'n';
		if (l->last_error == NULL)
			nulls[5] = 'n';
		else
			args[5] = CStringGetTextDatum(l->last_error);
		if (SPI_execute_plan(plan, args, nulls, false, 0) != SPI_OK_UPDATE)
			elog(ERROR, "could not describe lane %d", l->lane);
	}
	TransactionCommit();
}
