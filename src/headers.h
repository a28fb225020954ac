/*
 * headers.h
 *		The application's own headers: a flat jsonb object.
 */
#ifndef OUTBOX_HEADERS_H
#define OUTBOX_HEADERS_H

#include "postgres.h"

#include "utf8.h"

#define HEADER_CONTENT_TYPE "content-type"

typedef void (*HeaderVisitor)(void *arg, Utf8 name, Utf8 value, bool isnull);

/*
 * Raises where the headers are not a flat object or use a reserved name;
 * returns the bytes they will take.
 */
extern Size HeadersCheck(Datum headers, bool content_type_allowed);

/* Calls the visitor for each header; texts live in the current context. */
extern void HeadersVisit(Datum headers, HeaderVisitor visit, void *arg);

#endif
