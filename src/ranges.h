/*
 * ranges.h
 *		Where messages went since the last record: offsets by topic and
 *		partition.
 */
#ifndef OUTBOX_RANGES_H
#define OUTBOX_RANGES_H

#include "postgres.h"

#include "ledger.h"

extern void RangesInit(void);
extern void RangesAdd(const char *topic, int partition, int64 offset);

/* All ranges, by topic; palloc'd, names included in the collected memory. */
extern OffsetRange *RangesList(int *n);
extern void RangesReset(void);

#endif
