/*
 * writeback.h
 *		Progress moves in memory and is written behind.
 */
#ifndef OUTBOX_WRITEBACK_H
#define OUTBOX_WRITEBACK_H

#include "postgres.h"

#include "lane.h"
#include "shmem.h"

extern void WritebackInit(DatabaseEntry *db, Lane *lanes);

/* When the next record is due; DT_NOEND = there is nothing to record. */
extern TimestampTz WritebackDue(void);

/* Somebody waits for the record: do not wait for the interval. */
extern void WritebackHurry(void);

/* Records the progress of all owned lanes that have moved. */
extern void WritebackRun(TimestampTz now);

/* For so long nothing could be recorded that nothing more may be sent. */
extern bool WritebackIsStuck(TimestampTz now);

#endif
