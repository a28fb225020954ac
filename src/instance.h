/*
 * instance.h
 *		Whose life this is: fresh, started, or a copy that must not speak.
 */
#ifndef OUTBOX_INSTANCE_H
#define OUTBOX_INSTANCE_H

#include "postgres.h"

typedef struct Instance
{
	bool fresh;		/* one row, never started */
	bool started;	/* one row, started in this database */
	int life;		/* that new rows are written with */
	char *source;	/* ce_source */
	char *identity; /* stored at the start; NULL = none */
} Instance;

/*
 * The current state, from the latest snapshot.  Call it only after the lock
 * on outbox.message has been taken: outbox.start() relies on that.
 */
extern const Instance *InstanceGet(void);

/* OUTBOX_LIFE_BASE of the life that new rows are written with. */
extern uint64 InstanceXidBase(void);

/* Where outbox.identity is set, it has to be the stored one. */
extern bool InstanceIdentityMatches(const Instance *instance);

#endif
