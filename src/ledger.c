/*
 * ledger.c
 *		Reading and writing outbox.batch.
 *
 * The transaction that writes has an xid.  What it writes are snapshots of
 * earlier transactions that had none: its own would cover messages which it
 * has not seen.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "ledger.h"
#include "transaction.h"

static Datum int2_array(const int *values, int n);
static Datum build_array(Datum *values, int n, Oid type, int len, bool byval,
						 char align);
static int snapshot_index(const Progress *progress, const Progress **distinct,
						  int *n);

void
LedgerLoad(uint32 lanes, LaneProgress *progress, MemoryContext context)
{
	int wanted[OUTBOX_LANES];
	int n = 0;
	Oid types[1] = {INT2ARRAYOID};
	Datum args[1];

	for (int i = 0; i < OUTBOX_LANES; i++)
	{
		if (lanes & (1U << i))
			wanted[n++] = i;
	}
	TransactionBegin("loading progress");
	args[0] = int2_array(wanted, n);
	if (SPI_execute_with_args("SELECT lane, snapshot, target, last_seq "
							  "FROM outbox.progress WHERE lane = ANY ($1)",
							  1, types, args, NULL, true,
							  0) != SPI_OK_SELECT ||
		SPI_processed != n)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("table \"outbox.lane\" does not have its 16 rows")));
	for (int i = 0; i < n; i++)
	{
		HeapTuple tuple = SPI_tuptable->vals[i];
		TupleDesc desc = SPI_tuptable->tupdesc;
		bool isnull;
		int lane = DatumGetInt16(SPI_getbinval(tuple, desc, 1, &isnull));
		LaneProgress *p = &progress[lane];
		Datum value;

		p->lane = lane;
		p->then =
			ProgressFromDatum(SPI_getbinval(tuple, desc, 2, &isnull), context);
		value = SPI_getbinval(tuple, desc, 3, &isnull);
		p->target = isnull ? NULL : ProgressFromDatum(value, context);
		value = SPI_getbinval(tuple, desc, 4, &isnull);
		p->last_seq = isnull ? 0 : DatumGetInt64(value);
	}
	TransactionCommit();
}

void
LedgerWrite(const LedgerRecord *r)
{
	enum
	{
		A_PID,
		A_SNAPSHOTS,
		A_LANES,
		A_LANE_SNAPSHOT,
		A_LANE_TARGET,
		A_LANE_SEQ,
		A_MESSAGES,
		A_BYTES,
		A_TOPICS,
		A_RANGE_TOPIC,
		A_RANGE_PARTITION,
		A_RANGE_FIRST,
		A_RANGE_LAST,
		A_COUNT
	};
	static SPIPlanPtr plan = NULL;
	static Oid pg_snapshot_array = InvalidOid;
	Datum args[A_COUNT];
	const Progress *distinct[2 * OUTBOX_LANES];
	int ndistinct = 0;
	int lanes[OUTBOX_LANES];
	int snapshots[OUTBOX_LANES];
	int targets[OUTBOX_LANES];
	Datum seqs[OUTBOX_LANES];
	Datum *datums;
	Datum *partitions;
	Datum *firsts;
	Datum *lasts;
	int *range_topics;
	const char **topics;
	int ntopics = 0;

	TransactionBegin("recording progress");
	for (int i = 0; i < r->nlanes; i++)
	{
		const LaneProgress *p = &r->lanes[i];

		lanes[i] = p->lane;
		snapshots[i] = snapshot_index(p->then, distinct, &ndistinct);
		targets[i] = p->target == NULL
						 ? 0
						 : snapshot_index(p->target, distinct, &ndistinct);
		seqs[i] = Int64GetDatum(p->last_seq);
	}
	datums = palloc(sizeof(Datum) * ndistinct);
	for (int i = 0; i < ndistinct; i++)
		datums[i] = ProgressToDatum(distinct[i]);

	topics = palloc(sizeof(char *) * (r->nranges + 1));
	range_topics = palloc(sizeof(int) * (r->nranges + 1));
	partitions = palloc(sizeof(Datum) * (r->nranges + 1));
	firsts = palloc(sizeof(Datum) * (r->nranges + 1));
	lasts = palloc(sizeof(Datum) * (r->nranges + 1));
	for (int i = 0; i < r->nranges; i++)
	{
		const OffsetRange *range = &r->ranges[i];
		int t = 0;

		while (t < ntopics && strcmp(topics[t], range->topic) != 0)
			t++;
		if (t == ntopics)
			topics[ntopics++] = range->topic;
		range_topics[i] = t + 1;
		partitions[i] = Int32GetDatum(range->partition);
		firsts[i] = Int64GetDatum(range->first);
		lasts[i] = Int64GetDatum(range->last);
	}

	args[A_PID] = Int32GetDatum(MyProcPid);
	args[A_SNAPSHOTS] = build_array(datums, ndistinct, PG_SNAPSHOTOID, -1,
									false, TYPALIGN_DOUBLE);
	args[A_LANES] = int2_array(lanes, r->nlanes);
	args[A_LANE_SNAPSHOT] = int2_array(snapshots, r->nlanes);
	args[A_LANE_TARGET] = int2_array(targets, r->nlanes);
	args[A_LANE_SEQ] =
		build_array(seqs, r->nlanes, INT8OID, 8, true, TYPALIGN_DOUBLE);
	args[A_MESSAGES] = Int64GetDatum(r->messages);
	args[A_BYTES] = Int64GetDatum(r->bytes);
	datums = palloc(sizeof(Datum) * (ntopics + 1));
	for (int i = 0; i < ntopics; i++)
		datums[i] = CStringGetTextDatum(topics[i]);
	args[A_TOPICS] =
		build_array(datums, ntopics, TEXTOID, -1, false, TYPALIGN_INT);
	args[A_RANGE_TOPIC] = int2_array(range_topics, r->nranges);
	args[A_RANGE_PARTITION] =
		build_array(partitions, r->nranges, INT4OID, 4, true, TYPALIGN_INT);
	args[A_RANGE_FIRST] =
		build_array(firsts, r->nranges, INT8OID, 8, true, TYPALIGN_DOUBLE);
	args[A_RANGE_LAST] =
		build_array(lasts, r->nranges, INT8OID, 8, true, TYPALIGN_DOUBLE);

	if (plan == NULL)
	{
		Oid types[A_COUNT] = {INT4OID,		InvalidOid,	  INT2ARRAYOID,
							  INT2ARRAYOID, INT2ARRAYOID, INT8ARRAYOID,
							  INT8OID,		INT8OID,	  TEXTARRAYOID,
							  INT2ARRAYOID, INT4ARRAYOID, INT8ARRAYOID,
							  INT8ARRAYOID};

		pg_snapshot_array = get_array_type(PG_SNAPSHOTOID);
		types[A_SNAPSHOTS] = pg_snapshot_array;
		plan = SPI_prepare(
			"INSERT INTO outbox.batch (worker_pid, snapshots, lanes, "
			"lane_snapshot, lane_target, lane_seq, messages, bytes, topics, "
			"range_topic, range_partition, range_first, range_last) "
			"VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
			A_COUNT, types);
		if (plan == NULL || SPI_keepplan(plan) != 0)
			elog(ERROR, "could not prepare the record of progress");
	}
	if (SPI_execute_plan(plan, args, NULL, false, 0) != SPI_OK_INSERT)
		elog(ERROR, "could not record progress");
	TransactionCommit();
}

/* 1-based place among the distinct snapshots, added where it is new. */
static int
snapshot_index(const Progress *progress, const Progress **distinct, int *n)
{
	for (int i = 0; i < *n; i++)
	{
		if (ProgressEqual(distinct[i], progress))
			return i + 1;
	}
	distinct[(*n)++] = progress;
	return *n;
}

static Datum
int2_array(const int *values, int n)
{
	Datum *datums = palloc(sizeof(Datum) * (n + 1));

	for (int i = 0; i < n; i++)
		datums[i] = Int16GetDatum(values[i]);
	return build_array(datums, n, INT2OID, 2, true, TYPALIGN_SHORT);
}

static Datum
build_array(Datum *values, int n, Oid type, int len, bool byval, char align)
{
	return PointerGetDatum(
		construct_array(values, n, type, len, byval, align));
}
