/*
 * announce.h
 *		What the current transaction tells others at its end.
 */
#ifndef OUTBOX_ANNOUNCE_H
#define OUTBOX_ANNOUNCE_H

#include "postgres.h"

/* It has enqueued in the lane: whoever owns it wakes at the commit. */
extern void AnnounceLane(int lane);

/* It may have enqueued something; what it rolled back to a savepoint counts. */
extern bool AnnouncedLanes(void);

/* All workers of this database wake at the commit. */
extern void AnnounceToWorkers(void);

/* The launcher wakes at the commit or the abort. */
extern void AnnounceToLauncher(void);

/*
 * A fresh database asks for its start, by a row of this transaction in
 * outbox.start_request.
 */
extern void AnnounceStart(void);

#endif
