/*
 * murmur2.h
 *		Kafka's partitioner hash.  Frozen: lanes are stored in the rows.
 */
#ifndef OUTBOX_MURMUR2_H
#define OUTBOX_MURMUR2_H

#include "postgres.h"

#include "outbox.h"

extern uint32 Murmur2(const char *data, size_t len);

/* The lane of a key given in UTF-8. */
static inline int
KeyLane(const char *key, size_t len)
{
	return (int) ((Murmur2(key, len) & 0x7fffffff) % OUTBOX_LANES);
}

#endif
