/*
 * guc.h
 *		The settings.
 */
#ifndef OUTBOX_GUC_H
#define OUTBOX_GUC_H

#include "postgres.h"

/* Of the server: postmaster or reload. */
extern int outbox_max_workers; /* postmaster */
extern bool outbox_enabled;	   /* SUSET: per database too */
extern char *outbox_identity;  /* SIGHUP */

/* Per database (SUSET). */
extern char *outbox_kafka_bootstrap_servers;
extern char *outbox_kafka_options;
extern char *outbox_kafka_config_file;
extern int outbox_workers_per_database;
extern int outbox_batch_size;			/* rows */
extern int outbox_batch_bytes;			/* bytes (GUC_UNIT_BYTE) */
extern int outbox_poll_interval;		/* ms */
extern int outbox_progress_interval;	/* ms */
extern int outbox_maintenance_interval; /* s */
extern int outbox_delivery_timeout;		/* ms */
extern int outbox_max_message_bytes;	/* bytes */
extern int outbox_premake;				/* days */
extern int outbox_retry_base;			/* ms */
extern int outbox_retry_cap;			/* ms */

extern void GucInit(void);

#endif
