/*
 * backoff.h
 *		How long to wait before the next try.
 */
#ifndef OUTBOX_BACKOFF_H
#define OUTBOX_BACKOFF_H

#include "postgres.h"

/*
 * min(base * 2^(attempts - 1), cap), times 0.5 to 1.5; milliseconds.
 * `unit` is a random number in [0, 1).
 */
extern int64 BackoffDelay(int attempts, int64 base, int64 cap, double unit);

#endif
