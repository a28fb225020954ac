/*
 * record.h
 *		From a row of the log to a Kafka record: CloudEvents 1.0, binary mode.
 */
#ifndef OUTBOX_RECORD_H
#define OUTBOX_RECORD_H

#include "postgres.h"

#include "executor/tuptable.h"

#include "producer.h"
#include "utf8.h"

/*
 * Everything the record points to lives in the slot, in static storage or in
 * the current memory context, *topic too: the record's topic is left to the
 * caller.
 */
extern void RecordBuild(TupleTableSlot *slot, const char *source,
						ProducerRecord *record, Utf8 *topic);

#endif
