/*
 * maintenance.h
 *		A worker's side job: partitions.
 */
#ifndef OUTBOX_MAINTENANCE_H
#define OUTBOX_MAINTENANCE_H

#include "postgres.h"

/* Each step in a transaction of its own; raises where one does. */
extern void MaintenanceRun(void);

#endif
