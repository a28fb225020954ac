/*
 * message.h
 *		One message on its way into the log: checked, completed, announced.
 *
 * enqueue() and the row trigger of outbox.message meet here, so that a plain
 * INSERT, COPY and enqueue() obey the same rules.
 */
#ifndef OUTBOX_MESSAGE_H
#define OUTBOX_MESSAGE_H

#include "postgres.h"

#include "datatype/timestamp.h"

#include "outbox.h"

/* Columns by MessageAttr - 1. */
typedef struct Message
{
	Datum values[MSG_NATTS];
	bool isnull[MSG_NATTS];
} Message;

#define MessageValue(m, attr) ((m)->values[(attr) -1])
#define MessageIsNull(m, attr) ((m)->isnull[(attr) -1])

static inline void
MessageSet(Message *m, int attr, Datum value)
{
	m->values[attr - 1] = value;
	m->isnull[attr - 1] = false;
}

/* Give created_at, then seq and xid; they need the lock on outbox.message. */
extern void MessageDate(Message *message);
extern void MessageNumber(Message *message);

/* Lets the row trigger accept the row that an INSERT is about to bring. */
extern void MessageIssue(const Message *message);

/*
 * Checks what the application gave, resolves topic and lane, and sees to the
 * wake-up at commit.  Raises where the message cannot be accepted.
 */
extern void MessageComplete(Message *message);

/* A stored xid of the current transaction; 0 where it has none. */
extern uint64 MessageOwnXid(void);

#endif
