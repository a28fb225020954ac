/*
 * message_id.c
 *		Making and reading message ids.
 */
#include "postgres.h"

#include "message_id.h"

static void
store_be(unsigned char *dst, uint64 value, int bytes)
{
	while (bytes-- > 0)
	{
		dst[bytes] = (unsigned char) value;
		value >>= 8;
	}
}

static uint64
load_be(const unsigned char *src, int bytes)
{
	uint64 value = 0;

	for (int i = 0; i < bytes; i++)
		value = value << 8 | src[i];
	return value;
}

void
MessageIdMake(pg_uuid_t *id, TimestampTz created_at, uint64 xid, int64 seq)
{
	int64 us = UnixMicroseconds(created_at);
	int64 ms = us / 1000;
	int64 rest = us % 1000;

	if (rest < 0)
	{
		rest += 1000;
		ms--;
	}

	/* 4096 steps a millisecond keep its 1000 microseconds apart. */
	store_be(&id->data[0], (uint64) ms, 6);
	store_be(&id->data[6], UINT64CONST(0x7000) | (uint64) (rest * 4096 / 1000),
			 2);
	store_be(&id->data[8], UINT64CONST(0x8000) | (xid & 0x3fff), 2);
	store_be(&id->data[10], (uint64) seq & UINT64CONST(0xffffffffffff), 6);
}

TimestampTz
MessageIdCreatedAt(const pg_uuid_t *id)
{
	int64 ms = (int64) load_be(&id->data[0], 6);
	int64 fraction = (int64) (load_be(&id->data[6], 2) & 0xfff);

	return ms * 1000 + (fraction * 1000 + 4095) / 4096 -
		   (int64) (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY;
}

void
MessageIdFormat(const pg_uuid_t *id, char *buf)
{
	static const char digits[] = "0123456789abcdef";

	for (int i = 0; i < UUID_LEN; i++)
	{
		if (i == 4 || i == 6 || i == 8 || i == 10)
			*buf++ = '-';
		*buf++ = digits[id->data[i] >> 4];
		*buf++ = digits[id->data[i] & 0xf];
	}
	*buf = '\0';
}
