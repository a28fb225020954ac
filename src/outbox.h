/*
 * outbox.h
 *		Names, limits and the few types that every module shares.
 */
#ifndef OUTBOX_H
#define OUTBOX_H

#include "postgres.h"

#include "compat.h"

#define OUTBOX_SCHEMA "outbox"
#define OUTBOX_EXTENSION "outbox"
#define OUTBOX_VERSION "1.0"

/* Fixed for ever: lanes are stored in the rows. */
#define OUTBOX_LANES 16

/* Lane of messages that another database publishes. */
#define OUTBOX_NO_LANE (-1)

/* What Kafka accepts as a topic name. */
#define OUTBOX_TOPIC_MAX 249

/* Topic of an aggregate type that no route names. */
#define OUTBOX_DEFAULT_TOPIC "outbox.event.{aggregate_type}"

/*
 * A stored xid is the cluster's own full xid plus life * 2^44; the low 32
 * bits stay the real ones.
 */
#define OUTBOX_LIFE_SHIFT 44
#define OUTBOX_LIFE_BASE(life) ((uint64) (life) << OUTBOX_LIFE_SHIFT)

/* Columns of outbox.message, in the order of the install script. */
enum MessageAttr
{
	MSG_SEQ = 1,
	MSG_CREATED_AT,
	MSG_XID,
	MSG_LANE,
	MSG_AGGREGATE_TYPE,
	MSG_AGGREGATE_ID,
	MSG_EVENT_TYPE,
	MSG_TOPIC,
	MSG_KEY,
	MSG_PAYLOAD,
	MSG_PAYLOAD_BYTES,
	MSG_HEADERS,
	MSG_DELIVER_AT,
	MSG_EXPIRES_AT
};

#define MSG_NATTS MSG_EXPIRES_AT

#endif
