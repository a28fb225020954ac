/*
 * utf8.h
 *		Texts as Kafka gets them: in UTF-8, whatever the database's encoding.
 */
#ifndef OUTBOX_UTF8_H
#define OUTBOX_UTF8_H

#include "postgres.h"

typedef struct Utf8
{
	const char *data;
	int len;
} Utf8;

/*
 * A text or json datum; may point into the datum.  Raises where a character
 * has no UTF-8 form.
 */
extern Utf8 Utf8FromDatum(Datum value);
extern Utf8 Utf8FromBytes(const char *data, int len);

/* Bytes in UTF-8, without detoasting where that is the server's encoding. */
extern Size Utf8Length(Datum value);
extern Size ByteLength(Datum value);

#endif
