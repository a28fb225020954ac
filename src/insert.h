/*
 * insert.h
 *		Puts messages into the log without SQL.
 */
#ifndef OUTBOX_INSERT_H
#define OUTBOX_INSERT_H

#include "postgres.h"

#include "utils/uuid.h"

#include "message.h"

typedef struct LogInsert LogInsert;

/* Locks outbox.message for the rest of the transaction. */
extern LogInsert *LogInsertBegin(void);

/* Identifies, completes and stores the message; gives its id. */
extern void LogInsertMessage(LogInsert *insert, Message *message,
							 pg_uuid_t *id);
extern void LogInsertEnd(LogInsert *insert);

#endif
