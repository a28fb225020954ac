/*
 * lane_table.h
 *		outbox.lane: tells people who works on a lane and what holds it up.
 */
#ifndef OUTBOX_LANE_TABLE_H
#define OUTBOX_LANE_TABLE_H

#include "postgres.h"

#include "datatype/timestamp.h"

typedef struct LaneNotice
{
	int lane;
	bool owned;
	bool failing;
	int attempts;
	TimestampTz next_attempt_at;
	const char *last_error; /* NULL: leave the last one */
} LaneNotice;

/* Frees the lanes of workers that had no time to say that they ended. */
extern void LaneTableForgetDead(void);

/* In a transaction of its own; rows that somebody holds are passed by. */
extern void LaneTableWrite(const LaneNotice *notices, int n);

#endif
