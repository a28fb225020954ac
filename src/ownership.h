/*
 * ownership.h
 *		Which lanes are this worker's: taking, handing over, telling people.
 */
#ifndef OUTBOX_OWNERSHIP_H
#define OUTBOX_OWNERSHIP_H

#include "postgres.h"

#include "lane.h"

extern void OwnershipInit(int slot, Lane *lanes);

/* Lanes that the worker owns, a bit each. */
extern uint32 OwnershipLanes(void);

/* Takes and gives lanes so that each worker has its share. */
extern void OwnershipShare(bool running, TimestampTz now);

/* Brings the rows of outbox.lane up to date, at a limited rate. */
extern void OwnershipDescribe(TimestampTz now);
extern TimestampTz OwnershipDescribeDue(void);

#endif
