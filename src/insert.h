/*
 * insert.h
 *		Puts messages into the log.
 */
#ifndef OUTBOX_INSERT_H
#define OUTBOX_INSERT_H

#include "postgres.h"

#include "utils/uuid.h"

#include "message.h"

typedef struct LogInsert LogInsert;

/* Locks outbox.message for the rest of the transaction. */
extern LogInsert *LogInsertBegin(void);

/*
 * Identifies, completes and stores the message; gives its id.  False where a
 * user's own trigger or rule did not let it in.
 */
extern bool LogInsertMessage(LogInsert *insert, Message *message,
							 pg_uuid_t *id);
extern void LogInsertEnd(LogInsert *insert);

#endif
