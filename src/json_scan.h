/*
 * json_scan.h
 *		Walks through a JSON text without taking its values apart.
 *
 * The text comes from a value of type json, so it is known to be valid; what
 * a value contains stays as it is written.
 */
#ifndef OUTBOX_JSON_SCAN_H
#define OUTBOX_JSON_SCAN_H

#include "postgres.h"

typedef struct JsonScan
{
	const char *at;
	const char *end;
} JsonScan;

typedef struct JsonSpan
{
	const char *data;
	int len;
} JsonSpan;

/* The next character that is not blank; '\0' at the end. */
extern char JsonScanPeek(JsonScan *scan);

/* Steps over the character if it comes next. */
extern bool JsonScanSkip(JsonScan *scan, char c);

/* Steps over the value that comes next. */
extern JsonSpan JsonScanValue(JsonScan *scan);

/* What the value is, as json_typeof() says. */
extern const char *JsonSpanType(JsonSpan value);

/* The text of a scalar, as the ->> operator gives it; palloc'd. */
extern char *JsonSpanText(JsonSpan value);

#endif
