/*
 * snapshot.c
 *		Progress as a snapshot of stored xids, and the differences of two.
 */
#include "postgres.h"

#include "access/transam.h"
#include "fmgr.h"
#include "lib/qunique.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "snapshot.h"

/*
 * An xid that was in progress costs one descent of each leaf's index; walking
 * over this many neighbours instead costs about the same.
 */
#define RANGE_GAP 64

static int compare_xids(const void *a, const void *b);

static Progress *
progress_alloc(int nxip, MemoryContext context)
{
	Progress *p = MemoryContextAlloc(context, offsetof(Progress, xip) +
												  nxip * sizeof(uint64));

	p->nxip = nxip;
	return p;
}

Progress *
ProgressEmpty(MemoryContext context)
{
	Progress *p = progress_alloc(0, context);

	p->xmin = p->xmax = FirstNormalTransactionId;
	return p;
}

Progress *
ProgressCopy(const Progress *progress, MemoryContext context)
{
	Progress *p = progress_alloc(progress->nxip, context);

	memcpy(p, progress,
		   offsetof(Progress, xip) + progress->nxip * sizeof(uint64));
	return p;
}

bool
ProgressEqual(const Progress *a, const Progress *b)
{
	return a->xmin == b->xmin && a->xmax == b->xmax && a->nxip == b->nxip &&
		   memcmp(a->xip, b->xip, a->nxip * sizeof(uint64)) == 0;
}

uint64
WidenXid(TransactionId xid, FullTransactionId next)
{
	uint64 epoch = EpochFromFullTransactionId(next);

	if (xid > XidFromFullTransactionId(next))
		epoch--;
	return epoch << 32 | xid;
}

Progress *
ProgressFromSnapshot(Snapshot snapshot, uint64 base, MemoryContext context)
{
	FullTransactionId next = ReadNextFullTransactionId();
	Progress *p = progress_alloc(snapshot->xcnt, context);

	p->xmin = base + WidenXid(snapshot->xmin, next);
	p->xmax = base + WidenXid(snapshot->xmax, next);
	for (uint32 i = 0; i < snapshot->xcnt; i++)
		p->xip[i] = base + WidenXid(snapshot->xip[i], next);
	qsort(p->xip, p->nxip, sizeof(uint64), compare_xids);

	/* A transaction that is just being prepared may be in it twice. */
	p->nxip = qunique(p->xip, p->nxip, sizeof(uint64), compare_xids);
	return p;
}

/* By the type's own text form, whose layout the server does not publish. */
Progress *
ProgressFromDatum(Datum value, MemoryContext context)
{
	char *text = DatumGetCString(DirectFunctionCall1(pg_snapshot_out, value));
	char *s = text;
	int n = 0;
	Progress *p;

	for (char *c = strrchr(text, ':'); *c != '\0'; c++)
		n += (*c == ',');
	p = progress_alloc(strrchr(text, ':')[1] == '\0' ? 0 : n + 1, context);
	p->xmin = strtou64(s, &s, 10);
	p->xmax = strtou64(s + 1, &s, 10);
	for (int i = 0; i < p->nxip; i++)
		p->xip[i] = strtou64(s + 1, &s, 10);
	pfree(text);
	return p;
}

Datum
ProgressToDatum(const Progress *progress)
{
	StringInfoData buf;
	Datum result;

	initStringInfo(&buf);
	appendStringInfo(&buf, UINT64_FORMAT ":" UINT64_FORMAT ":", progress->xmin,
					 progress->xmax);
	for (int i = 0; i < progress->nxip; i++)
		appendStringInfo(&buf, i == 0 ? UINT64_FORMAT : "," UINT64_FORMAT,
						 progress->xip[i]);
	result = DirectFunctionCall1(pg_snapshot_in, CStringGetDatum(buf.data));
	pfree(buf.data);
	return result;
}

bool
ProgressSees(const Progress *progress, uint64 xid)
{
	if (xid < progress->xmin)
		return true;
	if (xid >= progress->xmax)
		return false;
	return bsearch(&xid, progress->xip, progress->nxip, sizeof(uint64),
				   compare_xids) == NULL;
}

XidRange *
ProgressDifference(const Progress *then, const Progress *target, int *n)
{
	XidRange *ranges = palloc(sizeof(XidRange) * (then->nxip + 1));
	XidRange *last = NULL;

	*n = 0;
	for (int i = 0; i <= then->nxip; i++)
	{
		XidRange next;

		if (i < then->nxip)
		{
			if (!ProgressSees(target, then->xip[i]))
				continue;
			next.lo = then->xip[i];
			next.hi = next.lo + 1;
		}
		else
		{
			next.lo = then->xmax;
			next.hi = target->xmax;
			if (next.lo >= next.hi)
				break;
		}

		if (last != NULL && next.lo - last->hi <= RANGE_GAP)
			last->hi = next.hi;
		else
		{
			last = &ranges[(*n)++];
			*last = next;
		}
	}
	return ranges;
}

static int
compare_xids(const void *a, const void *b)
{
	uint64 x = *(const uint64 *) a;
	uint64 y = *(const uint64 *) b;

	return x < y ? -1 : x > y;
}
