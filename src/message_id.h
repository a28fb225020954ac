/*
 * message_id.h
 *		The message id: a UUIDv7 that is a pure function of the immutable row.
 *
 * 48 bits milliseconds and 12 bits of the millisecond's fraction of
 * created_at, the low 14 bits of the stored xid, the low 48 bits of seq.
 */
#ifndef OUTBOX_MESSAGE_ID_H
#define OUTBOX_MESSAGE_ID_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "utils/uuid.h"

#define MESSAGE_ID_STRLEN 36

extern void MessageIdMake(pg_uuid_t *id, TimestampTz created_at, uint64 xid,
						  int64 seq);
extern TimestampTz MessageIdCreatedAt(const pg_uuid_t *id);

/* buf takes MESSAGE_ID_STRLEN + 1 bytes. */
extern void MessageIdFormat(const pg_uuid_t *id, char *buf);

/* Microseconds since the Unix epoch. */
static inline int64
UnixMicroseconds(TimestampTz at)
{
	return at +
		   (int64) (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY;
}

#endif
