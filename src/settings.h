/*
 * settings.h
 *		What ALTER DATABASE and ALTER ROLE SET say, as a worker sees it.
 */
#ifndef OUTBOX_SETTINGS_H
#define OUTBOX_SETTINGS_H

#include "postgres.h"

/* Changes when they do; never 0.  Needs a transaction. */
extern uint64 SettingsFingerprint(void);

#endif
