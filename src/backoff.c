/*
 * backoff.c
 *		How long to wait before the next try.
 */
#include "postgres.h"

#include "backoff.h"

int64
BackoffDelay(int attempts, int64 base, int64 cap, double unit)
{
	int64 delay = base;

	for (int i = 1; i < attempts && delay < cap; i++)
		delay *= 2;
	if (delay > cap)
		delay = cap;
	return (int64) ((double) delay * (0.5 + unit));
}
