/*
 * maintenance.h
 *		A worker's side job: partitions.
 */
#ifndef OUTBOX_MAINTENANCE_H
#define OUTBOX_MAINTENANCE_H

#include "postgres.h"

/*
 * Each step in a transaction of its own; raises where one does. False where a
 * lock was refused, so that something is left to do.
 */
extern bool MaintenanceRun(void);

#endif
